"""Reference, products and kernel against each other and against a formula in numpy and float64, over 1,000 cases.

The formula, and the meaning of every mask, are written here once more, by their definitions and without our code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from unittest.mock import Mock, patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.unit.nn.forms import taking
from torch import Tensor
from torch.nn import functional as F

from dikkat import kernels
from dikkat.kernels import attention as soft
from dikkat.kernels.library import library, why_absent
from dikkat.nn.functional import attention, fused_attention
from dikkat.nn.masks import causal_mask, valid_length_mask, window_mask

Array = NDArray[np.float64]
Allowed = NDArray[np.bool_]

EXAMPLES = (pytest.param(1000, marks=pytest.mark.nightly), 500)
GRADIENT_EXAMPLES = (pytest.param(300, marks=pytest.mark.nightly), 150)
DTYPES = (torch.float32, torch.bfloat16)
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
HEADS, WIDTHS = (1, 2, 3, 8), (1, 4, 7, 16, 64)
PATHS = ("native", "products", "kernel")
BACKENDS: dict[str, kernels.Backend] = {"native": "native", "products": "torch"}
"""Our C kernel and its PyTorch twin for short sequences, PyTorch's fused kernel for long ones."""
needs_kernels = pytest.mark.skipif(library() is None, reason=f"no native kernels: {why_absent()}")
# the same cases in every run
steady = settings(derandomize=True, deadline=None, database=None)


