"""Multi-head attention: where things come from, widths, grouped heads, cache and observers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.nn.reference import Array, numpy_attention, to_numpy
from torch import Tensor

from dikkat.nn.cache import CrossAttentionCache, SelfAttentionCache
from dikkat.nn.layers import Linear
from dikkat.nn.masks import causal_mask, key_mask
from dikkat.nn.multi_head_attention import MultiHeadAttention


def projections(module: MultiHeadAttention) -> list[tuple[Tensor, Tensor | None]]:
    """Weight and bias of query, key and value, packed or not."""
    if module.packed:
        biases = [None] * 3 if module.in_projection.bias is None else module.in_projection.bias.split(module.splits)
        return list(zip(module.in_projection.weight.split(module.splits), biases, strict=True))
    linears = (module.query_projection, module.key_projection, module.value_projection)
    return [(linear.weight, linear.bias) for linear in linears]


def by_heads(
    module: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Array:
    """The definition, one head after the other: each attends in its own columns, the results stand side by side."""
    projected = []
    for x, (weight, bias) in zip((query, key, value), projections(module), strict=True):
        projected.append(x @ weight.T + (0 if bias is None else bias))
    results, width = [], module.head_dim
    for head in range(module.num_heads):
        shared = head * module.num_kv_heads // module.num_heads
        q = projected[0][..., head * width : (head + 1) * width]
        k, v = (x[..., shared * width : (shared + 1) * width] for x in projected[1:])
        here = None if mask is None else mask.expand(query.shape[0], module.num_heads, -1, -1)[:, head]
        results.append(numpy_attention(q, k, v, here)[0])
    output = np.concatenate(results, axis=-1) @ to_numpy(module.out_projection.weight).T
    return output if module.out_projection.bias is None else output + to_numpy(module.out_projection.bias)


SETTINGS: list[dict[str, Any]] = [
    {},
    {"bias": False},
    {"head_dim": 5},
    {"head_dim": 8},
    {"num_kv_heads": 2},
    {"num_kv_heads": 1, "head_dim": 3, "bias": False},
]
IDS = ["plain", "no bias", "narrow heads", "full-width heads", "grouped", "multi-query"]


@pytest.mark.parametrize("options", SETTINGS, ids=IDS)
@pytest.mark.parametrize("masked", [False, True])
def test_self_attention_is_the_heads_side_by_side(options: dict[str, Any], masked: bool) -> None:
    module, x = MultiHeadAttention(8, 4, **options), torch.randn(2, 5, 8)
    mask = causal_mask(5) if masked else None
    np.testing.assert_allclose(to_numpy(module(x, mask=mask)), by_heads(module, x, x, x, mask), rtol=0, atol=1e-5)


@pytest.mark.parametrize("options", SETTINGS, ids=IDS)
@pytest.mark.parametrize("masked", [False, True])
def test_cross_attention_is_the_heads_side_by_side(options: dict[str, Any], masked: bool) -> None:
    module, x, memory, value = (MultiHeadAttention(8, 4, **options), *(torch.randn(2, n, 8) for n in (5, 3, 3)))
    mask = key_mask(torch.tensor([[True, True, False], [True, False, False]])) if masked else None
    one = module(x, memory, mask=mask)
    np.testing.assert_allclose(to_numpy(one), by_heads(module, x, memory, memory, mask), rtol=0, atol=1e-5)
    two = module(x, memory, value, mask)
    np.testing.assert_allclose(to_numpy(two), by_heads(module, x, memory, value, mask), rtol=0, atol=1e-5)
    assert not torch.allclose(one, two)


@pytest.mark.parametrize("options", SETTINGS, ids=IDS)
def test_inputs_of_three_widths_get_projections_of_their_own(options: dict[str, Any]) -> None:
    module = MultiHeadAttention(8, 4, query_dim=6, key_dim=7, value_dim=9, **options)
    query, key, value = torch.randn(2, 5, 6), torch.randn(2, 3, 7), torch.randn(2, 3, 9)
    output = module(query, key, value)
    assert output.shape == (2, 5, 8)
    assert not module.packed
    np.testing.assert_allclose(to_numpy(output), by_heads(module, query, key, value), rtol=0, atol=1e-5)


@pytest.mark.seed("A11")
def test_packed_and_separate_projections_agree() -> None:
    packed, separate = MultiHeadAttention(8, 2), MultiHeadAttention(8, 2, query_dim=8, key_dim=9, value_dim=9)
    with torch.no_grad():
        padded = torch.zeros(8, 9)
        linears = (separate.query_projection, separate.key_projection, separate.value_projection)
        for linear, (weight, bias) in zip(linears, projections(packed), strict=True):
            target = weight if linear is separate.query_projection else torch.cat((weight, padded[:, :1]), dim=1)
            assert bias is not None
            linear.weight.copy_(target)
            linear.bias.copy_(bias)
        separate.out_projection.load_state_dict(packed.out_projection.state_dict())
    x = torch.randn(2, 5, 8)
    wide = torch.cat((x, torch.randn(2, 5, 1)), dim=-1)
    torch.testing.assert_close(packed(x), separate(x, wide), rtol=0, atol=1e-6)
    torch.testing.assert_close(packed(x), packed(x, x), rtol=0, atol=1e-6)
    torch.testing.assert_close(packed(x), packed(x, x, x.clone()), rtol=0, atol=1e-6)


def test_three_equal_foreign_widths_are_packed() -> None:
    module = MultiHeadAttention(8, 4, query_dim=12, key_dim=12, value_dim=12)
    assert module.packed
    assert module(torch.randn(2, 5, 12)).shape == (2, 5, 8)


@pytest.mark.seed("A12")
def test_head_dim_is_free() -> None:
    """A head as wide as the model, as in the formula of seed 000, or d/h, as in its code."""
    full, split = MultiHeadAttention(8, 4, head_dim=8, bias=False), MultiHeadAttention(8, 4, bias=False)
    assert full.in_projection.weight.shape == (3 * 4 * 8, 8)
    assert split.in_projection.weight.shape == (3 * 8, 8)


@pytest.mark.seed("B20", "D12")
def test_parameter_counts() -> None:
    """GPT-2's own has no bias on query, key and value, and one on the output."""
    gpt2 = MultiHeadAttention(768, 12, bias=False)
    assert sum(p.numel() for p in gpt2.parameters()) + 768 == 2_360_064
    assert sum(p.numel() for p in MultiHeadAttention(512, 8, bias=False).parameters()) == 1_048_576


