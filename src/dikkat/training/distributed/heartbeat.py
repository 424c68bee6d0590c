"""Waiting for another rank as long as it lives: a validation or a preparation may take any time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from torch._C._distributed_c10d import Store

from dikkat.training.distributed.joining import POLL_SECONDS, within
from dikkat.training.distributed.ranks import LostRankError

BEAT_SECONDS = 5.0
"""Time between two beats, at most: less where ranks are lost sooner."""
_BEATS = "dikkat/beats"
"""Key of the store, before the number of the rank that counts its beats there."""


@contextmanager
def beating(store: Store, key: str, limit: float, rank: int = 0) -> Iterator[None]:
    """Tell the ranks that wait for `key` that the body still runs on this `rank`, and set `key` when it ends well.

    They hear it four times or more in the `limit` seconds after which this rank is lost to them. Raises
    `LostRankError` when the store is out of reach.
    """
    pause = min(BEAT_SECONDS, limit / 4)
    is_over = threading.Event()

    def beat() -> None:
        # where the store is gone, the end of the body tells
        with suppress(RuntimeError):
            while not is_over.wait(pause):
                store.add(f"{_BEATS}/{rank}", 1)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        # a beat whose store is out of reach is not waited for
        thread.join(BEAT_SECONDS)
    try:
        within(limit, lambda: store.set(key, "done"))
    except RuntimeError as error:
        raise LostRankError("the store of the ranks is gone") from error


def await_beating(
    store: Store, key: str, limit: float, now: Callable[[], float] = time.monotonic, rank: int = 0
) -> None:
    """Wait for `key`, which `rank` sets. Raises `LostRankError` when that did not beat for `limit` seconds."""
    beats, last = -1, now()
    while not within(limit, lambda: store.check([key])):
        count = within(limit, lambda: store.add(f"{_BEATS}/{rank}", 0))
        if count != beats:
            beats, last = count, now()
        elif now() - last > limit:
            raise LostRankError(f"rank {rank} did not answer for {limit:.0f} seconds")
        time.sleep(POLL_SECONDS)
