"""The gradients of a decoder are whole while the encoder's are computed, and ranks that exchange them then agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.unit.training.distributed.test_exchanges import by_ranks
from tests.unit.training.toy import VOCABULARY, toy_model, toy_trainer
from torch import Tensor

from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.layers import set_products
from dikkat.training.budget import UpdateBudget
from dikkat.training.distributed.exchanged_sum import take
from dikkat.training.distributed.ranks import ONE_PROCESS, Ranks
from dikkat.training.distributed.shared_work import EarlyGradients
from dikkat.training.loop import Trainer
from dikkat.training.parameters import FlatParameters
from dikkat.training.precision import Precision
from dikkat.training.translation import TranslationTask

KINDS: list[dict[str, Any]] = [
    {},
    {"tie_embeddings": False, "start_from_zero": True, "encoder_layers": 2, "decoder_layers": 3},
    {"target_vocab_size": VOCABULARY + 2, "positions": "learned", "norm_placement": "post"},
    {"positions": "relative_buckets", "tie_embeddings": False},
]


def backward(model: EncoderDecoder) -> None:
    """Go back once through a batch of random ids."""
    generator = torch.Generator().manual_seed(4)
    source, target = (torch.randint(4, VOCABULARY, (3, length), generator=generator) for length in (6, 5))
    model(source, target, torch.ones_like(source, dtype=torch.bool)).float().log_softmax(-1)[..., 4].sum().backward()


@pytest.mark.parametrize("products", ["exact", "int8"])
@pytest.mark.parametrize("kind", KINDS, ids=["tied", "separate, deep, zero row", "learned, post", "buckets"])
def test_early_gradients_are_those_of_the_whole_pass(kind: dict[str, Any], products: Any) -> None:
    model = toy_model(**kind)
    flat = FlatParameters(model)
    set_products(model, products)
    early = EarlyGradients(model, flat)
    with flat.collect_gradients():
        backward(model)
    wanted = flat.gradient.clone()
    handed: list[Tensor] = []
    states: list[bool] = []

    def hand_over(entries: Tensor) -> None:
        handed.append(entries)
        # the encoder's last layer comes after its memory
        states.append(model.get_parameter("encoder.blocks.0.feed_forward.inner.weight").grad is None)

    before = torch.arange(len(wanted)) % 7.0
    for sum_before, whole in ((None, wanted), (before, before + wanted)):
        flat.gradient.fill_(7.0)
        with flat.collect_gradients(), early.handed(hand_over, sum_before):
            backward(model)
        assert torch.equal(flat.gradient, wanted)
        assert torch.equal(handed.pop(), take(whole, early.spans))
        assert states.pop(), "the encoder has gone back already"
    assert not handed
    with flat.collect_gradients():
        backward(model)
    assert not handed, "a pass outside of it hands over nothing"
    covered = {
        span.name for span in flat.spans if any(own.start <= span.start and span.end <= own.stop for own in early.spans)
    }
    decoders = {name for name, _ in model.named_parameters() if name.startswith("decoder.")}
    assert decoders <= covered
    assert not any(name.startswith(("encoder.", "source_embedding", "positions", "embedding_norm")) for name in covered)
    assert ("output_weight" in covered) == (model.output_weight is not model.source_embedding.weight)


def test_a_gradient_that_comes_after_its_collection_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    model = toy_model()
    # as if the encoder shared nothing with the decoder
    monkeypatch.setattr(
        EncoderDecoder, "decoder_parameters", lambda own: [*own.decoder.parameters(), own.output_weight]
    )
    flat = FlatParameters(model)
    early = EarlyGradients(model, flat)
    with (
        pytest.raises(RuntimeError, match="a gradient of output_weight came after it was collected"),
        flat.collect_gradients(),
        early.handed(lambda entries: None, None),
    ):
        backward(model)


def trainer_of(folder: Path, ranks: Ranks, tied: bool, accumulate: int, dtype: torch.dtype) -> Trainer:
    """Return a trainer of four parts an update, with dropout."""
    toy = toy_trainer(folder, tokens_per_batch=80, micro_batches=4, accumulate=accumulate, optimizer="muon")
    assert isinstance(toy.task, TranslationTask)
    toy.task.model = toy_model(0.2, tie_embeddings=tied)
    return Trainer(toy.task, toy.run, toy.config, UpdateBudget(9), Precision(dtype), ranks)


@pytest.mark.parametrize(
    ("count", "tied", "accumulate", "dtype"),
    [
        (2, True, 1, torch.float32),
        (2, False, 2, torch.bfloat16),
        *(
            pytest.param(count, tied, accumulate, dtype, marks=pytest.mark.nightly)
            for count, tied, accumulate, dtype in [
                (2, False, 1, torch.float32),
                (2, True, 3, torch.bfloat16),
                (3, True, 1, torch.float32),
                (3, False, 2, torch.bfloat16),
                (4, False, 1, torch.bfloat16),
                (4, True, 2, torch.float32),
            ]
        ),
    ],
    ids=str,
)
def test_ranks_that_exchange_them_early_have_the_bits_of_one_process(
    tmp_path: Path, count: int, tied: bool, accumulate: int, dtype: torch.dtype
) -> None:
    def work(ranks: Ranks) -> str:
        folder = tmp_path / str(ranks.index)
        alone = trainer_of(folder / "alone", ONE_PROCESS, tied, accumulate, dtype)
        shared = trainer_of(folder / "shared", ranks, tied, accumulate, dtype)
        assert alone.work.early is None
        assert shared.work.early is not None
        for update in range(4):
            sums = [trainer.launch(0.1 * update) for trainer in (alone, shared)]
            assert torch.equal(sums[0][0], sums[1][0])
            assert sums[0][1] == sums[1][1]
            assert torch.equal(alone.parameters.master, shared.parameters.master), f"update {update}"
            assert shared.parameters._early, "the last pass handed nothing over"
        return "same"

    assert by_ranks(count, work) == [("", "same", 0)] * count
