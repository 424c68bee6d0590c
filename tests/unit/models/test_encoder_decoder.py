"""The encoder-decoder: step by step, in batches, with padding, with search: always the same logits."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.unit.models.small import VOCABULARY, real_tokens, small_model, some_tokens
from torch import Tensor

from dikkat.kernels import attention, query_blocks
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.recorder import MapName, record_attention

KINDS: list[dict[str, Any]] = [
    {"norm_placement": "pre"},
    {"norm_placement": "post"},
    {"norm_placement": "post", "attention_bias": False, "tie_embeddings": False},
    {"norm_placement": "pre", "activation": "gelu", "encoder_layers": 1, "decoder_layers": 3},
]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=["pre", "post", "post, untied, no bias", "pre, gelu, 1 and 3"])


@pytest.mark.seed("E7")
@every_kind
@torch.no_grad()
def test_step_by_step_is_teacher_forcing_at_every_position(kind: dict[str, Any]) -> None:
    """300 positions: the position table and the cache have to grow on the way."""
    model, source, target = small_model(**kind), some_tokens(3, 9), some_tokens(3, 300)
    mask = real_tokens([9, 4, 1], 9)
    forced = model(source, target, mask)
    cache = model.start_cache(model.encode(source, mask), mask)
    for position in range(300):
        assert cache.length == position
        stepped = model.step(target[:, position], cache)
        torch.testing.assert_close(stepped, forced[:, position], rtol=0, atol=1e-5)


@every_kind
@torch.no_grad()
def test_rows_of_one_sentence_are_rows_of_their_own(kind: dict[str, Any]) -> None:
    model, source, mask, rows = small_model(**kind), some_tokens(2, 6), real_tokens([6, 3], 6), 3
    memory = model.encode(source, mask)
    together = model.start_cache(memory, mask, rows_per_sentence=rows)
    separate = model.start_cache(memory.repeat_interleave(rows, 0), mask.repeat_interleave(rows, 0))
    for _ in range(5):
        tokens = some_tokens(2 * rows)
        torch.testing.assert_close(model.step(tokens, together), model.step(tokens, separate), rtol=0, atol=1e-6)


class Search:
    """Random search steps; the books are the plain tokens of every row, and the truth is teacher forcing on them."""

    def __init__(self, model: EncoderDecoder, source: Tensor, mask: Tensor, rows: int) -> None:
        self.model, self.rows = model, rows
        self.source, self.mask = source.repeat_interleave(rows, 0), mask.repeat_interleave(rows, 0)
        self.target = torch.empty(source.shape[0] * rows, 0, dtype=torch.int64)
        self.cache = model.start_cache(model.encode(source, mask), mask, rows_per_sentence=rows)

    @property
    def sentences(self) -> int:
        return self.target.shape[0] // self.rows

    def step(self) -> None:
        tokens = some_tokens(self.target.shape[0])
        self.target = torch.cat((self.target, tokens[:, None]), dim=1)
        expected = self.model(self.source, self.target, self.mask)[:, -1]
        torch.testing.assert_close(self.model.step(tokens, self.cache), expected, rtol=0, atol=1e-5)

    def reorder(self, choose: random.Random) -> None:
        index = [s * self.rows + choose.randrange(self.rows) for s in range(self.sentences) for _ in range(self.rows)]
        self.cache.reorder(torch.tensor(index))
        self.target = self.target[index]

    def drop(self, choose: random.Random) -> None:
        keep = sorted(choose.sample(range(self.sentences), self.sentences - 1))
        self.cache.drop(torch.tensor(keep))
        kept = [s * self.rows + row for s in keep for row in range(self.rows)]
        self.source, self.mask, self.target = self.source[kept], self.mask[kept], self.target[kept]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("placement", ["pre", "post"])
@torch.no_grad()
def test_reordered_and_dropped_rows_go_on_as_if_they_had_been_alone(placement: str, seed: int) -> None:
    choose = random.Random(seed)
    model = small_model(norm_placement=placement)
    search = Search(model, some_tokens(4, 7), real_tokens([7, 2, 5, 1], 7), rows=choose.choice([1, 2, 3]))
    for _ in range(20):
        search.step()
        if choose.random() < 0.6:
            search.reorder(choose)
        if search.sentences > 1 and choose.random() < 0.2:
            search.drop(choose)
    assert search.cache.length == 20


@torch.no_grad()
def test_a_step_may_be_changed_by_its_caller() -> None:
    """Decoding masks the logits in place; the next step must not see it."""
    model, source, mask = small_model(), some_tokens(2, 4), real_tokens([4, 4], 4)
    first, second = (model.start_cache(model.encode(source, mask), mask) for _ in range(2))
    tokens = some_tokens(3, 2)
    for step in tokens:
        changed, whole = model.step(step, first), model.step(step, second)
        assert torch.equal(changed, whole)
        changed.fill_(float("nan"))


@every_kind
@pytest.mark.parametrize("training", [False, True])
@torch.no_grad()
def test_the_future_changes_nothing(kind: dict[str, Any], training: bool) -> None:
    model, source, target = small_model(**kind).train(training), some_tokens(2, 5), some_tokens(2, 8)
    mask = real_tokens([5, 3], 5)
    logits = model(source, target, mask)
    for position in range(1, 8):
        changed = target.clone()
        changed[:, position:] = (changed[:, position:] - 3 + 7) % (VOCABULARY - 3) + 3
        difference = (model(source, changed, mask) - logits).abs().amax(-1)
        assert difference[:, :position].max() <= 1e-6
        assert difference[:, position].min() > 1e-3


@pytest.mark.seed("F6")
@every_kind
@pytest.mark.parametrize("training", [False, True])
@torch.no_grad()
def test_padding_appended_to_either_side_changes_nothing(kind: dict[str, Any], training: bool) -> None:
    """Whatever id the padding has: what is masked is not looked at."""
    model, source, target = small_model(**kind).train(training), some_tokens(2, 5), some_tokens(2, 4)
    mask = real_tokens([5, 3], 5)
    logits = model(source, target, mask)
    for padding in (0, VOCABULARY - 1):
        longer_source = torch.cat((source, torch.full((2, 6), padding)), dim=1)
        longer_mask = torch.cat((mask, torch.zeros(2, 6, dtype=torch.bool)), dim=1)
        longer_target = torch.cat((target, torch.full((2, 3), padding)), dim=1)
        padded = model(longer_source, longer_target, longer_mask)[:, :4]
        torch.testing.assert_close(padded, logits, rtol=0, atol=1e-6)


@pytest.mark.seed("F6")
@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
@pytest.mark.parametrize("kind", [*KINDS[:2], {"positions": "alibi"}], ids=["pre", "post", "alibi"])
@pytest.mark.parametrize("learning", [False, True])
def test_no_length_is_so_long_that_padding_changes_something(
    learning: bool, kind: dict[str, Any], dtype: torch.dtype, tolerance: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From 100 tokens to 200 and 600, past every length at which attention changes how it computes."""
    monkeypatch.setattr(query_blocks, "BLOCK_WEIGHTS", 128 * 128)
    assert 100 * 100 < attention.SHORT == query_blocks.BLOCK_WEIGHTS < 200 * 200
    model, source, target = small_model(**kind).to(dtype), some_tokens(2, 100), some_tokens(2, 100)
    mask = real_tokens([100, 30], 100)
    with torch.set_grad_enabled(learning):
        logits = model(source, target, mask)
        for length in (100, 500):
            more = torch.zeros(2, length, dtype=torch.int64)
            longer_source, longer_target = torch.cat((source, more), dim=1), torch.cat((target, more), dim=1)
            padded = model(longer_source, longer_target, torch.cat((mask, more.bool()), dim=1))[:, :100]
            torch.testing.assert_close(padded, logits, rtol=0, atol=tolerance)


