"""Our attention against `torch.nn.MultiheadAttention` and `scaled_dot_product_attention`, with the same weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.parity.weights import copy_attention, shake
from tests.unit.nn.forms import FORMS, Form, taking
from torch import Tensor, nn
from torch.nn import functional as F

from dikkat.kernels import query_blocks
from dikkat.nn.functional import attention, fused_attention
from dikkat.nn.masks import causal_mask, key_mask
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.recorder import record_attention
from dikkat.nn.sliding_window import chunked_attention

REAL = torch.tensor([[True, True, True, True, True, True], [True, True, True, False, False, False]])


def pair(bias: bool, **widths: Any) -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    foreign = {"kdim": widths.get("key_dim"), "vdim": widths.get("value_dim")}
    theirs = nn.MultiheadAttention(12, 3, bias=bias, batch_first=True, **foreign)
    shake(theirs)
    ours = MultiHeadAttention(12, 3, bias=bias, **widths)
    copy_attention(ours, theirs)
    return ours, theirs


def agree(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


@pytest.mark.seed("B21")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_self_attention_and_its_weights(bias: bool, causal: bool, padded: bool) -> None:
    ours, theirs = pair(bias)
    x = torch.randn(2, 6, 12, requires_grad=True)
    mine = x.detach().clone().requires_grad_()
    mask = (key_mask(REAL) if padded else torch.ones(1, 1, 1, 6, dtype=torch.bool)) & (
        causal_mask(6) if causal else torch.ones(6, 6, dtype=torch.bool)
    )
    blocked = ~causal_mask(6)[0, 0] if causal else None
    expected, weights = theirs(
        x, x, x, key_padding_mask=~REAL if padded else None, attn_mask=blocked, average_attn_weights=False
    )
    with record_attention(ours) as maps:
        output = ours(mine, mask=mask)
    ((recorded,),) = maps.values()
    agree(output, expected)
    agree(recorded, weights)
    averaged = theirs(x, x, x, key_padding_mask=~REAL if padded else None, attn_mask=blocked)[1]
    agree(recorded.mean(1), averaged)
    for result in (output, expected):
        result.sin().sum().backward()
    assert mine.grad is not None
    assert x.grad is not None
    agree(mine.grad, x.grad)


@pytest.mark.seed("B21")
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("widths", [{}, {"key_dim": 7, "value_dim": 5}], ids=["one width", "three widths"])
def test_cross_attention_and_its_weights(bias: bool, widths: dict[str, int]) -> None:
    ours, theirs = pair(bias, **widths)
    query = torch.randn(2, 4, 12)
    key, value = torch.randn(2, 6, widths.get("key_dim", 12)), torch.randn(2, 6, widths.get("value_dim", 12))
    expected, averaged = theirs(query, key, value, key_padding_mask=~REAL)
    with record_attention(ours) as maps:
        output = ours(query, key, value, key_mask(REAL))
    ((recorded,),) = maps.values()
    agree(output, expected)
    agree(recorded.mean(1), averaged)


@pytest.mark.seed("B21")
@pytest.mark.parametrize("widths", [{}, {"key_dim": 7, "value_dim": 5}], ids=["one width", "three widths"])
@pytest.mark.parametrize("training", [False, True])
def test_a_mask_for_each_head_and_query_with_every_map(widths: dict[str, int], training: bool) -> None:
    """Theirs is (B * H, T, S) and True = may not; without gradients and in evaluation it takes a path of its own."""
    ours, theirs = pair(True, **widths)
    query = torch.randn(2, 4, 12)
    key, value = torch.randn(2, 6, widths.get("key_dim", 12)), torch.randn(2, 6, widths.get("value_dim", 12))
    mask = torch.rand(2, 3, 4, 6) < 0.5
    mask[..., 0] = True  # a row without any key is ours alone to define
    ours.train(training)
    theirs.train(training)
    for gradients in (True, False):
        with torch.set_grad_enabled(gradients), record_attention(ours) as maps:
            output = ours(query, key, value, mask)
            expected, weights = theirs(query, key, value, attn_mask=~mask.flatten(0, 1), average_attn_weights=False)
            averaged = theirs(query, key, value, attn_mask=~mask.flatten(0, 1))[1]
            without_weights, _ = theirs(query, key, value, attn_mask=~mask.flatten(0, 1), need_weights=False)
        ((recorded,),) = maps.values()
        for result, reference in (
            (output, expected),
            (output, without_weights),
            (recorded, weights),
            (recorded.mean(1), averaged),
        ):
            agree(result, reference)


@pytest.mark.parametrize("masked", ["no", "causal", "keys", "random"])
@pytest.mark.parametrize("beta", [None, 0.3])
@pytest.mark.parametrize("form", FORMS)
def test_fused_and_reference_are_scaled_dot_product_attention(masked: str, beta: float | None, form: Form) -> None:
    random = torch.rand(2, 3, 6, 6) < 0.5
    random[..., 0] = True  # a row without any key is ours alone to define
    mask = {"no": None, "causal": causal_mask(6), "keys": key_mask(REAL), "random": random}[masked]
    tensors = [torch.randn(2, 3, 6, 8) for _ in range(3)]
    results = []
    for name in ("torch", "fused", "reference"):
        query, key, value = inputs = [x.clone().requires_grad_() for x in tensors]
        if name == "torch":
            output = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=beta)
        elif name == "fused":
            with taking(form):
                output = fused_attention(query, key, value, mask, beta=beta)
        else:
            output, _ = attention(query, key, value, mask, beta=beta)
        output.sin().sum().backward()
        results.append([output.detach(), *(x.grad for x in inputs if x.grad is not None)])
    for expected, fused, reference in zip(*results, strict=True):
        agree(fused, expected)
        agree(reference, expected)


@pytest.mark.parametrize(("targets", "sources"), [(3, 7), (7, 3), (1, 9), (130, 150), (150, 130)])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("limit", [query_blocks.BLOCK_WEIGHTS, 1024])
def test_other_lengths_of_query_and_key_on_both_sides_of_the_limit(
    targets: int, sources: int, masked: bool, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert 7 * 3 < 1024 < 130 * 150 < query_blocks.BLOCK_WEIGHTS
    monkeypatch.setattr(query_blocks, "BLOCK_WEIGHTS", limit)
    query, key, value = (torch.randn(2, 3, size, width) for size, width in ((targets, 8), (sources, 8), (sources, 5)))
    mask = torch.rand(2, 1, targets, sources) < 0.5 if masked else None
    if mask is not None:
        mask[..., 0] = True
    expected = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    agree(fused_attention(query, key, value, mask), expected)
    agree(attention(query, key, value, mask)[0], expected)
    agree(chunked_attention(query, key, value, mask, query_chunk=64, key_chunk=32), expected)


@pytest.mark.parametrize("length", [6, 140])
def test_causal_mask_is_is_causal(length: int) -> None:
    query, key, value = (torch.randn(2, 3, length, 8) for _ in range(3))
    expected = F.scaled_dot_product_attention(query, key, value, is_causal=True)
    agree(fused_attention(query, key, value, causal_mask(length)), expected)
    agree(attention(query, key, value, causal_mask(length))[0], expected)
    agree(chunked_attention(query, key, value, causal=True, query_chunk=50, key_chunk=30), expected)


def test_grouped_heads_are_those_of_enable_gqa() -> None:
    module, x = MultiHeadAttention(12, 6, num_kv_heads=2), torch.randn(2, 5, 12)
    query, key, value = module.project_self(x)
    expected = F.scaled_dot_product_attention(query, key, value, enable_gqa=True)
    agree(module(x), module.out_projection(expected.transpose(1, 2).flatten(2)))