@dataclass(frozen=True)
class Case:
    """Inputs of an attention. Keys and values may have a batch of 1, for all queries; values lie in [-1, 1]."""

    kind: str
    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    allowed: Allowed
    """(B, H, T, S), by definition and not by `mask`."""

    def of(self, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value of that type, as leaves."""
        query, key, value = (x.to(dtype).detach().requires_grad_() for x in (self.query, self.key, self.value))
        return query, key, value


@dataclass(frozen=True)
class Size:
    batch: int
    heads: int
    targets: int
    sources: int
    random: torch.Generator


Masks = Callable[[st.DrawFn, Size], tuple[Tensor | None, Allowed]]


def no_mask(draw: st.DrawFn, size: Size) -> tuple[Tensor | None, Allowed]:
    return None, np.ones(1, dtype=bool)


def causal(draw: st.DrawFn, size: Size) -> tuple[Tensor | None, Allowed]:
    """The last query sees the last key."""
    query, key = positions(size)
    return causal_mask(size.targets, size.sources), key <= query


def lengths(draw: st.DrawFn, size: Size) -> tuple[Tensor | None, Allowed]:
    """One a row; 0 is a row that may attend to nothing."""
    given = torch.randint(0, size.sources + 1, (size.batch,), generator=size.random)
    return valid_length_mask(given, size.sources), np.arange(size.sources) < given.numpy()[:, None, None, None]


def lengths_of_queries(draw: st.DrawFn, size: Size) -> tuple[Tensor | None, Allowed]:
    given = torch.randint(0, size.sources + 1, (size.batch, size.targets), generator=size.random)
    return valid_length_mask(given, size.sources), np.arange(size.sources) < given.numpy()[:, None, :, None]


def window(draw: st.DrawFn, size: Size) -> tuple[Tensor | None, Allowed]:
    """Also with tokens that see all and are seen by all, and also causal."""
    reach, first, ahead = draw(st.integers(0, 6)), draw(st.integers(0, 2)), draw(st.booleans())
    query, key = positions(size)
    mask = window_mask(size.targets, size.sources, window=reach, global_tokens=first)
    allowed = (np.abs(key - query) <= reach) | (key < first) | (query < first)
    if ahead:
        return mask, allowed
    return mask & causal_mask(size.targets, size.sources), allowed & (key <= query)


def any_booleans(draw: st.DrawFn, size: Size) -> tuple[Tensor | None, Allowed]:
    """In any shape that can be broadcast; about every fourth row may attend to nothing."""
    whole = (size.batch, size.heads, size.targets, size.sources)
    kept = draw(st.sampled_from([(1, 1, 1, 1), (1, 0, 0, 1), (1, 0, 1, 1), (0, 1, 0, 1), (1, 1, 1, 0), (0, 0, 1, 1)]))
    shape = tuple(limit if keep else 1 for limit, keep in zip(whole, kept, strict=True))
    density = draw(st.sampled_from([0.15, 0.6, 1.0]))
    mask = torch.rand(shape, generator=size.random) < density
    mask &= torch.rand((*shape[:-1], 1), generator=size.random) > 0.25
    # without the axes of size 1 in front it is still the same mask, unless a row could then be that of a text
    leading = draw(st.integers(0, kept.index(1)))
    leading -= leading > 0 and shape[leading] == size.batch
    return mask.reshape(shape[leading:]), mask.numpy()


def positions(size: Size) -> tuple[NDArray[np.int_], NDArray[np.int_]]:
    """Of queries (T, 1), the last of all positions, and of keys (S,)."""
    return np.arange(size.sources - size.targets, size.sources)[:, None], np.arange(size.sources)


MASKS: dict[str, Masks] = {
    "none": no_mask,
    "causal": causal,
    "lengths": lengths,
    "lengths of queries": lengths_of_queries,
    "window": window,
    "any": any_booleans,
}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kind = draw(st.sampled_from(list(MASKS)))
    batch, targets, sources = draw(st.integers(1, 3)), draw(st.integers(1, 17)), draw(st.integers(1, 17))
    if kind in ("causal", "window"):  # positions of one sequence: queries are the last ones
        targets, sources = min(targets, sources), max(targets, sources)
    count, width, value_width = (draw(st.sampled_from(sizes)) for sizes in (HEADS, WIDTHS, WIDTHS))
    random = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    size = Size(batch, count, targets, sources, random)
    mask, allowed = MASKS[kind](draw, size)
    shared = 1 if draw(st.booleans()) else batch
    return Case(
        kind,
        torch.randn(batch, count, targets, width, generator=random),
        torch.randn(shared, count, sources, width, generator=random),
        2 * torch.rand(shared, count, sources, value_width, generator=random) - 1,
        mask,
        np.broadcast_to(allowed, (batch, count, targets, sources)),
    )


def formula(query: Tensor, key: Tensor, value: Tensor, allowed: Allowed) -> tuple[Array, Array]:
    """softmax(q k / sqrt(K)) v over the allowed keys (Vaswani et al. 2017, equation 1); no key gives zeros."""
    q, k, v = (np.asarray(x.detach().double().numpy()) for x in (query, key, value))
    scores = np.matmul(q, np.swapaxes(k, -2, -1)) / np.sqrt(q.shape[-1])
    highest = np.max(scores, axis=-1, keepdims=True, where=allowed, initial=-np.inf)
    powers = np.where(allowed, np.exp(np.where(allowed, scores - np.where(np.isinf(highest), 0, highest), 0)), 0)
    total = powers.sum(-1, keepdims=True)
    weights = powers / np.where(total == 0, 1, total)
    return np.matmul(weights, v), weights


@contextmanager
def only(path: str) -> Iterator[None]:
    """Send `fused_attention` one way, and let the others raise."""
    forbidden = Mock(side_effect=AssertionError("the other path was taken"))
    ways = {
        "native": (soft, "attention_forward"),
        "products": (soft, "matmul_attention"),
        "kernel": (F, "scaled_dot_product_attention"),
    }
    with ExitStack() as stack:
        stack.enter_context(taking("kernel") if path == "kernel" else kernels.use(BACKENDS[path]))
        for name, way in ways.items():
            if name != path:
                stack.enter_context(patch.object(*way, forbidden))
        yield


def fused(path: str, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """`fused_attention`, where one batch of keys and values stands for all without being copied."""
    key, value = (x.expand(query.shape[0], -1, -1, -1) for x in (key, value))
    with only(path):
        return fused_attention(query, key, value, mask)


def furthest(found: Tensor, expected: Array) -> float:
    """The largest difference; a NaN or an infinity is no difference but a failure."""
    values = found.detach().double().numpy()
    assert np.isfinite(values).all()
    return float(np.abs(values - expected).max())


@needs_kernels
@pytest.mark.parametrize("examples", EXAMPLES)
def test_cases_of_reference_products_and_kernel(examples: int) -> None:
    """Values lie in [-1, 1], so that bfloat16's three digits allow a bound that is absolute."""
    seen: Counter[tuple[str, torch.dtype]] = Counter()
    empty_rows = other_lengths = 0

    @settings(steady, max_examples=examples)
    @given(case=cases(), dtype=st.sampled_from(DTYPES))
    def check(case: Case, dtype: torch.dtype) -> None:
        nonlocal empty_rows, other_lengths
        query, key, value = (x.detach() for x in case.of(dtype))
        expected, expected_weights = formula(query, key, value, case.allowed)
        output, weights = attention(query, key, value, case.mask)
        assert furthest(output, expected) <= TOLERANCE[dtype]
        assert furthest(weights, expected_weights) <= TOLERANCE[dtype]
        for path in PATHS:
            result = fused(path, query, key, value, case.mask)
            assert furthest(result, expected) <= TOLERANCE[dtype]
            assert (result.double() - output.double()).abs().max() <= TOLERANCE[dtype]
            assert result.dtype == output.dtype == dtype
        seen[case.kind, dtype] += 1
        empty_rows += int((~case.allowed.any(-1)).any())
        other_lengths += int(query.shape[-2] != key.shape[-2])

    check()
    assert seen.total() >= examples
    assert set(seen) == set(product(MASKS, DTYPES))
    assert min(empty_rows, other_lengths) >= examples // 10


@needs_kernels
@pytest.mark.parametrize("examples", GRADIENT_EXAMPLES)
def test_gradients_of_products_and_kernel_are_those_of_the_reference_in_float64(examples: int) -> None:
    """By autograd through the reference; its own gradients are compared with finite differences elsewhere."""
    count = 0

    @settings(steady, max_examples=examples)
    @given(case=cases())
    def check(case: Case) -> None:
        nonlocal count
        exact = case.of(torch.float64)
        attention(*exact, case.mask)[0].sin().sum().backward()
        for path, (dtype, bound) in product(PATHS, ((torch.float64, 1e-12), (torch.float32, 1e-5))):
            if path == "native" and dtype == torch.float64:
                continue  # the kernels have float32 and bfloat16
            inputs = case.of(dtype)
            fused(path, *inputs, case.mask).sin().sum().backward()
            for mine, reference in zip(inputs, exact, strict=True):
                assert mine.grad is not None
                assert reference.grad is not None
                # a gradient is a sum over up to 3 x 17 queries: its rounding grows with it
                scale = max(1.0, float(reference.grad.abs().max()))
                assert furthest(mine.grad, reference.grad.numpy()) <= bound * scale
        count += 1

    check()
    assert count >= examples