@pytest.mark.seed("F6")
@pytest.mark.usefixtures("either_path")
@pytest.mark.parametrize("kind", [*KINDS[:2], {"positions": "alibi"}], ids=["pre", "post", "alibi"])
@pytest.mark.parametrize("length", [2, 5, 11, 15])
@torch.no_grad()
def test_one_short_sentence_may_be_padded(kind: dict[str, Any], length: int) -> None:
    """Products of few rows, and softmaxes of few numbers, round otherwise where nothing is done about it."""
    model, source, target = small_model(**kind), some_tokens(1, length), some_tokens(1, length)
    for parameter in model.parameters():
        parameter.mul_(1.5)
    mask = real_tokens([length], length)
    logits = model(source, target, mask)
    for more in (1, 3, 20):
        extra = torch.zeros(1, more, dtype=torch.int64)
        longer_mask = torch.cat((mask, extra.bool()), dim=1)
        padded = model(torch.cat((source, extra), dim=1), torch.cat((target, extra), dim=1), longer_mask)[:, :length]
        torch.testing.assert_close(padded, logits, rtol=0, atol=1e-6)


# float32 products of other shapes round otherwise (2e-6 was seen at logits around 5); float64 shows no more than that
PRECISIONS = [(torch.float32, 1e-5), (torch.float64, 1e-12)]


