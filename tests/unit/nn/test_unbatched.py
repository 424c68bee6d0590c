"""One sequence (T, D) in place of a batch of one, in every module that takes vectors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from dikkat.nn import (
    AdditiveAttention,
    DecoderBlock,
    EncoderBlock,
    LearnedPositions,
    MultiHeadAttention,
    PositionedDecoderBlock,
    PositionedEncoderBlock,
    SinusoidalPositions,
    attention_positions,
    causal_mask,
    valid_length_mask,
)
from dikkat.nn.cache import SelfAttentionCache

T, S, D = 5, 7, 8
Call = Callable[[nn.Module, Tensor, Tensor], Tensor]

CASES: dict[str, tuple[nn.Module, Call]] = {
    "self": (MultiHeadAttention(D, 2), lambda part, x, _: part(x, mask=causal_mask(T))),
    "cross": (MultiHeadAttention(D, 2), lambda part, x, m: part(x, m, mask=valid_length_mask(torch.tensor([4]), S))),
    "key and value": (MultiHeadAttention(D, 2), lambda part, x, m: part(x, m, 2 * m)),
    "rotary": (
        MultiHeadAttention(D, 2, positions=attention_positions("rotary", 2, D // 2, causal=False)),
        lambda part, x, _: part(x),
    ),
    "window": (MultiHeadAttention(D, 2, window=1), lambda part, x, _: part(x)),
    "additive": (AdditiveAttention(D, D, 3), lambda part, x, m: part(x, m)),
    "sinusoids": (SinusoidalPositions(D), lambda part, x, _: part(x, offset=300)),
    "learned": (LearnedPositions(D, 12), lambda part, x, _: part(x, offset=7)),
    "encoder block": (EncoderBlock(D, 2, 16), lambda part, x, _: part(x, causal_mask(T))),
    "decoder block": (DecoderBlock(D, 2, 16), lambda part, x, m: part(x, m, causal_mask(T))),
    "positioned encoder block": (PositionedEncoderBlock(SinusoidalPositions(D), D, 2, 16), lambda part, x, _: part(x)),
    "positioned decoder block": (
        PositionedDecoderBlock(SinusoidalPositions(D), D, 2, 16),
        lambda part, x, m: part(x, m, causal_mask(T)),
    ),
}


@pytest.mark.parametrize(("part", "call"), CASES.values(), ids=CASES)
@torch.no_grad()
def test_a_sequence_alone_is_a_batch_of_one(part: nn.Module, call: Call) -> None:
    part.eval()
    x, memory = torch.randn(T, D), torch.randn(S, D)
    alone, batch = call(part, x, memory), call(part, x[None], memory[None])
    assert alone.shape == (T, *batch.shape[2:])
    torch.testing.assert_close(alone, batch[0], rtol=0, atol=1e-6)


def test_a_cache_grows_by_a_sequence_alone() -> None:
    part, cache, x = MultiHeadAttention(D, 2).eval(), SelfAttentionCache(), torch.randn(T, D)
    steps = torch.cat([part(row[None], cache=cache) for row in x])
    assert cache.length == T
    torch.testing.assert_close(steps, part(x, mask=causal_mask(T)), rtol=0, atol=1e-6)


def test_its_weights_are_those_of_a_batch_of_one() -> None:
    result: list[Tensor] = []
    part = MultiHeadAttention(D, 2)
    part.read_weights(result.append)
    part(torch.randn(T, D))
    assert result[0].shape == (1, 2, T, T)


def test_a_sequence_alone_attends_to_a_sequence_alone(unchecked_shapes: None) -> None:
    x, memory = torch.randn(T, D), torch.randn(1, S, D)
    with pytest.raises(ValueError, match=r"key must be one sequence \(S, D\), as the query is, but has 3 dimensions"):
        MultiHeadAttention(D, 2)(x, memory)
    with pytest.raises(ValueError, match=r"value must be one sequence \(S, D\), as the query is, but has 3 dimensions"):
        MultiHeadAttention(D, 2)(x, memory[0], memory)
