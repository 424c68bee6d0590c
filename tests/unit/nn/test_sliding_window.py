"""A window in multi-head attention: over a long sequence it is exact attention under its mask, of fewer pairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.unit.nn.reference import numpy_attention, to_numpy
from torch import Tensor

from dikkat.nn.cache import SelfAttentionCache
from dikkat.nn.functional import attention
from dikkat.nn.masks import causal_mask, key_mask, length_mask, window_mask
from dikkat.nn.multi_head_attention import MultiHeadAttention, Observation
from dikkat.nn.named_positions import attention_positions
from dikkat.nn.sliding_window import LONG, MIN_BLOCK_SIZE, sliding_window_attention

D, H = 32, 2
LENGTH, WINDOW = LONG + 150, 20
LENGTHS = torch.tensor([LENGTH, LENGTH - 100])
MASKS: dict[str, Callable[[], Tensor | None]] = {
    "none": lambda: None,
    "padding": lambda: key_mask(length_mask(LENGTHS, LENGTH)),
    "causal": lambda: causal_mask(LENGTH),
    "causal and padding": lambda: causal_mask(LENGTH) & key_mask(length_mask(LENGTHS, LENGTH)),
    "of two dimensions": lambda: causal_mask(LENGTH)[0, 0],
    "by head": lambda: torch.rand(2, H, LENGTH, LENGTH) > 0.3,
}


def pair(**options: Any) -> tuple[MultiHeadAttention, MultiHeadAttention]:
    """The same weights with a window and without."""
    positions = attention_positions(options.pop("positions", "none"), H, D // H, causal=True)
    window = {name: options.pop(name) for name in ("causal", "global_tokens") if name in options}
    windowed = MultiHeadAttention(D, H, positions=positions, window=WINDOW, **window, **options)
    whole = MultiHeadAttention(D, H, positions=positions, **options)
    whole.load_state_dict(windowed.state_dict())
    return windowed, whole


def most_keys(module: MultiHeadAttention, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many keys were compared with a query, call by call from now on."""
    seen: list[int] = []
    compare = module.comparison

    def watched(q: Tensor, k: Tensor, *rest: Any, **named: Any) -> Tensor:
        seen.append(k.shape[2])
        return compare(q, k, *rest, **named)

    watched.weights = compare.weights  # type: ignore[attr-defined]
    # a module is no place for a function
    monkeypatch.delattr(module, "comparison")
    monkeypatch.setattr(module, "comparison", watched, raising=False)
    return seen


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(
    "options",
    [{}, {"positions": "rotary"}, {"num_kv_heads": 1}, {"score": "bilinear"}],
    ids=lambda options: " ".join(map(str, options.values())) or "default",
)
def test_a_long_window_is_the_mask_and_so_are_its_gradients(
    mask: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (windowed, whole), x = pair(**options), torch.randn(2, LENGTH, D)
    allowed, arguments = window_mask(LENGTH, window=WINDOW), MASKS[mask]()
    allowed = allowed if arguments is None else allowed & arguments
    weight = torch.randn(2, LENGTH, D)
    results = []
    for module, seen in ((whole, allowed), (windowed, arguments)):
        inputs = x.clone().requires_grad_()
        output = module(inputs, mask=seen)
        results.append((output, *torch.autograd.grad(output, [inputs, *module.parameters()], weight)))
    for result, expected in zip(*reversed(results), strict=True):
        largest = expected.detach().abs().max().clamp(min=1.0)
        assert (result - expected).abs().max() <= 1e-5 * largest
    keys = most_keys(windowed, monkeypatch)
    windowed(x, mask=arguments)
    assert keys == [MIN_BLOCK_SIZE + 2 * WINDOW]


@pytest.mark.parametrize("mask", ["causal", "causal and padding"])
def test_a_causal_window_hides_nothing_more_under_a_causal_mask(mask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (windowed, whole), x, inputs = pair(causal=True), torch.randn(2, LENGTH, D), MASKS[mask]()
    assert inputs is not None
    expected = whole(x, mask=window_mask(LENGTH, window=WINDOW) & inputs)
    assert (windowed(x, mask=inputs) - expected).abs().max() <= 1e-5
    keys = most_keys(windowed, monkeypatch)
    windowed(x, mask=inputs)
    assert keys == [MIN_BLOCK_SIZE + WINDOW]


@pytest.mark.parametrize("length", [9, LENGTH])
def test_a_causal_window_only_looks_back_whatever_the_mask(length: int) -> None:
    (windowed, whole), x = pair(causal=True), torch.randn(2, length, D)
    expected = whole(x, mask=window_mask(length, window=WINDOW) & causal_mask(length))
    assert (windowed(x) - expected).abs().max() <= 1e-5


@pytest.mark.parametrize(
    "options",
    [{"global_tokens": 3}, {"positions": "alibi"}, {"selection": "argmax"}, {"score": "additive"}],
    ids=lambda options: " ".join(map(str, options.values())),
)
def test_what_needs_all_pairs_gets_a_mask(options: dict[str, Any]) -> None:
    (windowed, whole), x = pair(**options), torch.randn(1, LENGTH, D)
    near = window_mask(LENGTH, window=WINDOW, global_tokens=options.get("global_tokens", 0))
    assert torch.equal(windowed(x), whole(x, mask=near))


def test_who_reads_changes_no_bit_and_sees_all_pairs() -> None:
    (windowed, _), x, inputs = pair(), torch.randn(2, LENGTH, D), MASKS["padding"]()
    assert inputs is not None
    output, seen, read = windowed(x, mask=inputs), list[Observation](), list[Tensor]()
    with windowed.observe(seen.append), windowed.read_weights(read.append):
        assert torch.equal(windowed(x, mask=inputs), output)
    allowed = window_mask(LENGTH, window=WINDOW) & inputs
    assert torch.equal(seen[0].mask.expand_as(allowed), allowed)  # type: ignore[union-attr]
    _, expected = numpy_attention(seen[0].query, seen[0].key, seen[0].value, allowed)
    assert abs(to_numpy(read[0]) - expected).max() <= 1e-5
    assert not read[0].requires_grad


def test_a_cache_is_read_as_far_as_the_window_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    """In pieces of several positions and of one, the rows of the whole."""
    (windowed, whole), x = pair(causal=True, positions="rotary"), torch.randn(2, 90, D)
    expected = whole(x, mask=window_mask(90, window=WINDOW) & causal_mask(90))
    keys, cache, parts, first = most_keys(windowed, monkeypatch), SelfAttentionCache(), [], 0
    for size in (30, 40, *[1] * 20):
        mask = causal_mask(size, first + size) if size > 1 else None
        parts.append(windowed(x[:, first : first + size], mask=mask, cache=cache))
        first += size
    assert (torch.cat(parts, dim=1) - expected).abs().max() <= 1e-5
    assert keys == [30, 60, *[1 + WINDOW] * 20]


def test_in_training_weights_are_dropped_in_a_window_too() -> None:
    (windowed, _), x = pair(dropout=0.5), torch.randn(1, LENGTH, D)
    torch.manual_seed(1)
    first = windowed(x)
    torch.manual_seed(1)
    assert torch.equal(windowed(x), first)
    assert (windowed(x) - first).abs().max() > 1e-3
    kept = [windowed(x) for _ in range(200)]
    # dropout keeps the mean
    assert (torch.stack(kept).mean(0) - windowed.eval()(x)).abs().max() < 0.1


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [0, 7, 90, 400])
def test_gradients_of_the_function_are_those_of_exact_attention(window: int, causal: bool) -> None:
    real, inputs = length_mask(torch.tensor([200, 130]), 200), [torch.randn(2, H, 200, 8) for _ in range(3)]
    mask = window_mask(200, window=window) & key_mask(real)
    mask = mask & causal_mask(200) if causal else mask
    weight, results = torch.randn(2, H, 200, 8), []
    for attend in (
        lambda q, k, v: attention(q, k, v, mask)[0],
        lambda q, k, v: sliding_window_attention(q, k, v, window, real=real, causal=causal),
    ):
        arguments = [item.clone().requires_grad_() for item in inputs]
        results.append(torch.autograd.grad(attend(*arguments), arguments, weight))
    for result, expected in zip(results[1], results[0], strict=True):
        assert (result - expected).abs().max() <= 1e-5
