"""The driver: workers that die while they are not looked at, and estimates."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.runs import translator_run
from tests.runtime.shards.shouting import FINGERPRINT, ShoutingModel, job

from dikkat_runtime.errors import DataError, OutOfMemoryError, StoppedError
from dikkat_runtime.rows.contract import Format, Values
from dikkat_runtime.shards import processes
from dikkat_runtime.shards.call import plan_shards
from dikkat_runtime.shards.driver import Driver, estimate_line
from dikkat_runtime.shards.models import open_model
from dikkat_runtime.shards.processes import SILENT_SECONDS, LocalWorkers, _reason
from dikkat_runtime.shards.work import Job, Shard, Work, model_fingerprint, to_json
from dikkat_runtime.shards.worker import Reply, Worker, death
from dikkat_runtime.shards.writing import missing_shards, sample_shard
from dikkat_runtime.tasks.corrections import Corrections


class DyingEarly(LocalWorkers):
    """The second worker is killed as soon as it has opened the model, while the first is asked for an estimate."""

    kept: list[tuple[int, Reply]] = []  # noqa: RUF012
    is_ready = is_dead = False

    def send(self, number: int, command: Mapping[str, Any]) -> None:
        """Ask for an estimate when the second worker is dead."""
        while command.get("do") == "sample" and not self.is_dead:
            self.kept = self.receive(1.0)
            if self.is_ready:
                os.kill(self._processes[1].pid, signal.SIGKILL)
                self._processes[1].wait()
                while not self.is_dead:
                    self.kept = self.receive(1.0)
        super().send(number, command)

    def receive(self, timeout: float) -> list[tuple[int, Reply]]:
        """Return what was kept first."""
        replies, self.kept = self.kept + super().receive(timeout if not self.kept else 0.0), []
        self.is_ready |= (1, True) in [(number, "ready" in reply) for number, reply in replies]
        self.is_dead |= (1, True) in [(number, "died" in reply) for number, reply in replies]
        return replies


def files(folder: Path, count: int) -> Path:
    for number in range(count):
        path = folder / f"{number}.txt"
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"line {number} {row}\n" for row in range(20 + number)))
    return folder


def test_a_worker_that_dies_between_its_model_and_its_first_file(tmp_path: Path) -> None:
    shards = plan_shards([files(tmp_path / "in", 4)], tmp_path / "out").shards
    workers = DyingEarly(job(), FINGERPRINT)
    driver = Driver(workers, 2, missing_shards(shards, FINGERPRINT, force=False), None)
    try:
        driver.estimate()
        assert workers.is_dead
        result = driver.run()
    finally:
        driver.close()
    assert (len(result.records), result.bad, result.poison) == (4, {}, {})
    for shard in shards:
        assert shard.output.read_bytes() == shard.source.read_bytes().upper()


class Stopped(LocalWorkers):
    """The first process of each worker is stopped, and has been silent for nearly too long."""

    starts = 0

    def start(self, number: int) -> None:
        """Start a worker."""
        super().start(number)
        self.starts += 1
        if self.starts == 1:
            os.kill(self._processes[number].pid, signal.SIGSTOP)
            self._silent[number] = SILENT_SECONDS - 0.1


def test_a_worker_that_is_stopped_is_not_waited_for_without_end(tmp_path: Path) -> None:
    shards = plan_shards([files(tmp_path / "in", 1)], tmp_path / "out").shards
    workers = Stopped(job(), FINGERPRINT)
    driver = Driver(workers, 1, missing_shards(shards, FINGERPRINT, force=False), None)
    try:
        driver.estimate()
        result = driver.run()
    finally:
        driver.close()
    assert (workers.starts, len(result.records)) == (2, 1)


def test_a_worker_gives_signs_of_life_while_it_has_nothing_to_do_and_none_is_missed_by_a_driver_that_was_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workers = LocalWorkers(job(), FINGERPRINT)
    try:
        workers.start(0)
        while not any("ready" in reply for _, reply in workers.receive(0.5)):
            pass
        workers._silent[0] = SILENT_SECONDS / 2
        while workers._silent[0]:
            assert workers.receive(0.5) == []
        now = 0.0

        def monotonic() -> float:
            nonlocal now
            now += 2 * SILENT_SECONDS
            return now

        # as after the night that a suspended container slept through
        monkeypatch.setattr(processes, "monotonic", monotonic)
        for _ in range(3):
            assert workers.receive(0.01) == []
        assert workers._silent[0] < 1
    finally:
        workers.close()


def test_a_killed_worker_that_waits_for_a_dead_disk_is_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Signals are held meanwhile, so that no Ctrl-C would end the wait."""
    workers = LocalWorkers(job(), FINGERPRINT)
    for number in range(2):
        workers.start(number)
    stuck, other = workers._processes.values()

    def wait(timeout: float | None = None) -> int:
        assert other.wait() == -signal.SIGKILL, "it is killed before the first is waited for"
        assert timeout is not None
        raise subprocess.TimeoutExpired("worker", timeout)

    with monkeypatch.context() as patch:
        patch.setattr(stuck, "wait", wait)
        workers.close()
    assert (workers._processes, stuck.wait()) == ({}, -signal.SIGKILL)


