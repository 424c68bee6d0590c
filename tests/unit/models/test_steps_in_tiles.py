"""Decoding by PyTorch in bfloat16, where eight bits are asked for and there is no native code, against float32."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.unit.models.small import real_tokens, small_model, some_tokens
from torch import Tensor

from dikkat.decoding.beam import beam_search
from dikkat.decoding.greedy import greedy
from dikkat.models import native_coverage
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.native_decoding import NativeCache
from dikkat.native.steps_by_torch import StepsByTorch
from dikkat.nn.recorder import record_attention
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions

pytestmark = [
    pytest.mark.skipif(
        not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="PyTorch has no products of packed bfloat16 here"
    ),
    pytest.mark.usefixtures("without_kernels"),
]
CLOSE = 0.1
"""Of logits, which are of the size of 1: some ten roundings to eight bits of a mantissa."""
SHAPES: list[dict[str, Any]] = [
    {},
    {"norm_placement": "post", "activation": "gelu"},
    {"positions": "learned", "attention_bias": False, "encoder_layers": 1, "decoder_layers": 3},
    {"head_dim": 12, "tie_embeddings": False},
]


@pytest.fixture(autouse=True)
def _tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products are the same, only slower, on a processor without tiles."""
    monkeypatch.setattr(native_coverage, "has_tiles", lambda: True)


def both(**choice: Any) -> tuple[EncoderDecoder, EncoderDecoder]:
    """The same model to be computed with in bfloat16, and in float32."""
    fast, exact = small_model(**choice), small_model(**choice)
    fast.quantize()
    return fast, exact


def begun(model: EncoderDecoder, lengths: list[int], rows: int) -> Any:
    torch.manual_seed(7)
    source, mask = some_tokens(len(lengths), max(lengths)), real_tokens(lengths, max(lengths))
    return model.start_cache(model.encode(source, mask), mask, rows_per_sentence=rows)


@pytest.mark.parametrize("choice", SHAPES)
@torch.no_grad()
def test_states_of_the_source_are_those_of_float32(choice: dict[str, Any]) -> None:
    fast, exact = both(**choice)
    # more rows than one block of products has
    source, mask = some_tokens(40, 17), real_tokens([17, 1, 9, 16] * 10, 17)
    found, wanted = fast.encode(source, mask), exact.encode(source, mask)
    assert found.dtype == torch.float32
    assert not torch.equal(found, wanted)
    torch.testing.assert_close(found[mask], wanted[mask], atol=CLOSE, rtol=CLOSE)
    assert not found[~mask].any()


@pytest.mark.parametrize(
    "lengths", [[64] * 9, [3, 61, 2, 1, 5], [70] * 8 + [3], [40, 1] * 20, [512, 300, 9], [530, 4, 300]], ids=str
)
@torch.no_grad()
def test_states_are_the_same_however_sentences_are_laid_out(lengths: list[int]) -> None:
    """Several in a row or one, up to its end, in one block of rows or more; also as if each were alone."""
    fast, exact = both()
    torch.manual_seed(3)
    source, mask = some_tokens(len(lengths), max(lengths)), real_tokens(lengths, max(lengths))
    found = fast.encode(source, mask)
    torch.testing.assert_close(found[mask], exact.encode(source, mask)[mask], atol=CLOSE, rtol=CLOSE)
    assert not found[~mask].any()
    for row, length in enumerate(lengths):
        alone = fast.encode(source[row : row + 1, :length], mask[row : row + 1, :length])
        torch.testing.assert_close(found[row, :length], alone[0], atol=CLOSE, rtol=CLOSE)


@pytest.mark.parametrize("choice", SHAPES)
@torch.no_grad()
def test_steps_have_the_logits_of_float32(choice: dict[str, Any]) -> None:
    """With reordered rows, sentences that leave, and more positions than there is room for at first."""
    fast, exact = both(**choice)
    lengths = [9, 4, 1, 7, 7, 3, 2, 9, 5, 5, 8, 6]
    caches = begun(fast, lengths, 3), begun(exact, lengths, 3)
    assert isinstance(caches[0], NativeCache)
    assert isinstance(caches[0]._steps, StepsByTorch)
    staying = {5: [0, 1, 2, 4, 5, 6, 8, 9, 10, 11], 9: [0, 2, 3, 9], 20: [3, 1], 41: [1]}
    # they are of any order in a beam, and their number falls where others leave
    sentences, tokens = len(lengths), some_tokens(50, 36)
    for place, each in enumerate(tokens):
        given = each[: 3 * sentences]
        found, wanted = (model.step(given, cache) for model, cache in zip((fast, exact), caches, strict=True))
        torch.testing.assert_close(found.float(), wanted, atol=CLOSE, rtol=CLOSE)
        if (kept := staying.get(place)) is not None:
            sentences = len(kept)
            for cache in caches:
                cache.drop(torch.tensor(sorted(kept)))
        order = torch.tensor([3 * sentence + row for sentence in range(sentences) for row in (2, 0, 0)])
        if place % 4 == 1:
            for cache in caches:
                cache.reorder(order)
        assert caches[0].length == caches[1].length == place + 1
    # who asks for it is given what the cache holds, and the model's own step goes on from there
    assert len(caches[0].self_attention) == len(fast.decoder.blocks)
    assert not caches[0].steps_natively
    torch.testing.assert_close(
        fast.step(tokens[0, :3], caches[0]).float(), exact.step(tokens[0, :3], caches[1]), atol=CLOSE, rtol=CLOSE
    )