@pytest.mark.seed("A23", "A24")
def test_split_heads_can_be_put_together_again() -> None:
    module, x = MultiHeadAttention(12, 3), torch.randn(2, 5, 12)
    split = module._split_heads(x, 3)
    assert split.shape == (2, 3, 5, 4)
    assert torch.equal(split.transpose(1, 2).flatten(2), x)


@pytest.mark.seed("C1")
def test_valid_lengths_of_equal_inputs() -> None:
    module = MultiHeadAttention(100, 5, dropout=0.5).eval()
    mask = key_mask(torch.tensor([[True, True, True, False], [True, True, False, False]]))
    weights: list[Tensor] = []
    module.observe(lambda o: weights.append(torch.from_numpy(numpy_attention(o.query, o.key, o.value, o.mask)[1])))
    output = module(torch.ones(2, 4, 100), mask=mask)
    assert output.shape == (2, 4, 100)
    torch.testing.assert_close(output, output[:, :1].expand(2, 4, 100), rtol=0, atol=1e-6)
    assert (weights[0][0, :, :, 3:] == 0).all()
    assert (weights[0][1, :, :, 2:] == 0).all()


@pytest.mark.parametrize("options", SETTINGS, ids=IDS)
def test_a_cache_gives_the_rows_of_causal_attention(options: dict[str, Any]) -> None:
    module, x, cache = MultiHeadAttention(8, 4, **options), torch.randn(3, 20, 8), SelfAttentionCache()
    with torch.no_grad():
        rows = torch.cat([module(x[:, t : t + 1], cache=cache) for t in range(20)], dim=1)
        whole = module(x, mask=causal_mask(20))
    torch.testing.assert_close(rows, whole, rtol=0, atol=1e-5)