@every_kind
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@torch.no_grad()
def test_a_batch_of_one_is_a_row_of_a_batch_of_many(kind: dict[str, Any], dtype: torch.dtype, tolerance: float) -> None:
    model, lengths = small_model(**kind).to(dtype), [7, 1, 4, 6, 2]
    source, target, mask = some_tokens(5, 7), some_tokens(5, 6), real_tokens(lengths, 7)
    logits = model(source, target, mask)
    for row, length in enumerate(lengths):
        alone = model(source[row : row + 1, :length], target[row : row + 1], mask[row : row + 1, :length])
        torch.testing.assert_close(alone[0], logits[row], rtol=0, atol=tolerance)


@every_kind
def test_every_parameter_gets_a_gradient(kind: dict[str, Any]) -> None:
    model, mask = small_model(**kind).train(), real_tokens([5, 3], 5)
    model(some_tokens(2, 5), some_tokens(2, 4), mask).logsumexp(-1).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name
        assert torch.isfinite(parameter.grad).all(), name


@pytest.mark.seed("F19")
@every_kind
def test_an_empty_source_gives_finite_logits_and_gradients(kind: dict[str, Any]) -> None:
    model, mask = small_model(**kind), real_tokens([4, 0], 4)
    logits = model(some_tokens(2, 4), some_tokens(2, 3), mask)
    logits.square().sum().backward()
    assert torch.isfinite(logits).all()
    assert all(p.grad is not None and bool(torch.isfinite(p.grad).all()) for p in model.parameters())


@pytest.mark.seed("A17")
@torch.no_grad()
def test_the_source_changes_the_output() -> None:
    model, source, target, mask = small_model(), some_tokens(1, 5), some_tokens(1, 4), real_tokens([5], 5)
    assert not torch.allclose(model(source, target, mask), model(source.flip(1), target, mask), atol=1e-3)


@torch.no_grad()
def test_logits_are_the_projection_of_the_hidden_states() -> None:
    model, source, target, mask = small_model(), some_tokens(2, 5), some_tokens(2, 4), real_tokens([5, 3], 5)
    hidden = model.decode(target, model.encode(source, mask), mask)
    assert hidden.shape == (2, 4, 16)
    torch.testing.assert_close(model(source, target, mask), hidden @ model.output_weight.T)


