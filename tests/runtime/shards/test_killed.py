"""Workers and drivers that are killed at random moments: the outputs are those of a call that nobody disturbed."""

from __future__ import annotations

import json
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from tests.python_path import PYTHON_PATH
from tests.runtime.shards import shouting
from tests.runtime.shards.shouting import shout
from tests.unit.test_parent_death import is_running

from dikkat_runtime.errors import CannotCreateError, InternalError

ROOT = Path(__file__).resolve().parents[3]
BY_DAY, BY_NIGHT = range(1), range(1, 20)
LIMIT = 300.0
"""Seconds after which something hangs: a busy machine may need many for a call of two."""
MOMENTS = [*BY_DAY, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in BY_NIGHT)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Nine files of about a fifth of a second each."""
    folder = tmp_path_factory.mktemp("data")
    for number in range(9):
        lines = [f"SLOW line {number} {row}" for row in range(80 + 5 * number)]
        (folder / f"{number}.txt").write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.fixture(scope="module")
def undisturbed(data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("undisturbed")
    result = shout([data], out)
    assert (len(result.records), result.bad, result.poison) == (9, {}, {})
    contents = contents_of(out)
    for number in range(9):
        assert contents[f"{number}.txt"] == (data / f"{number}.txt").read_bytes().upper()
    return contents


def contents_of(out: Path) -> dict[str, bytes]:
    """Outputs and records, and whatever else lies there."""
    return {path.name: path.read_bytes() for path in out.iterdir() if not path.name.startswith(".lock")}


def start(inputs: Path, out: Path, **options: object) -> subprocess.Popen[str]:
    words = json.dumps({"inputs": [str(inputs)], "out": str(out), **options})
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([PYTHON_PATH, str(ROOT)])}
    script = [sys.executable, "-m", "tests.runtime.shards.shouting", words]
    return subprocess.Popen(script, env=environment, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def children(process: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def wait_for_end(workers: list[int]) -> None:
    """Wait until none runs; one without a driver notices that when it is done with a file."""
    deadline = time.monotonic() + LIMIT
    while alive := [worker for worker in workers if is_running(worker)]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.02)


def kill_one(driver: subprocess.Popen[str], moment: random.Random) -> None:
    """Kill one of the workers, if there are any and it has not ended meanwhile."""
    with suppress(ProcessLookupError, IndexError):
        os.kill(moment.choice(children(driver.pid)), signal.SIGKILL)


@contextmanager
def halted(process: subprocess.Popen[str]) -> Iterator[None]:
    """Keep a process from its end meanwhile."""
    process.send_signal(signal.SIGSTOP)
    yield
    process.send_signal(signal.SIGCONT)


def wait_for_children(process: subprocess.Popen[str]) -> list[int]:
    deadline = time.monotonic() + LIMIT
    while process.poll() is None and time.monotonic() < deadline:
        if result := children(process.pid):
            return result
        time.sleep(0.02)
    raise AssertionError("no worker was started")


@pytest.mark.parametrize("seed", MOMENTS)
def test_a_worker_that_is_killed(seed: int, data: Path, undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    moment = random.Random(seed)
    driver = start(data, tmp_path / "out")
    wait_for_children(driver)
    time.sleep(moment.uniform(0.2, 1.4))
    kill_one(driver, moment)
    _, messages = driver.communicate(timeout=LIMIT)
    assert driver.returncode == 0, messages
    assert contents_of(tmp_path / "out") == undisturbed


@pytest.mark.parametrize("seed", MOMENTS)
def test_a_driver_that_is_killed(seed: int, data: Path, undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    moment = random.Random(seed)
    driver = start(data, tmp_path / "out")
    wait_for_children(driver)
    time.sleep(moment.uniform(0.2, 1.4))
    workers = children(driver.pid)
    os.kill(driver.pid, signal.SIGKILL)
    driver.communicate()
    # whatever stands there is whole
    for name, content in contents_of(tmp_path / "out").items() if (tmp_path / "out").exists() else ():
        if name.endswith(".txt") and not name.startswith("."):
            assert content == undisturbed[name]
    again = start(data, tmp_path / "out")
    _, messages = again.communicate(timeout=LIMIT)
    assert again.returncode == 0, messages
    assert contents_of(tmp_path / "out") == undisturbed
    wait_for_end(workers)


def test_a_worker_has_one_thread_unless_it_is_given_more(data: Path, tmp_path: Path) -> None:
    """Of the tokenizers, too, which else would start one for each processor in every worker."""
    process = start(data, tmp_path / "out")
    (worker, *_) = wait_for_children(process)
    command = Path(f"/proc/{worker}/cmdline")
    while b"dikkat_runtime.shards.worker" not in command.read_bytes():  # still a copy of the driver
        time.sleep(0.001)
    variables = Path(f"/proc/{worker}/environ").read_bytes().split(b"\0")
    process.communicate(timeout=LIMIT)
    assert {b"OMP_NUM_THREADS=1", b"RAYON_NUM_THREADS=1"} <= set(variables)


def test_ctrl_c_that_reaches_a_worker_while_it_loads_is_left_to_the_driver(data: Path, tmp_path: Path) -> None:
    """As in a terminal, which sends it to the whole group of processes."""
    driver = start(data, tmp_path / "out")
    for worker in wait_for_children(driver):
        lines = Path(f"/proc/{worker}/status").read_text().splitlines()
        masks = {
            line.partition(":")[0]: int(line.split()[1], 16) for line in lines if line.startswith(("SigBlk", "SigIgn"))
        }
        assert (masks["SigBlk"] | masks["SigIgn"]) & 1 << signal.SIGINT - 1
        os.kill(worker, signal.SIGINT)
    driver.send_signal(signal.SIGTERM)
    _, messages = driver.communicate(timeout=LIMIT)
    # a driver that is quicker than this test has told how long it will take
    assert (driver.returncode, re.sub(r"\Aabout .*\n", "", messages)) == (143, "")


CLUSTER = """
import sys, ray
own = ray.init(address="local", num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
print(own.address_info["gcs_address"], flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[tuple[int, str]]:
    """A Ray that drivers reach, since to start one takes longer than all their work: its process, and its address."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'dikkat-runtime[ray]'")
    pipe = subprocess.PIPE
    with pytest.MonkeyPatch.context() as patch:
        # Ray lets in whom it did not start by a token alone, and asks for the mode at an address that was named
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        with subprocess.Popen([sys.executable, "-c", CLUSTER], stdin=pipe, stdout=pipe, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            address = process.stdout.readline().strip()
            assert address, "Ray did not start"
            yield process.pid, address
            process.stdin.close()
            process.wait(timeout=LIMIT)


def actors(cluster: int) -> list[int]:
    """Return the processes of the actors of a Ray: children of a child of the process that started it."""
    found = list[int]()
    for child in children(cluster):
        with suppress(FileNotFoundError, ProcessLookupError):
            grandchildren = children(child)
            found += [one for one in grandchildren if b"_Actor" in Path(f"/proc/{one}/cmdline").read_bytes()]
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(20))
def test_an_actor_of_ray_that_is_killed(
    seed: int,
    data: Path,
    undisturbed: dict[str, bytes],
    cluster: tuple[int, str],
    tmp_path: Path,
) -> None:
    """Every other time the actors share each file."""
    moment = random.Random(seed)
    process, address = cluster
    driver = start(data, tmp_path / "out", ray_address=address, **({"split_from": 1000} if seed % 2 else {}))
    deadline = time.monotonic() + LIMIT
    # by what stands in the folder, half-written or whole, since actors begin when a busy machine lets them
    entries = moment.randrange(1, 12)
    while len([path for path in (tmp_path / "out").glob("*") if not path.name.startswith(".lock")]) < entries:
        assert driver.poll() is None, "ended before it had written so much"
        assert time.monotonic() < deadline, "no actor works"
        time.sleep(0.02)
    time.sleep(moment.uniform(0.0, 0.1))
    os.kill(moment.choice(actors(process)), signal.SIGKILL)
    _, messages = driver.communicate(timeout=LIMIT)
    assert driver.returncode == 0, messages
    assert contents_of(tmp_path / "out") == undisturbed
    print(f"{messages.count('started again')} files or parts were started again")
    while actors(process):
        assert time.monotonic() < deadline, "an actor outlived its driver"
        time.sleep(0.02)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file of about two seconds, and a small one."""
    folder = tmp_path_factory.mktemp("large")
    (folder / "large.txt").write_text("".join(f"SLOW line {row}\n" for row in range(900)))
    (folder / "small.txt").write_text("SLOW line\n")
    return folder


@pytest.fixture(scope="module")
def large_undisturbed(large: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("whole")
    assert len(shout([large], out, workers=1).records) == 2
    assert (out / "large.txt").read_bytes() == (large / "large.txt").read_bytes().upper()
    return contents_of(out)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(1, 10))])
