"""Chunked exact attention: equal to the whole matrix, in memory that does not grow with it."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from tests.unit.nn.reference import numpy_attention, to_numpy
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from dikkat.nn.functional import attention
from dikkat.nn.masks import causal_mask, key_mask
from dikkat.nn.sliding_window import chunked_attention


class PeakMemory(TorchDispatchMode):
    """The most bytes of tensors alive at once that were made inside."""

    def __init__(self) -> None:
        super().__init__()
        self.alive, self.peak, self.known = 0, 0, set[int]()

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else (result,):
            if isinstance(tensor, Tensor):
                self._count(tensor.untyped_storage())
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        address, size = storage._cdata, storage.nbytes()
        if address in self.known:
            return
        self.known.add(address)
        self.alive += size
        self.peak = max(self.peak, self.alive)
        weakref.finalize(storage, self._forget, address, size)

    def _forget(self, address: int, size: int) -> None:
        self.known.discard(address)
        self.alive -= size


def qkv(targets: int, sources: int) -> tuple[Tensor, Tensor, Tensor]:
    sizes = ((targets, 8), (sources, 8), (sources, 5))
    query, key, value = (torch.randn(2, 3, length, width, requires_grad=True) for length, width in sizes)
    return query, key, value


MASKS = {
    "none": None,
    "keys": key_mask(torch.arange(23) < torch.tensor([17, 0])[:, None]),
    "all": torch.rand(2, 3, 19, 23, generator=torch.Generator().manual_seed(1)) < 0.3,
}


@pytest.mark.parametrize("masked", MASKS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("rows", "keys"), [(3, 2), (5, 4), (7, 100), (100, 7)])
def test_it_is_the_formula_in_any_chunks(masked: str, causal: bool, rows: int, keys: int) -> None:
    query, key, value = qkv(19, 23)
    mask = MASKS[masked]
    whole = causal_mask(19, 23) if causal else torch.ones(19, 23, dtype=torch.bool)
    expected, _ = numpy_attention(query, key, value, whole if mask is None else whole & mask)
    result = chunked_attention(query, key, value, mask, causal=causal, query_chunk=rows, key_chunk=keys)
    assert abs(to_numpy(result) - expected).max() <= 1e-5


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_those_of_the_whole_matrix(causal: bool) -> None:
    ours = query, key, value = qkv(19, 23)
    theirs = q, k, v = tuple(x.detach().clone().requires_grad_() for x in ours)
    mask = MASKS["all"]
    assert mask is not None
    whole = mask & causal_mask(19, 23) if causal else mask
    chunked_attention(query, key, value, mask, causal=causal, query_chunk=5, key_chunk=4).sin().sum().backward()
    attention(q, k, v, whole)[0].sin().sum().backward()
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.grad is not None
        torch.testing.assert_close(mine.grad, other.grad, rtol=0, atol=1e-5)


def test_temperature_low_precision_and_huge_scores() -> None:
    query, key, value = (x.detach() for x in qkv(9, 11))
    expected, _ = numpy_attention(query, key, value, beta=0.1)
    assert abs(to_numpy(chunked_attention(query, key, value, beta=0.1, key_chunk=3)) - expected).max() <= 1e-5
    q, k, v = (x.bfloat16() for x in (query, key, value))
    expected, _ = numpy_attention(q, k, v)
    result = chunked_attention(q, k, v, key_chunk=3)
    assert result.dtype == torch.bfloat16
    assert abs(to_numpy(result) - expected).max() <= 2e-2
    assert chunked_attention(1e4 * query, 1e4 * key, value, key_chunk=3).isfinite().all()


def test_memory_is_an_eighth_of_the_matrix_forwards() -> None:
    """n = 2,048: the matrix alone has 16 MiB."""
    query, key, value = (torch.randn(1, 1, 2048, 16) for _ in range(3))
    with PeakMemory() as chunked:
        result = chunked_attention(query, key, value, query_chunk=256, key_chunk=256)
    with PeakMemory() as full:
        expected, _ = attention(query, key, value)
    assert full.peak >= 2048 * 2048 * 4
    assert chunked.peak <= 2048 * 2048 * 4 / 8
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-5)


def test_memory_is_an_eighth_of_the_matrix_backwards_too() -> None:
    query, key, value = (torch.randn(1, 1, 2048, 16, requires_grad=True) for _ in range(3))
    with PeakMemory() as chunked:
        chunked_attention(query, key, value, query_chunk=32, key_chunk=1024).sum().backward()
    assert chunked.peak <= 2048 * 2048 * 4 / 8


def test_impossible_sizes_are_refused(unchecked_shapes: None) -> None:
    query, key, value = (x.detach() for x in qkv(3, 2))
    with pytest.raises(ValueError, match="under causal=True key must have the 3 positions of the query, but has 2"):
        chunked_attention(query, key, value, causal=True)
    for name in ("query_chunk", "key_chunk"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
            chunked_attention(query, key, value, **{name: 0})  # type: ignore[arg-type]
