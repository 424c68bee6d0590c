"""The native encoder over tensors: sentences one behind the other, without padding, and the states of PyTorch's."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_float, c_int64, c_void_p
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from dikkat.native.calls import address, checked, native_library
from dikkat.native.layers import LinearWeights, NormWeights, linear_array, norm_array
from dikkat.native.library import library
from dikkat.native.threads import num_threads


@dataclass(frozen=True, eq=False)
class EncoderWeights:
    """All that an encoder computes with: contiguous float32 tensors on the CPU, read where they lie."""

    num_heads: int
    head_dim: int
    post_norm: bool
    gelu: bool
    """Else ReLU."""
    linears: tuple[LinearWeights, ...]
    """Four a layer: self-attention in and out, feed-forward inner and outer."""
    norms: tuple[NormWeights | None, ...]
    """What precedes the first linear layer, then what follows each of the two sub-layers of each layer."""
    betas: tuple[float, ...]
    """Inverse temperatures, of each layer."""

    @cached_property
    def arrays(self) -> tuple[ctypes.Array[Any], ...]:
        """For C: linear layers, norms and betas; they must not outlive the tensors."""
        return linear_array(self.linears), norm_array(self.norms), (c_float * len(self.betas))(*self.betas)


class _Encoder(ctypes.Structure):
    """`Encoder` of encoder.c."""

    _fields_ = (
        *((name, c_int64) for name in ("layers", "width", "heads", "head_width", "hidden", "post_norm", "gelu")),
        *((name, c_void_p) for name in ("linears", "norms", "betas")),
        ("sentences", c_int64),
        ("starts", c_void_p),
        ("threads", c_int64),
    )


def can_encode() -> bool:
    """Whether the native encoder is here."""
    return library() is not None


def encode(weights: EncoderWeights, embedded: Tensor, lengths: Sequence[int]) -> Tensor:
    """States (N, D) of N tokens, `embedded` (N, D): sentences of those `lengths`, one behind the other."""
    loaded = native_library("can_encode")
    linears, norms, betas = weights.arrays
    if min(lengths, default=0) < 0 or sum(lengths) != len(embedded):
        raise ValueError(f"{len(embedded)} embedded tokens are not sentences of the lengths {list(lengths)}")
    starts = (c_int64 * (len(lengths) + 1))(0, *accumulate(lengths))
    job = _Encoder(
        layers=len(weights.betas),
        width=embedded.shape[1],
        heads=weights.num_heads,
        head_width=weights.head_dim,
        hidden=max((each.weight.shape[0] for each in weights.linears[2::4]), default=0),
        post_norm=weights.post_norm,
        gelu=weights.gelu,
        linears=ctypes.addressof(linears),
        norms=ctypes.addressof(norms),
        betas=ctypes.addressof(betas),
        sentences=len(lengths),
        starts=ctypes.addressof(starts),
        threads=num_threads(),
    )
    states = embedded.to(torch.float32).clone(memory_format=torch.contiguous_format)
    checked(loaded.encoder_run(ctypes.byref(job), address(states)))
    return states