def test_a_projected_memory_serves_many_rows_of_each_sentence() -> None:
    module, memory, queries = MultiHeadAttention(8, 4), torch.randn(2, 5, 8), torch.randn(6, 1, 8)
    mask = key_mask(torch.tensor([[True, True, True, True, False], [True, True, False, False, False]]))
    shared = module.attend_memory(queries, module.project_memory(memory), mask)
    separate = module(queries, memory.repeat_interleave(3, 0), mask=mask.repeat_interleave(3, 0))
    torch.testing.assert_close(shared, separate, rtol=0, atol=1e-6)


def test_dropout_falls_in_training_only() -> None:
    module, x = MultiHeadAttention(8, 2, dropout=0.5), torch.randn(2, 5, 8)
    assert not torch.allclose(module(x), module(x))
    trained = module(x)
    module.eval()
    assert torch.equal(module(x), module(x))
    assert not torch.allclose(trained, module(x))


def test_observers_see_what_is_attended_to_until_they_are_removed() -> None:
    module, x, mask = MultiHeadAttention(8, 4, num_kv_heads=2), torch.randn(2, 5, 8), causal_mask(5)
    seen: list[tuple[torch.Size, torch.Size, torch.Size, bool]] = []
    handle = module.observe(lambda o: seen.append((o.query.shape, o.key.shape, o.value.shape, o.mask is mask)))
    module(x, mask=mask)
    module.attend_memory(x, CrossAttentionCache(torch.randn(2, 2, 3, 2), torch.randn(2, 2, 3, 2)), mask[..., :1, :3])
    handle.remove()
    module(x, mask=mask)
    whole, short = (2, 4, 5, 2), (2, 4, 3, 2)
    assert seen == [(whole, whole, whole, True), (whole, short, short, False)]


@pytest.mark.seed("F20", "A21")
def test_heads_that_do_not_divide_the_width_are_refused() -> None:
    with pytest.raises(ValueError, match="num_heads must divide model_dim, but 3 does not divide 8; set head_dim"):
        MultiHeadAttention(8, 3)
    assert MultiHeadAttention(8, 3, head_dim=4)(torch.randn(1, 2, 8)).shape == (1, 2, 8)


def test_heads_that_cannot_share_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="num_kv_heads must divide num_heads, but 3 does not divide 4"):
        MultiHeadAttention(8, 4, num_kv_heads=3)


def test_a_dropout_outside_its_range_is_refused() -> None:
    with pytest.raises(ValueError, match=r"dropout probability must lie in \[0, 1\), not 1.5"):
        MultiHeadAttention(8, 4, dropout=1.5)


def test_arguments_without_effect_are_refused() -> None:
    module, x = MultiHeadAttention(8, 4), torch.randn(1, 2, 8)
    with pytest.raises(ValueError, match="a value needs its key"):
        module(x, value=x)
    with pytest.raises(ValueError, match="a self-attention cache takes no key"):
        module(x, x, cache=SelfAttentionCache())


def test_a_wrong_width_is_refused_by_name() -> None:
    module, x = MultiHeadAttention(8, 4), torch.randn(1, 2, 8)
    for inputs, name in (([9], "query"), ([9, 8], "query"), ([8, 9], "key"), ([8, 8, 9], "value")):
        with pytest.raises(ValueError, match=f"{name} must have the width 8, but has 9"):
            module(*(torch.randn(1, 2, width) for width in inputs))
    with pytest.raises(ValueError, match="key must have the width 7, but has 8"):
        MultiHeadAttention(8, 4, key_dim=7)(x)
    with pytest.raises(TypeError):  # the shape check of the tests: two batches
        MultiHeadAttention(8, 4)(torch.randn(1, 2, 8), torch.randn(2, 2, 8))


def test_no_parameter_is_left_out() -> None:
    for options in SETTINGS:
        module = MultiHeadAttention(8, 4, **options)
        module(torch.randn(2, 5, 8)).square().sum().backward()
        module_gradients = [parameter.grad for parameter in module.parameters()]
        assert all(gradient is not None for gradient in module_gradients)
    assert [type(part) for part in MultiHeadAttention(8, 4).children()] == [Linear, Linear]
