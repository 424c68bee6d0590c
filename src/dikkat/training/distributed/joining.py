"""Give the ranks of one start keys of their own in the store of torchrun, which outlives the ranks that it restarts."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

from torch._C._distributed_c10d import PrefixStore, Store

from dikkat.training.distributed.ranks import LostRankError
from dikkat_runtime.messages import msg

T = TypeVar("T")
POLL_SECONDS = 0.05
"""Time between two looks at the store: the waiting of the store itself leaves signals unanswered."""


def within(seconds: float, call: Callable[[], T]) -> T:
    """Return what a call of the store returns. Raises `LostRankError` where it takes longer.

    Where the network is cut, the store itself waits for its answer without end.
    """
    answers: SimpleQueue[T | RuntimeError] = SimpleQueue()

    def work() -> None:
        try:
            answers.put(call())
        except RuntimeError as error:
            answers.put(error)

    threading.Thread(target=work, daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except Empty:
        raise LostRankError(
            msg("the store of the ranks did not answer for {seconds:.0f} seconds").fill(seconds)
        ) from None
    if isinstance(answer, RuntimeError):
        raise answer
    return answer


def await_key(store: Store, key: str, deadline: float) -> None:
    """Wait until `key` is set. Raises `LostRankError` after `deadline`, by `time.monotonic`."""
    while not store.check([key]):
        if time.monotonic() > deadline:
            raise LostRankError(msg("another rank did not start; look at its output"))
        time.sleep(POLL_SECONDS)


def own_store(store: Store, index: int, count: int, seconds: float) -> Store:
    """Return a view of `store` that holds nothing but what the ranks of this start write, once all of them are there.

    The first rank draws the name of the view. Every other one asks for it under a name of its own, so that no answer
    to a rank that has died since can be taken for its own. Raises `LostRankError` after so many seconds.
    """
    deadline = time.monotonic() + seconds
    name = _let_in(store, count, deadline) if index == 0 else _ask(store, index, deadline)
    return PrefixStore(name, store)


def _let_in(store: Store, count: int, deadline: float) -> str:
    """Tell all ranks but this one, the first, the name of their view."""
    name = f"dikkat/start/{uuid.uuid4().hex}"
    asked: dict[int, bytes] = {}
    absent = set(range(1, count))
    while absent:
        for rank in sorted(absent):
            key = f"dikkat/asks/{rank}"
            # a rank that died may have asked before it
            if store.check([key]) and (question := store.get(key)) != asked.get(rank):
                asked[rank] = question
                store.set(f"dikkat/told/{question.decode()}", name)
            if store.check([f"{name}/here/{rank}"]):
                absent.discard(rank)
        if absent and time.monotonic() > deadline:
            raise LostRankError(msg("rank {absent} did not start; look at its output").fill(min(absent)))
        time.sleep(POLL_SECONDS)
    store.set(f"{name}/complete", "1")
    return name


def _ask(store: Store, index: int, deadline: float) -> str:
    question = uuid.uuid4().hex
    store.set(f"dikkat/asks/{index}", question)
    await_key(store, f"dikkat/told/{question}", deadline)
    name = store.get(f"dikkat/told/{question}").decode()
    store.set(f"{name}/here/{index}", "1")
    await_key(store, f"{name}/complete", deadline)
    return name