@pytest.mark.parametrize("rows", [1, 2])
@torch.no_grad()
def test_steps_are_the_same_in_whatever_order_sentences_of_all_lengths_stand(rows: int) -> None:
    """They are in groups by length, and those that stay move into groups of longer ones."""
    fast, exact = both()
    lengths = [3, 70, 21, 5, 40, 9] * 20
    caches = begun(fast, lengths, rows), begun(exact, lengths, rows)
    staying = {1: range(0, 120, 2), 2: range(1, 60, 3), 3: [0, 7, 8, 19]}
    sentences = len(lengths)
    for place, each in enumerate(some_tokens(6, rows * sentences)):
        given = each[: rows * sentences]
        found, wanted = (model.step(given, cache) for model, cache in zip((fast, exact), caches, strict=True))
        torch.testing.assert_close(found.float(), wanted, atol=CLOSE, rtol=CLOSE)
        if (kept := staying.get(place)) is not None:
            sentences = len(kept)
            for cache in caches:
                cache.drop(torch.tensor(kept))


@torch.no_grad()
def test_who_reads_attention_gets_what_it_attends_with() -> None:
    fast, exact = both()
    seen: list[list[Tensor]] = []
    tokens = some_tokens(3, 6)
    for model in (fast, exact):
        cache = begun(model, [9, 4, 1], 2)
        with record_attention(model.decoder) as records:
            for each in tokens:
                model.step(each, cache)
        seen.append([step for record in records.values() for step in record])
    assert len(seen[0]) == len(seen[1]) > 0
    for found, wanted in zip(*seen, strict=True):
        assert found.shape == wanted.shape
        torch.testing.assert_close(found, wanted, atol=CLOSE, rtol=0)


def test_greedy_is_a_beam_of_one_and_ends_as_any_other_search() -> None:
    fast, _ = both()
    source, mask = some_tokens(21, 9), real_tokens([9, 4, 1] * 7, 9)
    alone = greedy(fast, source, mask, DecodingOptions())
    beams = beam_search(fast, source, mask, BeamOptions(beam_size=1))
    assert [each.tokens for each in alone] == [each[0].tokens for each in beams]
    for each in beam_search(fast, source, mask, BeamOptions(beam_size=4, n_best=3)):
        ranks = [(found.finished, found.score) for found in each]
        assert ranks == sorted(ranks, reverse=True)


def test_threads_are_better_apart_where_pytorch_steps() -> None:
    fast, exact = both()
    assert not fast.decodes_natively()
    assert not exact.decodes_natively()


def test_many_rows_are_best_decoded_together_where_pytorch_steps_in_tiles() -> None:
    fast, exact = both()
    assert [fast.sentences_at_once(beam) for beam in (1, 5, 20)] == [1024, 204, 128]
    assert [exact.sentences_at_once(beam) for beam in (1, 5, 20)] == [128, 128, 128]


@torch.no_grad()
def test_what_cannot_be_computed_is_refused() -> None:
    fast, _ = both()
    cache = begun(fast, [3, 2], 1)
    with pytest.raises(ValueError, match=r"the cache has 2 rows, but the tokens have the shape \(3,\)"):
        fast.step(torch.tensor([4, 5, 6]), cache)
    with pytest.raises(IndexError, match="a token must lie between 0 and"):
        fast.step(torch.tensor([4, 10_000]), cache)
    broken = small_model()
    broken.decoder.blocks[0].feed_forward.inner.weight.data[0, 0] = torch.nan  # type: ignore[union-attr, operator]
    with pytest.raises(ValueError, match="not finite"):
        broken.quantize()
    assert broken.quantized is None