@pytest.mark.parametrize("killed", ["worker", pytest.param("driver", marks=pytest.mark.nightly)])
def test_parts_of_one_file_are_joined_whatever_is_killed(
    killed: str, seed: int, large: Path, large_undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    moment = random.Random(seed)
    driver = start(large, tmp_path / "out", split_from=1000)
    wait_for_children(driver)
    time.sleep(moment.uniform(0.2, 2.0))
    if killed == "driver":
        os.kill(driver.pid, signal.SIGKILL)
        driver.communicate()
        driver = start(large, tmp_path / "out", split_from=1000)
    else:
        kill_one(driver, moment)
    _, messages = driver.communicate(timeout=LIMIT)
    assert driver.returncode == 0, messages
    assert contents_of(tmp_path / "out") == large_undisturbed


def test_a_part_that_kills_every_worker_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "bad.txt").write_text("SLOW line\n" * 150 + "POISON\n" + "SLOW line\n" * 150)
    driver = start(folder, tmp_path / "out", split_from=1000)
    _, messages = driver.communicate(timeout=LIMIT)
    assert driver.returncode == 75, messages
    assert messages.count("its part of the file is started again") == 2
    assert contents_of(tmp_path / "out") == {}


def test_a_terminated_driver_leaves_nothing_half_written(
    data: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(data, tmp_path / "in"))
    (folder / "endless.txt").write_text("SLOW line\n" * 15_000)  # half a minute, of which it gets a second
    driver = start(folder, tmp_path / "out")
    workers = wait_for_children(driver)
    time.sleep(0.8)
    driver.terminate()
    driver.communicate(timeout=LIMIT)
    assert driver.returncode == 143
    contents = contents_of(tmp_path / "out")
    assert contents.items() <= undisturbed.items()
    assert [worker for worker in workers if is_running(worker)] == []


