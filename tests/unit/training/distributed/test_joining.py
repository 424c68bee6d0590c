"""Ranks that start, or start again, meet each other and nobody who died before."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from torch.distributed import HashStore  # type: ignore[attr-defined]

from dikkat.training.distributed.environment import RankInfo
from dikkat.training.distributed.process_group import await_beating, heartbeat, joined, own_store
from dikkat.training.distributed.ranks import LostRankError
from dikkat_runtime.errors import UsageError


def meet(store: HashStore, count: int) -> None:
    """Let `count` ranks join, the first one last, and try that all see the same keys."""
    with ThreadPoolExecutor(count) as pool:
        later = [pool.submit(own_store, store, rank, count, 20.0) for rank in range(count - 1, 0, -1)]
        views = [own_store(store, 0, count, 20.0), *(view.result() for view in later)]
    assert not any(view.check(["greeting"]) for view in views), "a key of an earlier start"
    views[-1].set("greeting", "hello")
    assert all(view.get("greeting") == b"hello" for view in views)


def test_every_start_has_keys_of_its_own_in_a_store_that_outlives_it() -> None:
    store = HashStore()
    for count in (3, 3, 2):
        meet(store, count)


def test_a_rank_is_told_nothing_that_was_meant_for_one_that_died() -> None:
    store = HashStore()
    with pytest.raises(LostRankError, match="another rank did not start"):
        own_store(store, 1, 2, 0.2)
    # it asked, and the first rank answers it before the one that takes its place has asked
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(own_store, store, 0, 2, 20.0)
        while not store.check([f"dikkat/told/{store.get('dikkat/asks/1').decode()}"]):
            time.sleep(0.01)
        assert not first.done(), "nobody is there yet"
        second = own_store(store, 1, 2, 20.0)
        second.set("greeting", "hello")
        assert first.result().get("greeting") == b"hello"


def test_a_rank_that_does_not_start_is_named() -> None:
    with pytest.raises(LostRankError, match="rank 1 did not start"):
        own_store(HashStore(), 0, 2, 0.2)


def test_a_first_rank_is_waited_for_as_long_as_it_beats() -> None:
    store = HashStore()
    with pytest.raises(LostRankError, match="rank 0 did not answer for 0 seconds"):
        await_beating(store, "work", 0.2)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(await_beating, store, "work", 5.0)
        with heartbeat(store, "work", 5.0):
            time.sleep(0.2)
            assert not waiting.done()
        assert waiting.result(60.0) is None


def test_a_first_rank_beats_often_enough_for_a_short_limit() -> None:
    store, limit = HashStore(), 2.0
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(await_beating, store, "work", limit)
        with heartbeat(store, "work", limit):
            time.sleep(1.5 * limit)
            assert not waiting.done()
        assert waiting.result(60.0) is None


def test_a_store_that_does_not_answer_is_not_waited_for() -> None:
    class CutOff(HashStore):
        def check(self, keys: list[str]) -> bool:
            time.sleep(30)
            return False

    began = time.monotonic()
    with pytest.raises(LostRankError, match="the store of the ranks did not answer for 1 seconds"):
        await_beating(CutOff(), "work", 1.0)
    assert time.monotonic() - began < 25


@pytest.mark.parametrize("text", ["soon", "0", "-3", "nan", "inf"])
def test_a_limit_that_is_no_number_of_seconds_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIKKAT_ANSWER_SECONDS", text)
    with (
        pytest.raises(UsageError, match=f"DIKKAT_ANSWER_SECONDS={text}: give the seconds"),
        joined(RankInfo(0, 2), False),
    ):
        pass