def test_every_dropout_setting_reaches_the_model() -> None:
    """Embeddings and sub-layers with `dropout`, weights with `attention_dropout`; in evaluation none."""
    source, target, mask = some_tokens(2, 5), some_tokens(2, 4), real_tokens([5, 3], 5)
    for settings in ({"dropout": 0.3}, {"attention_dropout": 0.3}):
        model = small_model(**settings)
        evaluated = model(source, target, mask)
        assert torch.equal(evaluated, model(source, target, mask))
        model.train()
        assert not torch.allclose(model(source, target, mask), evaluated)
        torch.manual_seed(5)
        first = model(source, target, mask)
        torch.manual_seed(5)
        assert torch.equal(model(source, target, mask), first)


@torch.no_grad()
def test_the_embeddings_of_either_side_are_dropped() -> None:
    """Only `dropout` of the model itself is on: what differs between two runs comes from the embeddings."""
    model, source, target, mask = small_model(), some_tokens(2, 5), some_tokens(2, 4), real_tokens([5, 3], 5)
    memory = model.encode(source, mask)
    model.train()
    model.dropout.probability = 0.5
    runs: list[Callable[[], Tensor]] = [
        lambda: model.encode(source, mask),
        lambda: model.decode(target, memory, mask),
        lambda: model.step(target[:, 0], model.start_cache(memory, mask)),
    ]
    for run in runs:
        assert not torch.allclose(run(), run())
    model.eval()
    for run in runs:
        assert torch.equal(run(), run())


def test_bfloat16_runs_everywhere_and_stays_near_float32() -> None:
    model, source, target, mask = small_model(), some_tokens(2, 5), some_tokens(2, 4), real_tokens([5, 3], 5)
    exact = model(source, target, mask).detach()
    model.bfloat16()
    logits = model(source, target, mask)
    assert logits.dtype == torch.bfloat16
    assert (logits.float() - exact).abs().max() <= 0.05 * exact.abs().max()
    logits.float().logsumexp(-1).sum().backward()
    assert all(p.grad is not None and bool(torch.isfinite(p.grad).all()) for p in model.parameters())
    with torch.no_grad():
        cache = model.start_cache(model.encode(source, mask), mask)
        stepped = model.step(target[:, 0], cache)
    assert (stepped.float() - logits[:, 0].float()).abs().max() <= 0.05 * exact.abs().max()


@pytest.mark.seed("E9", "E16", "E17")
@torch.no_grad()
def test_the_maps_of_a_whole_model() -> None:
    model, source, target, mask = small_model(), some_tokens(2, 5), some_tokens(2, 4), real_tokens([5, 3], 5)
    with record_attention(model) as maps:
        logits = model(source, target, mask)
    assert logits.shape == (2, 4, VOCABULARY)
    pair = [("encoder", "self"), ("decoder", "self"), ("decoder", "cross")]
    assert set(maps) == {(stack, layer, kind) for stack, kind in pair for layer in range(2)}
    for name, (weights,) in maps.items():
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]), rtol=0, atol=1e-6)
        if name.stack == "encoder" or name.kind == "cross":
            assert (weights[1, :, :, 3:] == 0).all()
        else:
            assert (weights.triu(1) == 0).all()


@torch.no_grad()
def test_maps_of_stepwise_decoding_are_the_rows_of_the_whole_map() -> None:
    model, source, target, mask = small_model(), some_tokens(2, 5), some_tokens(2, 4), real_tokens([5, 3], 5)
    with record_attention(model) as whole:
        model(source, target, mask)
    with record_attention(model, lambda name: name.stack == "decoder") as stepped:
        cache = model.start_cache(model.encode(source, mask), mask)
        for position in range(4):
            model.step(target[:, position], cache)
    for layer in range(2):
        cross = torch.cat(stepped[MapName("decoder", layer, "cross")], dim=2)
        torch.testing.assert_close(cross, whole[MapName("decoder", layer, "cross")][0], rtol=0, atol=1e-5)
        for position, row in enumerate(stepped[MapName("decoder", layer, "self")]):
            expected = whole[MapName("decoder", layer, "self")][0][:, :, position : position + 1, : position + 1]
            torch.testing.assert_close(row, expected, rtol=0, atol=1e-5)