def test_a_file_that_kills_every_worker_is_given_up_and_the_others_are_written(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in ("0.txt", "1.txt"):
        (folder / name).write_bytes((data / name).read_bytes())
    (folder / "bad.txt").write_text("good\nPOISON\n" + "SLOW\n" * 200)
    (folder / "bug.txt").write_text("BUG\n")
    driver = start(folder, tmp_path / "out")
    _, messages = driver.communicate(timeout=LIMIT)
    assert driver.returncode == 75
    # whichever was given up first
    reasons = ("killed by SIGKILL, perhaps because memory is short", "ValueError: a bug of ours")
    end = " (and 1 more file); the other files are complete; run the same command again for the rest\n"
    assert messages.endswith(tuple(f": given up after 3 tries: {reason}{end}" for reason in reasons))
    assert messages.count(f"{folder / 'bad.txt'}: the worker killed by SIGKILL") == 3
    assert messages.count(f"{folder / 'bug.txt'}: the worker ValueError: a bug of ours") == 3
    written = contents_of(tmp_path / "out")
    assert sorted(written) == ["0.txt", "1.txt", "_0.txt.json", "_1.txt.json"]
    (folder / "bad.txt").write_text("good\n")
    (folder / "bug.txt").write_text("good\n")
    result = shout([folder], tmp_path / "out")
    assert (result.skipped_items, len(result.records)) == (2, 2)


def test_two_drivers_on_one_folder(data: Path, undisturbed: dict[str, bytes], tmp_path: Path) -> None:
    driver = start(data, tmp_path / "out")
    wait_for_children(driver)
    with halted(driver):
        with pytest.raises(CannotCreateError, match="out: another command is writing here"):
            shout([data], tmp_path / "out")
        # a task of a job array would write some of the same files
        with pytest.raises(CannotCreateError, match="out: another command is writing here"):
            shout([data], tmp_path / "out", part="1/2")
    driver.communicate(timeout=LIMIT)
    assert contents_of(tmp_path / "out") == undisturbed


def test_the_tasks_of_a_job_array_write_one_folder_together(
    data: Path, undisturbed: dict[str, bytes], tmp_path: Path
) -> None:
    tasks = [start(data, tmp_path / "out", part=f"{number}/2", workers=1) for number in (1, 2)]
    wait_for_children(tasks[0])
    with halted(tasks[0]), pytest.raises(CannotCreateError, match="out: another command is writing here"):
        shout([data], tmp_path / "out", part="1/2")
    for task in tasks:
        _, messages = task.communicate(timeout=LIMIT)
        assert task.returncode == 0, messages
    assert contents_of(tmp_path / "out") == undisturbed


def test_a_model_that_cannot_be_opened_is_reported_once(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = replace(shouting.job(), opener="tests.runtime.shards.no_such_module:open_model")
    monkeypatch.setattr(shouting, "job", lambda **options: broken)
    with pytest.raises(InternalError, match="no worker could open the model: the last one ModuleNotFoundError"):
        shout([data], tmp_path / "out")
