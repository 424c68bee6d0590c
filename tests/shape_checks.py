"""Checks the shape annotations of functions: by day in the first calls of a test, in the nightly in every call.

By day no call is checked whose arguments have the types and shapes of one before it in the same test: annotations
tell nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from functools import wraps
from types import CodeType, FunctionType
from typing import Any

import jaxtyping

CHECKED_CALLS = 4
"""Of a function in a test: two layers of an encoder, then self-attention and cross-attention of a decoder. A check
costs more than most of the functions: all of them were half of the time of a test that trains or decodes."""
PLAIN = ("torch", "torch.nn.parameter", "numpy")
"""Modules of tensors, parameters and arrays."""
_limit: float = CHECKED_CALLS
_calls: dict[CodeType, list[int]] = {}
"""A list of one count for each function: code is slow to hash, and a trained model makes a million calls."""
_shapes: set[tuple[object, ...]] = set()
"""What was found right in this test, as `_described` gives it."""
COMPILED = "dikkat.kernels.gpu."
"""Private functions there are compiled by Triton from their source, and have no shapes."""
_jaxtyped = jaxtyping.jaxtyped


def install(packages: list[str]) -> None:
    """Check the annotations of these packages, none of which is imported yet, with beartype."""
    jaxtyping.jaxtyped = _decorator  # type: ignore[assignment]
    jaxtyping.install_import_hook(packages, "beartype.beartype")


def begin_test(*, every_call: bool = False) -> None:
    """Count calls anew, and check all of them or `CHECKED_CALLS` of a function."""
    global _limit
    _limit = math.inf if every_call else CHECKED_CALLS
    _shapes.clear()
    for count in _calls.values():
        count[0] = 0


def _decorator(*, typechecker: Callable[..., Any]) -> Callable[..., Any]:
    decorate = _jaxtyped(typechecker=typechecker)

    def decorated(function: type | FunctionType) -> Callable[..., Any]:
        if function.__module__.startswith(COMPILED) and function.__name__.startswith("_"):
            return function
        return _checked_at_first(function, decorate) if isinstance(function, FunctionType) else decorate(function)

    return decorated


def _checked_at_first(function: FunctionType, decorate: Callable[..., Any]) -> Callable[..., Any]:
    checked: Callable[..., Any] | None = None
    # one for all functions that are made anew in each call of another
    count = _calls.setdefault(function.__code__, [0])

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        nonlocal checked
        if count[0] >= _limit:
            return function(*arguments, **options)
        count[0] += 1
        key = _described(id(count), arguments, options) if _limit < math.inf else None
        if key in _shapes:
            return function(*arguments, **options)
        if checked is None:
            # here and not at import: many functions are called by no test of a process
            checked = decorate(function)
        result = checked(*arguments, **options)
        if key is not None:
            _shapes.add(key)
        return result

    return call


def _described(function: int, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[object, ...] | None:
    """Return what annotations can tell of the arguments of a call; None where one of them may tell more.

    That is a container, which may hold tensors or sizes, a choice, and a tensor of another kind, whose shape may be a
    symbol.
    """
    result: list[object] = [function, *options]
    for value in (*arguments, *options.values()):
        kind, shape = type(value), getattr(value, "shape", None)
        if isinstance(value, (tuple, list, dict, Enum)) or (shape is not None and kind.__module__ not in PLAIN):
            return None
        plain = value if kind in (int, float, str, bool) else None
        result += (kind, shape, plain, getattr(value, "dtype", None))
    return tuple(result)