def end(driver: Driver, *, is_interrupted: bool) -> None:
    try:
        if is_interrupted:
            raise KeyboardInterrupt
    finally:
        driver.close()


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_a_second_ctrl_c_waits_until_what_is_half_written_is_removed(is_interrupted: bool, tmp_path: Path) -> None:
    class Slow(LocalWorkers):
        def close(self) -> None:
            super().close()
            os.kill(os.getpid(), signal.SIGINT)

    shards = plan_shards([files(tmp_path / "in", 1)], tmp_path / "out").shards
    driver = Driver(Slow(job(), FINGERPRINT), 1, missing_shards(shards, FINGERPRINT, force=False), None)
    driver._has_begun = True
    half = shards[0].output.with_name(".writing-0.txt-0123abcd")
    half.parent.mkdir()
    half.touch()
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        end(driver, is_interrupted=is_interrupted)
    assert not half.exists()
    assert signal.getsignal(signal.SIGINT) is before


class OutOfMemory(LocalWorkers):
    """Every worker tells that memory was short as soon as it is started."""

    reply: Reply

    def start(self, number: int) -> None:
        """Start none."""

    def receive(self, timeout: float) -> list[tuple[int, Reply]]:
        """Return the same for ever."""
        return [(0, self.reply)]


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (death(MemoryError()), "ran out of memory (a smaller --workers or --beam takes less)"),
        (death(RuntimeError("DefaultCPUAllocator: can't allocate memory")), "ran out of memory (a smaller --workers"),
        ({"died": _reason(-signal.SIGKILL), "memory": True}, "killed by SIGKILL, perhaps because memory is short"),
    ],
)
def test_a_model_for_which_memory_is_too_small_is_no_bug(reply: Reply, said: str, tmp_path: Path) -> None:
    shards = plan_shards([files(tmp_path / "in", 1)], tmp_path / "out").shards
    workers = OutOfMemory(job(), FINGERPRINT)
    workers.reply = reply
    driver = Driver(workers, 1, shards, None)
    with pytest.raises(OutOfMemoryError) as caught:
        driver.estimate()
    driver.close()
    assert str(caught.value).startswith(f"no worker could open the model: the last one {said}")


def test_a_file_that_seems_damaged_for_want_of_memory_is_tried_again(tmp_path: Path) -> None:
    class Hungry(ShoutingModel):
        def answers(self, texts: Sequence[str]) -> list[Values]:
            try:
                raise MemoryError
            except MemoryError:
                raise DataError("model.safetensors: damaged")  # noqa: B904

    shards = plan_shards([files(tmp_path / "in", 1)], tmp_path / "out").shards
    worker = Worker(to_json(job()), FINGERPRINT)
    worker._model = Hungry(job())
    shards[0].output.parent.mkdir()
    with pytest.raises(DataError) as caught:
        worker({"do": "write", "work": to_json(Work(shards[0]))}, lambda reply: None)
    assert death(caught.value)["memory"]


