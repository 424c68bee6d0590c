"""Run what takes the interpreter for long in one thread next to the event loop, which then waits for it but briefly."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def beside(function: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    """Return what a function that computes in Python returns; one at a time, so that the event loop keeps its share."""
    return await asyncio.get_running_loop().run_in_executor(_thread(), lambda: function(*arguments, **options))


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "beside")
