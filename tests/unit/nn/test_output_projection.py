"""Attention whose heads stand side by side with nothing after them, as the chapter on LLMs from scratch begins."""

from __future__ import annotations

import math

import pytest
import torch

from dikkat.nn import MultiHeadAttention, causal_mask, to_torch
from dikkat.nn.recorder import record_attention


def test_a_single_head_is_softmax_of_q_k_times_v() -> None:
    part = MultiHeadAttention(2, 1, query_dim=3, key_dim=3, value_dim=3, bias=False, output_projection=False)
    assert sum(parameter.numel() for parameter in part.parameters()) == 3 * 3 * 2
    x = torch.randn(6, 3)
    query, key, value = (x @ weight.T for weight in part.in_projection.weight.split(2))
    scores = (query @ key.T / math.sqrt(2)).masked_fill(torch.ones(6, 6).triu(1).bool(), -torch.inf)
    torch.testing.assert_close(part(x, mask=causal_mask(6)), scores.softmax(-1) @ value, rtol=0, atol=1e-6)


def test_two_heads_without_projection_are_two_attentions_side_by_side() -> None:
    both = MultiHeadAttention(4, 2, query_dim=3, key_dim=3, value_dim=3, bias=False, output_projection=False)
    x, outputs = torch.randn(2, 6, 3), []
    for head in range(2):
        one = MultiHeadAttention(2, 1, query_dim=3, key_dim=3, value_dim=3, bias=False, output_projection=False)
        rows = both.in_projection.weight.unflatten(0, (3, 2, 2))[:, head].flatten(0, 1)
        one.load_state_dict({"in_projection.weight": rows})
        outputs.append(one(x))
    torch.testing.assert_close(both(x), torch.cat(outputs, -1), rtol=0, atol=1e-6)


def test_two_widths_need_a_projection_between_them() -> None:
    with pytest.raises(ValueError, match="num_heads x head_dim must be model_dim = 4, not 6"):
        MultiHeadAttention(4, 2, head_dim=3, output_projection=False)


def test_its_weights_are_recorded() -> None:
    part = MultiHeadAttention(4, 2, output_projection=False)
    with record_attention(torch.nn.ModuleDict({"self_attention": part})) as maps:
        part(torch.randn(2, 5, 4))
    (result,) = maps.values()
    assert result[0].shape == (2, 2, 5, 5)


def test_pytorch_has_no_such_attention() -> None:
    part = MultiHeadAttention(4, 2, output_projection=False)
    with pytest.raises(
        ValueError, match="PyTorch's attention has an output projection, but output_projection is False"
    ):
        to_torch(part)