def test_the_largest_file_is_reported_like_any_other_where_it_is_damaged(tmp_path: Path) -> None:
    """It is the one that the estimate reads."""
    folder = files(tmp_path / "in", 2)
    (folder / "large.txt.gz").write_bytes(b"no gzip" * 1000)
    shards = plan_shards([folder], tmp_path / "out").shards
    driver = Driver(LocalWorkers(job(), FINGERPRINT), 1, missing_shards(shards, FINGERPRINT, force=False), None)
    try:
        assert driver.estimate().startswith(f"no estimate: {folder / 'large.txt.gz'}: damaged")
        result = driver.run()
    finally:
        driver.close()
    assert len(result.records) == 2
    with pytest.raises(DataError, match=r"large\.txt\.gz: damaged"):
        result.check()


def test_an_estimate_removes_nothing_of_a_call_that_writes(tmp_path: Path) -> None:
    shards = plan_shards([files(tmp_path / "in", 1)], tmp_path / "out").shards
    half = shards[0].output.with_name(".writing-0.txt-0123abcd")
    half.parent.mkdir()
    half.touch()
    driver = Driver(LocalWorkers(job(), FINGERPRINT), 1, shards, None)
    try:
        assert driver.estimate(alone=True).startswith("about 20 rows in 1 file")
    finally:
        driver.close()
    assert half.exists()


def test_an_estimate_tells_rows_with_words_from_empty_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first rows may be empty, and a million empty ones take their time too."""
    import time

    class Reading(ShoutingModel):
        def answers(self, texts: Sequence[str]) -> list[Values]:
            slept.append(0.001 * len(texts))
            return super().answers(texts)

    slept = [0.0]
    monkeypatch.setattr(time, "sleep", lambda seconds: slept.append(seconds))
    monkeypatch.setattr(time, "perf_counter", lambda: sum(slept))
    path = tmp_path / "a.txt"
    path.write_text("\n" * 5_000 + "SLOW line\n" * 5_000)
    shard = Shard(path, tmp_path / "out", Format("text"), path.stat().st_size)
    sample = sample_shard(shard, job(), Reading(job()))
    # a millisecond a row, and two more for words
    assert sample == pytest.approx({"rows": 10_000, "seconds": 20.0})
    # where no row is empty, the model is asked for none
    path.write_text("SLOW line\n" * 5_000)
    slept.clear()
    sample_shard(shard, job(), Reading(job()))
    assert sum(slept) == pytest.approx(512 * 0.003)


def test_the_processors_of_an_estimate_are_those_of_all_threads() -> None:
    shards = [Shard(Path("0.txt"), Path("out/0.txt"), Format("text"), 100)]
    line = estimate_line({"rows": 30.0, "seconds": 60.0}, shards[0], shards, 2, threads=4)
    assert (
        line == "about 30 rows in 1 file: 0:30 by 2 workers, 4:00 of processor time "
        "(estimated from the first rows of 0.txt)"
    )


def test_what_is_corrected_while_files_are_translated_is_for_the_next_call(tmp_path: Path) -> None:
    """Else one file would be made by several states of the run, and its record would name one of them."""
    asked = Job(run=translator_run(tmp_path / "run"), task="translate", precision="float32", beam=1)
    model = open_model(asked)
    before = model.answers(["Yes."])
    Corrections(asked.run).add("Yes.", "as a person has it")
    assert model.answers(["Yes."]) == before
    assert open_model(asked).answers(["Yes."]) == [("as a person has it",)]
    assert model.fingerprint != model_fingerprint(asked)


def test_a_worker_that_finds_another_model_than_the_call_began_with(tmp_path: Path) -> None:
    asked = Job(run=translator_run(tmp_path / "run"), task="translate", precision="float32")
    fingerprint = {"model": model_fingerprint(asked), "options": asked.options}
    assert "native" in Worker(to_json(asked), fingerprint).ready["ready"]
    Corrections(asked.run).add("Yes.", "as a person has it")
    with pytest.raises(StoppedError, match="run: has changed since this command started; run it again"):
        Worker(to_json(asked), fingerprint)
