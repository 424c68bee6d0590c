"""Copies of the process do the work of one, in its order, and leave nothing behind."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

import pytest
import torch
from tests.unit.decoding.mock_model import MockModel, some_sentences
from tests.unit.decoding.reversing import learned, sentences

from dikkat.config import TokenizerConfig
from dikkat.decoding import copies
from dikkat.decoding.batching import pad_sources
from dikkat.decoding.copies import Copies, can_be_copied
from dikkat.decoding.strategies import batch_decoder
from dikkat.decoding.streaming import decode_stream
from dikkat_runtime.engine.contract import EMPTY, Hypothesis
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, SamplingOptions
from dikkat_runtime.errors import DikkatError, UsageError
from dikkat_runtime.text.tokenizer import Tokenizer

Part = TypeVar("Part")
Made = TypeVar("Made")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are copied on Linux only")


def is_running(process: int) -> bool:
    return Path(f"/proc/{process}").exists()


def in_copies(work: Callable[[Part], Made], parts: Sequence[Part], count: int) -> Iterator[Made]:
    with closing(Copies(work, count)) as made:
        yield from made.map(parts)


def test_order_is_kept_and_every_process_works() -> None:
    def work(part: int) -> tuple[int, int]:
        sleep(0.02 * (part % 3))
        return 10 * part, os.getpid()

    made = list(in_copies(work, range(40), 3))
    assert [number for number, _ in made] == list(range(0, 400, 10))
    processes = {process for _, process in made}
    assert len(processes) == 3
    assert not any(map(is_running, processes - {os.getpid()}))


def test_every_process_works_with_one_thread_and_the_parent_keeps_its_own() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for threads in in_copies(lambda _: torch.get_num_threads(), range(4), 2):
            assert threads == 1
            assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_after_an_error_no_further_part_is_begun(tmp_path: Path) -> None:
    def work(part: int) -> None:
        (tmp_path / str(part)).touch()
        sleep(0.01)
        raise UsageError(f"not {part}")

    with pytest.raises(UsageError, match=r"not [01]"):
        list(in_copies(work, range(100), 2))
    assert len(list(tmp_path.iterdir())) <= 2


@pytest.mark.parametrize("parts", [8, 10_000])
def test_a_copy_that_was_killed_is_an_error_and_no_silence(parts: int) -> None:
    """Also long before the parent could have done the rest."""
    parent, worked = os.getpid(), []

    def work(part: int) -> int:
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        worked.append(part)
        sleep(0.01)
        return part

    with pytest.raises(DikkatError, match="was killed; try a smaller batch size"):
        list(in_copies(work, range(parts), 2))
    assert len(worked) < 1000


def test_a_copy_that_was_killed_in_the_midst_of_telling_is_one_too() -> None:
    receiver, sender = multiprocessing.Pipe(duplex=False)
    os.write(sender.fileno(), struct.pack("!i", 100) + b"a beginning")
    sender.close()
    with pytest.raises(DikkatError, match="was killed"):
        copies._receive(receiver, [receiver], {})


def test_ctrl_c_is_for_the_parent_alone() -> None:
    parent = os.getpid()

    def work(part: int) -> int:
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGINT)
        sleep(0.01)
        return part

    assert list(in_copies(work, range(8), 2)) == list(range(8))


def test_who_stops_asking_ends_the_copies(tmp_path: Path) -> None:
    """One that is at work then."""
    parent = os.getpid()

    def work(part: int) -> int:
        if os.getpid() != parent and part > 0:
            (tmp_path / str(os.getpid())).touch()
            sleep(600)
        while os.getpid() == parent and not list(tmp_path.iterdir()):
            sleep(0.01)
        return part

    made = Copies(work, 2).map(range(4))
    next(made)
    made.close()  # type: ignore[attr-defined]
    (process,) = (int(path.name) for path in tmp_path.iterdir())
    assert not is_running(process)


def test_much_is_sent_while_the_parent_works() -> None:
    """A copy goes on, and what it made, which is more than a pipe holds, comes whole."""
    parent = os.getpid()

    def work(part: int) -> tuple[bool, bytes]:
        sleep(0.02)
        return os.getpid() == parent, bytes([part]) * 300_000

    made = list(in_copies(work, range(20), 2))
    assert [each for _, each in made] == [bytes([part]) * 300_000 for part in range(20)]
    assert {here for here, _ in made} == {True, False}


def test_the_tokenizer_says_nothing_of_being_copied(capfd: pytest.CaptureFixture[str]) -> None:
    lines = ["a b c d", "b c", "d a"] * 50
    tokenizer = Tokenizer.train(lines, TokenizerConfig(vocab_size=320))
    before, ids = dict(os.environ), tokenizer.encode_batch(lines)
    assert list(in_copies(lambda _: tokenizer.decode_batch(ids), range(2), 2)) == [lines, lines]
    assert capfd.readouterr().err == ""
    assert dict(os.environ) == before


def test_no_copies_beside_threads_that_may_hold_a_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    assert can_be_copied()
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert not can_be_copied()


def test_no_copies_without_semaphores(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(threading, "active_count", lambda: 1)
    monkeypatch.setattr(multiprocessing.get_context("fork"), "Lock", missing)
    assert not can_be_copied()


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_a_copy_computes_what_a_parent_with_threads_did(positions: str) -> None:
    """Also by native kernels, whose threads a copy does not have; a whole decode by them only where they know it."""
    model, rows = learned(positions=positions), [row[:-1] for row in sentences(3)]
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        here = decode_stream(rows, batch_decoder(model, BeamOptions(beam_size=3)), [EMPTY], batch_size=80)
        expected = [[each.tokens for each in found] for found in here]
        source, mask = pad_sources(rows, torch.device("cpu"))
        decode = batch_decoder(model, BeamOptions(beam_size=3))
        for made in in_copies(lambda _: decode(source, mask, range(80)), range(2), 2):
            assert [[each.tokens for each in found] for found in made] == expected
    finally:
        torch.set_num_threads(before)


def test_no_copies_of_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    pool = multiprocessing.get_context("fork").Pool(1)
    with pool:
        assert not pool.apply(can_be_copied)


@pytest.mark.parametrize("options", [DecodingOptions(), BeamOptions(beam_size=3, n_best=2), SamplingOptions(seed=5)])
@pytest.mark.parametrize("copied", [True, False])
def test_copies_change_no_result(monkeypatch: pytest.MonkeyPatch, options: DecodingOptions, copied: bool) -> None:
    monkeypatch.setattr(copies, "can_be_copied", lambda: copied)
    sentences, decode = [list(row[:-1]) for row in some_sentences(64)], batch_decoder(MockModel(), options)
    one_by_one = list(decode_stream(sentences, decode, [EMPTY], batch_size=64))

    def work(part: tuple[Sequence[Sequence[int]], Sequence[int]]) -> Sequence[list[Hypothesis]]:
        return decode(*pad_sources(part[0], torch.device("cpu")), part[1])

    with closing(Copies(work, 2)) as two:
        for window in (2048, 20):
            found = decode_stream(sentences, decode, [EMPTY], batch_size=8, window=window, at_once=2, apart=two.map)
            assert list(found) == one_by_one


def whose(_: int) -> int:
    sleep(0.01)
    return os.getpid()


def test_one_part_is_done_here() -> None:
    with closing(Copies(whose, 2)) as two:
        assert list(two.map(range(1))) == [os.getpid()]
        assert multiprocessing.active_children() == []


def test_copies_wait_for_more_work_and_end_when_forgotten() -> None:
    three = Copies(whose, 3)
    first, second = set(three.map(range(40))), set(three.map(range(40)))
    assert first == second
    assert len(first) == 3
    assert all(map(is_running, first))
    del three
    gc.collect()
    assert not any(map(is_running, first - {os.getpid()}))


def test_a_copy_that_died_while_it_waited_is_replaced() -> None:
    with closing(Copies(whose, 2)) as two:
        (copy,) = set(two.map(range(20))) - {os.getpid()}
        os.kill(copy, signal.SIGKILL)
        # to the last of its threads, which may hold its end of the pipe for a while
        while multiprocessing.active_children():
            sleep(0.01)
        again = set(two.map(range(20)))
        assert len(again) == 2
        assert copy not in again


def test_after_an_error_there_are_new_copies() -> None:
    def work(part: int) -> int:
        sleep(0.01)
        if part < 0:
            raise UsageError("below zero")
        return os.getpid()

    with closing(Copies(work, 2)) as two:
        with pytest.raises(UsageError, match="below zero"):
            list(two.map([1, 1, -1, -1, 1]))
        assert multiprocessing.active_children() == []
        assert len(set(two.map([1] * 20))) == 2


def test_who_comes_while_the_copies_are_at_work_does_it_alone() -> None:
    with closing(Copies(whose, 2)) as two:
        busy = two.map(range(20))
        found = [next(busy)]
        assert list(two.map(range(3))) == [os.getpid()] * 3
        assert len({*found, *busy}) == 2


def test_a_process_that_was_forked_elsewhere_has_copies_of_its_own() -> None:
    with closing(Copies(whose, 2)) as two:
        ours = set(two.map(range(20)))
        reader, writer = os.pipe()
        if (child := os.fork()) == 0:
            os.write(writer, " ".join(map(str, {os.getpid(), *two.map(range(20))})).encode())
            two.close()
            os._exit(0)
        os.close(writer)
        with open(reader) as told:
            theirs = set(map(int, told.read().split()))
        assert os.waitpid(child, 0)[1] == 0
        assert len(theirs) == 2
        assert not theirs & ours
        assert set(two.map(range(20))) == ours


ORPHANED = """
import os, signal
from dikkat.decoding.copies import Copies
copies = Copies(lambda _: os.getpid(), 2)
found = set()
while len(found) < 2:
    found |= set(copies.map(range(20)))
print(*(found - {os.getpid()}), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_copy_does_not_outlive_its_parent() -> None:
    found = subprocess.run([sys.executable, "-c", ORPHANED], stdout=subprocess.PIPE, check=False, timeout=120)
    limit = monotonic() + 30
    while is_running(int(found.stdout)):
        assert monotonic() < limit
        sleep(0.02)
