"""The number of threads: the user's, the processors', the share of a container, and those free now."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dikkat_runtime.native import cpu, waiting


@pytest.fixture
def quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a control group of version 2, on a computer of eight processors, without `OMP_NUM_THREADS`."""
    path = tmp_path / "cpu.max"
    monkeypatch.setattr(cpu, "QUOTAS", ((str(path), str(path)), (str(tmp_path / "quota"), str(tmp_path / "period"))))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return path


@pytest.mark.parametrize(
    ("text", "threads"),
    [("max 100000", 8), ("200000 100000", 2), ("150000 100000", 2), ("10000 100000", 1), ("odd", 8)],
)
def test_a_container_has_as_many_threads_as_its_share(quota: Path, text: str, threads: int) -> None:
    quota.write_text(f"{text}\n", encoding="ascii")
    assert cpu.available_threads() == threads


@pytest.mark.parametrize(("limit", "threads"), [("-1", 8), ("300000", 3)])
def test_control_groups_of_version_1_count_too(quota: Path, limit: str, threads: int) -> None:
    (quota.parent / "quota").write_text(f"{limit}\n", encoding="ascii")
    (quota.parent / "period").write_text("100000\n", encoding="ascii")
    assert cpu.available_threads() == threads


def test_the_user_goes_before_the_share(quota: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quota.write_text("200000 100000\n", encoding="ascii")
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert cpu.available_threads() == 5


@pytest.mark.parametrize(("running", "free"), [(1, 4), (3, 4), (6, 3), (8, 1), (30, 1)])
def test_busy_processors_are_not_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, running: int, free: int) -> None:
    """Four threads on eight processors, of which this thread has one."""
    monkeypatch.setattr(cpu, "LOAD", tmp_path / "loadavg")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    cpu.LOAD.write_text(f"0.10 0.20 0.30 {running}/400 1234\n", encoding="ascii")
    assert cpu.free_threads(4) == free


def test_all_processors_are_free_where_the_system_lists_no_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu, "LOAD", tmp_path / "loadavg")
    assert cpu.free_threads(4) == 4


@pytest.mark.skipif(not cpu.LOAD.exists(), reason="needs /proc/loadavg")
def test_a_process_that_computes_is_seen() -> None:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        end = time.monotonic() + 120
        # the system counts who computes at this moment, and a new process needs some to begin
        while (seen := cpu.free_threads(1000)) > 1 and time.monotonic() < end:
            pass
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert seen == 1


@pytest.mark.parametrize("own", [{}, {"OMP_WAIT_POLICY": "ACTIVE"}, {"GOMP_SPINCOUNT": "0"}], ids=str)
def test_threads_wait_a_moment_then_sleep_unless_the_user_decides(
    monkeypatch: pytest.MonkeyPatch, own: dict[str, str]
) -> None:
    monkeypatch.setattr(os, "environ", {**own})
    waiting.set_waiting()
    assert os.environ == (own or {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "5000"})
