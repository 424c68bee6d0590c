"""Bad input of every way to attend: the error names the argument, the limit and the value given."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.unit.nn.forms import FORMS, taking
from torch import Tensor

from dikkat.nn.blocks import DecoderBlock, EncoderBlock
from dikkat.nn.functional import attention, attention_weights, fused_attention
from dikkat.nn.linear_time_attention import linear_attention
from dikkat.nn.masks import key_mask, valid_length_mask
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.named_positions import attention_positions
from dikkat.nn.relative import AlibiBias
from dikkat.nn.scorers import AdditiveAttention, AdditiveScore, BilinearScore
from dikkat.nn.sliding_window import chunked_attention, sliding_window_attention

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

B, H, T, K = 2, 2, 3, 4
Attend = Callable[..., object]


def by_kernel(*inputs: Any) -> object:
    with taking("kernel"):
        return fused_attention(*inputs)


FUNCTIONS: dict[str, Attend] = {
    "reference": attention,
    "products": fused_attention,
    "kernel": by_kernel,
    "chunked": chunked_attention,
    "linear": lambda q, k, v: linear_attention(q, k, v),
    "sliding window": lambda q, k, v: sliding_window_attention(q, k, v, 1),
}
"""Query, key and value of shape (B, H, T, K); the first four take a mask too."""
MODULES: dict[str, dict[str, Any]] = {
    "plain": {},
    "additive": {"score": "additive"},
    "drawn": {"selection": "gumbel"},
    "alibi": {"positions": "alibi"},
    "rotary": {"positions": "rotary"},
    "window": {"window": 1},
}
every_function = pytest.mark.parametrize("attend", FUNCTIONS.values(), ids=FUNCTIONS)
every_masked_function = pytest.mark.parametrize("attend", list(FUNCTIONS.values())[:4], ids=list(FUNCTIONS)[:4])
every_module = pytest.mark.parametrize("options", MODULES.values(), ids=MODULES)
some_module = pytest.mark.parametrize("options", list(MODULES.values())[:3], ids=list(MODULES)[:3])


def build(positions: str = "none", **options: Any) -> MultiHeadAttention:
    return MultiHeadAttention(H * K, H, positions=attention_positions(positions, H, K, causal=False), **options)


def heads(length: int = T, width: int = K, batch: int = B) -> Tensor:
    return torch.randn(batch, H, length, width)


NO_MASKS: list[tuple[Any, str]] = [
    (torch.zeros(T, T), "torch.float32"),
    (torch.ones(T, T, dtype=torch.uint8), "torch.uint8"),
    (torch.ones(T, T, dtype=torch.int64), "torch.int64"),
    (torch.ones(T, T, dtype=torch.bool).numpy(), "a ndarray, which is no tensor"),
    ([[True] * T] * T, "a list, which is no tensor"),
]
"""What is no mask, and what the error calls it."""
FOREIGN_SHAPES = [(T, T + 1), (T + 1, T), (1, 1, 1, T, T), (B + 1, 1, T, T), (B, H + 1, T, T), (0, T)]


@every_masked_function
@pytest.mark.parametrize(("mask", "kind"), NO_MASKS, ids=[kind for _, kind in NO_MASKS])
def test_a_function_takes_boolean_masks_only(attend: Attend, mask: Any, kind: str) -> None:
    with pytest.raises(TypeError, match=re.escape(f"mask must be boolean (True = may attend), not {kind}")):
        attend(heads(), heads(), heads(), mask)


@every_module
@pytest.mark.parametrize(("mask", "kind"), NO_MASKS, ids=[kind for _, kind in NO_MASKS])
def test_a_module_takes_boolean_masks_only(options: dict[str, Any], mask: Any, kind: str) -> None:
    with pytest.raises(TypeError, match=re.escape(f"mask must be boolean (True = may attend), not {kind}")):
        build(**options)(torch.randn(B, T, H * K), mask=mask)


@every_masked_function
@pytest.mark.parametrize("shape", FOREIGN_SHAPES, ids=str)
def test_a_function_takes_masks_that_fit_only(attend: Attend, shape: tuple[int, ...]) -> None:
    message = f"mask must be broadcastable to the scores {(B, H, T, T)}, but has the shape {shape}"
    with pytest.raises(ValueError, match=re.escape(message)):
        attend(heads(), heads(), heads(), torch.ones(shape, dtype=torch.bool))


@every_module
@pytest.mark.parametrize("shape", FOREIGN_SHAPES, ids=str)
def test_a_module_takes_masks_that_fit_only(options: dict[str, Any], shape: tuple[int, ...]) -> None:
    message = f"mask must be broadcastable to the scores {(B, H, T, T)}, but has the shape {shape}"
    with pytest.raises(ValueError, match=re.escape(message)):
        build(**options)(torch.randn(B, T, H * K), mask=torch.ones(shape, dtype=torch.bool))


def test_additive_attention_refuses_the_same_masks() -> None:
    module, query, key = AdditiveAttention(3, 5, 4), torch.randn(B, T, 3), torch.randn(B, T, 5)
    for mask, kind in NO_MASKS:
        with pytest.raises(TypeError, match=re.escape(f"mask must be boolean (True = may attend), not {kind}")):
            module(query, key, mask=mask)
    message = f"mask must be broadcastable to the scores {(B, T, T)}, but has the shape {(T, T + 1)}"
    with pytest.raises(ValueError, match=re.escape(message)):
        module(query, key, mask=torch.ones(T, T + 1, dtype=torch.bool))


@pytest.mark.parametrize("name", ["linear", "sliding window"])
def test_real_tokens_are_boolean_and_one_each(name: str) -> None:
    def attend(real: Any) -> object:
        if name == "linear":
            return linear_attention(heads(), heads(), heads(), real=real)
        return sliding_window_attention(heads(), heads(), heads(), 1, real=real)

    for real, kind in NO_MASKS:
        with pytest.raises(TypeError, match=re.escape(f"real must be boolean (True = may attend), not {kind}")):
            attend(real)
    for shape in ((T,), (B, T + 1), (1, T), (B, 1, 1, T)):
        with pytest.raises(ValueError, match=re.escape(f"real must have the shape {(B, T)}, but has {shape}")):
            attend(torch.ones(shape, dtype=torch.bool))


@every_function
@pytest.mark.parametrize(("targets", "sources"), [(0, T), (T, 0), (0, 0)])
def test_a_function_needs_positions(attend: Attend, targets: int, sources: int) -> None:
    message = f"query and key must have at least 1 position, but have {targets} and {sources}"
    with pytest.raises(ValueError, match=message):
        attend(heads(targets), heads(sources), heads(sources))


@every_module
def test_a_module_needs_positions(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="query and key must have at least 1 position, but have 0 and 0"):
        build(**options)(torch.randn(B, 0, H * K))


@some_module
@pytest.mark.parametrize(("targets", "sources"), [(0, T), (T, 0)])
def test_cross_attention_needs_positions(options: dict[str, Any], targets: int, sources: int) -> None:
    message = f"query and key must have at least 1 position, but have {targets} and {sources}"
    with pytest.raises(ValueError, match=message):
        build(**options)(torch.randn(B, targets, H * K), torch.randn(B, sources, H * K))
    with pytest.raises(ValueError, match=message):
        AdditiveAttention(3, 5, 4)(torch.randn(B, targets, 3), torch.randn(B, sources, 5))


@every_function
def test_query_key_and_value_belong_together(attend: Attend) -> None:
    with pytest.raises(ValueError, match="query and key must have the same width, but query has 4 and key has 5"):
        attend(heads(), heads(width=5), heads())
    with pytest.raises(ValueError, match="value must have the 3 positions of the key, but has 4"):
        attend(heads(), heads(), heads(T + 1))


@pytest.mark.parametrize("attend", list(FUNCTIONS.values())[1:], ids=list(FUNCTIONS)[1:])
def test_fast_forms_take_one_batch_and_one_number_of_heads(attend: Attend) -> None:
    """The reference broadcasts what stands before the positions; the others do not."""
    with pytest.raises(
        ValueError, match=re.escape("key must have the batch and heads (2, 2) of the query, but has (1")
    ):
        attend(heads(), heads(batch=1), heads())
    with pytest.raises(
        ValueError, match=re.escape("value must have the batch and heads (2, 2) of the query, but has (1")
    ):
        attend(heads(), heads(), heads(batch=1))


@some_module
def test_query_and_key_of_two_batches_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match=re.escape("key must have the batch and heads (2, 2) of the query, but has (3")
    ):
        build(**options)(torch.randn(B, T, H * K), torch.randn(B + 1, T, H * K))


@every_module
def test_a_module_takes_its_own_width_only(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="query must have the width 8, but has 9"):
        build(**options)(torch.randn(B, T, 9))


def test_scores_take_their_own_width_only() -> None:
    additive, bilinear = AdditiveScore(4), BilinearScore(4, 5)
    for score, query, key, message in (
        (additive, 3, 4, "query must have the width 4, but has 3"),
        (additive, 4, 3, "key must have the width 4, but has 3"),
        (bilinear, 5, 5, "query must have the width 4, but has 5"),
        (bilinear, 4, 4, "key must have the width 5, but has 4"),
    ):
        with pytest.raises(ValueError, match=message):
            attention(torch.randn(T, query), torch.randn(T, key), torch.randn(T, 2), score=score)
    with pytest.raises(ValueError, match="value must have the 3 positions of the key, but has 4"):
        AdditiveAttention(3, 5, 4)(torch.randn(B, T, 3), torch.randn(B, T, 5), torch.randn(B, T + 1, 5))


def test_a_bias_fits_the_scores() -> None:
    """Positions made for another number of heads end here."""
    message = r"bias must be broadcastable to the scores \(2, 2, 3, 3\), but has the shape"
    for form in FORMS:
        with taking(form), pytest.raises(ValueError, match=message):
            fused_attention(heads(), heads(), heads(), bias=torch.zeros(T, T + 1))
    with pytest.raises(ValueError, match=message):
        attention_weights(torch.randn(B, H, T, T), bias=torch.zeros(1, B, H, T, T))
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(8, 2, positions=AlibiBias(4))(torch.randn(B, T, 8))


@pytest.mark.parametrize("block", [EncoderBlock, DecoderBlock])
@pytest.mark.parametrize("positions", ["none", "rotary", "relative"])
def test_a_block_names_heads_that_do_not_divide_its_width(block: type[EncoderBlock], positions: str) -> None:
    message = "num_heads must divide model_dim, but 4 does not divide 6; set head_dim to free the two"
    with pytest.raises(ValueError, match=message):
        block(6, 4, 12, positions=positions)
    with pytest.raises(ValueError, match="num_heads must be at least 1, not 0"):
        block(6, 0, 12, positions=positions)


def test_unknown_names_are_refused_by_a_block() -> None:
    with pytest.raises(ValueError, match=r"score must be one of scaled_dot, dot, .* or a callable, not 'cosine'"):
        EncoderBlock(8, 2, 16, score="cosine")
    with pytest.raises(ValueError, match=r"positions must be one of none, sinusoidal, .*, not 'spiral'"):
        DecoderBlock(8, 2, 16, positions="spiral")


@pytest.mark.parametrize("name", ["head_dim", "num_kv_heads", "query_dim", "key_dim", "value_dim"])
def test_sizes_below_one_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
        MultiHeadAttention(8, 2, **{name: 0})  # type: ignore[arg-type]
    for sizes, named in (((0, 2), "model_dim"), ((8, 0), "num_heads"), ((-8, 2), "model_dim")):
        with pytest.raises(ValueError, match=f"{named} must be at least 1, not {min(sizes)}"):
            MultiHeadAttention(*sizes)


@every_masked_function
def test_what_may_be_valid_lengths_is_told_how_to_become_a_mask(attend: Attend) -> None:
    for lengths in ([3, 2], (3, 2), 3, torch.tensor([3, 2])):
        with pytest.raises(TypeError, match=re.escape("become a mask by valid_length_mask(lengths, S)")):
            attend(heads(), heads(), heads(), lengths)
    with pytest.raises(TypeError, match=r"not torch.float32$"):
        attend(heads(), heads(), heads(), torch.zeros(T, T))


def test_the_mask_of_valid_lengths_serves_every_attention_with_or_without_heads() -> None:
    lengths = torch.tensor([2, 3])
    mask, own = valid_length_mask(lengths, T), torch.arange(T) < lengths[:, None]
    query, key = torch.randn(B, T, 3), torch.randn(B, T, 5)
    assert torch.equal(AdditiveAttention(3, 5, 4).weights(query, key, mask) > 0, own[:, None].expand(B, T, T))
    _, weights = attention(query, query, query, mask)
    assert torch.equal(weights > 0, own[:, None].expand(B, T, T))
    per_query = valid_length_mask(torch.tensor([[1, 2, 3], [3, 3, 1]]), T)
    assert (attention(query, query, query, per_query)[1] > 0).sum(-1).tolist() == [[1, 2, 3], [3, 3, 1]]
    with pytest.raises(ValueError, match="must be broadcastable"):
        attention(query, query, query, torch.ones(B, H, T, T, dtype=torch.bool))


@every_masked_function
def test_a_mask_that_could_be_read_two_ways_is_refused(attend: Attend) -> None:
    texts = torch.randn(T, H, T, K)
    with pytest.raises(ValueError, match=re.escape("a row a query or a row a text, since there are 3 of both")):
        attend(texts, texts, texts, torch.ones(T, T, dtype=torch.bool).tril())
    with pytest.raises(ValueError, match=re.escape("a row a head or a row a text, since there are 2 of both")):
        attend(heads(), heads(), heads(), torch.ones(H, T, T, dtype=torch.bool))
    for plain in (torch.ones(T, T, dtype=torch.bool).tril()[None], key_mask(torch.ones(T, T, dtype=torch.bool))):
        attend(texts, texts, texts, plain)


@every_masked_function
def test_a_row_a_text_is_told_to_be_a_key_mask(attend: Attend) -> None:
    with pytest.raises(ValueError, match=re.escape("for a row a text write key_mask(mask)")):
        attend(heads(), heads(), heads(), torch.ones(B, T, dtype=torch.bool))
