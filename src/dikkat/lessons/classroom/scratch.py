"""The attention classes of *Build a Large Language Model (From Scratch)*, chapter 3.

The first weights are drawn in the chapter's order, so that after `torch.manual_seed` its printed numbers come out.
"""

import torch
from torch import Tensor, nn

from dikkat import nn as ours


class _OfOneText(nn.Module):
    attention: ours.MultiHeadAttention

    def forward(self, x: Tensor) -> Tensor:
        """Attend from `x` (num_tokens, d_in) to itself; the output is (num_tokens, d_out)."""
        return self.attention(x)


class _Causal(nn.Module):
    attention: ours.MultiHeadAttention
    context_length: int

    def forward(self, x: Tensor) -> Tensor:
        """Attend from `x` (b, num_tokens, d_in) to itself; the output is (b, num_tokens, d_out).

        Raises `ValueError` beyond `context_length` (fault F21).
        """
        return self.attention(x, mask=_past(x, self.context_length))


class SelfAttention_v1(_OfOneText):
    """One head whose three matrices are drawn evenly from 0 to 1."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.attention = _attention(d_in, d_out, 1, 0.0, False)
        with torch.no_grad():
            self.attention.in_projection.weight.copy_(torch.cat([torch.rand(d_in, d_out).T for _ in range(3)]))


class SelfAttention_v2(_OfOneText):
    """One head of three linear layers."""

    def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
        super().__init__()
        self.attention = _initialised(d_in, d_out, 1, 0.0, qkv_bias)


class CausalAttention(_Causal):
    """One head that sees no later token, with dropout on its weights."""

    def __init__(self, d_in: int, d_out: int, context_length: int, dropout: float, qkv_bias: bool = False) -> None:
        super().__init__()
        self.context_length = context_length
        self.attention = _initialised(d_in, d_out, 1, dropout, qkv_bias)


class MultiHeadAttentionWrapper(_Causal):
    """`num_heads` causal attentions side by side, (b, num_tokens, num_heads * d_out) in all."""

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__()
        self.context_length = context_length
        self.attention = _attention(d_in, num_heads * d_out, num_heads, dropout, qkv_bias)
        heads = [_linears(d_in, d_out, qkv_bias) for _ in range(num_heads)]
        # all queries, then all keys, then all values
        _copy(self.attention, [head[part] for part in range(3) for head in heads])


class MultiHeadAttention(_Causal):
    """`num_heads` heads that split `d_out` among them, and a layer that mixes them."""

    def __init__(
        self, d_in: int, d_out: int, context_length: int, dropout: float, num_heads: int, qkv_bias: bool = False
    ) -> None:
        super().__init__()
        self.context_length = context_length
        self.attention = _attention(d_in, d_out, num_heads, dropout, qkv_bias, mixes=True)
        _copy(self.attention, _linears(d_in, d_out, qkv_bias))
        mixing = nn.Linear(d_out, d_out)
        self.attention.out_projection.load_state_dict(mixing.state_dict())


def _attention(
    d_in: int, d_out: int, num_heads: int, dropout: float, bias: bool, *, mixes: bool = False
) -> ours.MultiHeadAttention:
    # its own first weights are not the chapter's: none of its random numbers are to be used up
    with torch.random.fork_rng(devices=[]):
        return ours.MultiHeadAttention(
            d_out,
            num_heads,
            query_dim=d_in,
            key_dim=d_in,
            value_dim=d_in,
            bias=bias,
            output_bias=True,
            dropout=dropout,
            output_projection=mixes,
        )


def _initialised(d_in: int, d_out: int, num_heads: int, dropout: float, bias: bool) -> ours.MultiHeadAttention:
    attention = _attention(d_in, d_out, num_heads, dropout, bias)
    _copy(attention, _linears(d_in, d_out, bias))
    return attention


def _linears(d_in: int, d_out: int, bias: bool) -> list[nn.Linear]:
    """W_query, W_key and W_value, drawn in this order."""
    return [nn.Linear(d_in, d_out, bias=bias) for _ in range(3)]


def _copy(attention: ours.MultiHeadAttention, linears: list[nn.Linear]) -> None:
    with torch.no_grad():
        attention.in_projection.weight.copy_(torch.cat([linear.weight for linear in linears]))
        if attention.in_projection.bias is not None:
            attention.in_projection.bias.copy_(torch.cat([linear.bias for linear in linears]))


def _past(x: Tensor, context_length: int) -> Tensor:
    if x.shape[-2] > context_length:
        raise ValueError(f"a text must have at most context_length = {context_length} tokens, but has {x.shape[-2]}")
    return ours.causal_mask(x.shape[-2], device=x.device)
