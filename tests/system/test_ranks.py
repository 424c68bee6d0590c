"""`dikkat train … --nproc`: whatever happens to a process, the run ends with the weights of the undisturbed one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.python_path import PYTHON_PATH
from tests.unit.test_parent_death import is_running

from dikkat_runtime.native.cpu import usable_processors

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(usable_processors() < 2, reason="two processes need two cores"),
    pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="processes are found in /proc"),
]
SETTINGS = ("max_updates=24", "validations=4", "patience=99")


def ranks_of(launcher: int) -> list[int]:
    """Return the processes that the launcher has started, once they compute."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children")
    threads = [(int(word), len(list(Path(f"/proc/{word}/task").glob("*")))) for word in children.read_text().split()]
    return [process for process, count in threads if count > 1]


def start(
    folder: Path, name: str, *options: str, data: str = "pairs.tsv", start_new_session: bool = False, **variables: str
) -> subprocess.Popen[str]:
    """Train a tiny translator by two processes."""
    settings = [word for setting in SETTINGS for word in ("--set", f"training.{setting}")]
    command = [sys.executable, "-m", "dikkat", "train", "translator", data, "--out", name, "--preset", "tiny"]
    return subprocess.Popen(
        [*command, *settings, "--nproc", "2", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": PYTHON_PATH, **variables},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=start_new_session,
    )


def follow(process: subprocess.Popen[str], number: signal.Signals, index: int) -> list[str]:
    """Send a signal to the rank of that index after the first validation; returns all lines."""
    assert process.stderr is not None
    lines: list[str] = []
    is_sent = False
    for line in process.stderr:
        lines.append(line.rstrip("\n"))
        if line.startswith("pass ") and not is_sent:
            os.kill(sorted(ranks_of(process.pid))[index], number)
            is_sent = True
    assert is_sent, lines
    return lines


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ranks")
    words = [first + second for first in "klmnst" for second in "aeiou"]
    rows = [[words[(7 * row + 3 * column * row + column) % 30] for column in range(3 + row % 6)] for row in range(900)]
    text = "".join(f"{' '.join(row)}\t{' '.join(reversed(row))}\n" for row in rows)
    (path / "pairs.tsv").write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def weights(folder: Path) -> bytes:
    """Those of a run that nothing happens to."""
    temporary = folder / "temporary"
    temporary.mkdir()
    process = start(folder, "undisturbed", TMPDIR=str(temporary))
    _, complaint = process.communicate(timeout=600)
    assert process.returncode == 0, complaint
    assert not [path.name for path in temporary.iterdir() if path.name.startswith(("dikkat-", "torchelastic_"))]
    return (folder / "undisturbed" / "model.safetensors").read_bytes()


def test_one_process_ends_with_the_same_bits_and_validations(folder: Path, weights: bytes) -> None:
    settings = [word for setting in (*SETTINGS, "micro_batches=2") for word in ("--set", f"training.{setting}")]
    command = [sys.executable, "-m", "dikkat", "train", "translator", "pairs.tsv", "--out", "alone", "--preset", "tiny"]
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH}
    subprocess.run([*command, *settings], cwd=folder, env=environment, check=True, timeout=600)
    assert (folder / "alone" / "model.safetensors").read_bytes() == weights

    def rows(name: str) -> list[dict[str, float | str]]:
        text = (folder / name / "metrics.jsonl").read_text(encoding="utf-8")
        # the checksum of a row is also that of its seconds
        return [{**json.loads(line), "seconds": 0.0, "sha256": ""} for line in text.splitlines()]

    assert rows("alone") == rows("undisturbed")


def test_ray_starts_the_same_ranks(folder: Path, weights: bytes) -> None:
    pytest.importorskip("ray.train", reason="Ray Train is not installed: pip install 'dikkat[ray]'")
    process = start(folder, "ray", "--launcher", "ray", "--max-restarts", "1")
    lines: list[str] = []
    is_killed = False
    assert process.stderr is not None
    for line in process.stderr:
        lines.append(line.rstrip("\n"))
        if line.startswith("pass ") and not is_killed:
            os.kill(rank_of_ray("ray", process.pid), signal.SIGKILL)
            is_killed = True
    assert process.wait() == 0, lines
    assert "a process was lost; restarting from the last checkpoint" in lines
    assert (folder / "ray" / "model.safetensors").read_bytes() == weights


def test_ray_with_too_few_processors_is_refused_with_one_line(folder: Path) -> None:
    pytest.importorskip("ray.train", reason="Ray Train is not installed: pip install 'dikkat[ray]'")
    process = start(folder, "crowd", "--launcher", "ray", "--nproc", "1000")
    _, complaint = process.communicate(timeout=300)
    assert process.returncode == 2, complaint
    assert complaint.count("\n") == 1
    assert complaint.startswith("dikkat: --nproc 1000 of 1 threads: of the ")
    assert not (folder / "crowd").exists()


def rank_of_ray(out: str, launcher: int) -> int:
    """Return a process that trains `out` as a rank, which Ray has started."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            # it has ended since
            continue
        if int(path.parent.name) != launcher and b"train" in words and out.encode() in words:
            return int(path.parent.name)
    raise AssertionError(f"no process of Ray trains {out}")


@pytest.mark.parametrize("index", [0, 1])
def test_a_killed_process_is_started_again_and_nothing_is_lost(folder: Path, weights: bytes, index: int) -> None:
    process = start(folder, f"killed-{index}", "--max-restarts", "1")
    lines = follow(process, signal.SIGKILL, index)
    assert process.wait() == 0, lines
    assert "a process was lost; restarting from the last checkpoint" in lines
    assert not any("not read" in line for line in lines)
    assert (folder / f"killed-{index}" / "model.safetensors").read_bytes() == weights


def test_no_process_outlives_its_launcher_and_the_run_goes_on_with_the_same_bits(folder: Path, weights: bytes) -> None:
    process = start(folder, "orphans")
    assert process.stderr is not None
    next(line for line in process.stderr if line.startswith("pass "))
    ranks = ranks_of(process.pid)
    assert len(ranks) == 2
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 60
    while alive := [rank for rank in ranks if is_running(rank)]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.1)
    again = start(folder, "orphans", "--resume")
    _, complaint = again.communicate(timeout=600)
    assert again.returncode == 0, complaint
    assert (folder / "orphans" / "model.safetensors").read_bytes() == weights


@pytest.mark.parametrize("restarts", [0, 1])
def test_a_stopped_process_is_lost_within_a_minute(folder: Path, weights: bytes, restarts: int) -> None:
    """By the default of DIKKAT_ANSWER_SECONDS the run ends with one line, or begins again and loses nothing."""
    name = f"stopped-{restarts}"
    process = start(folder, name, "--max-restarts", str(restarts))
    assert process.stderr is not None
    lines: list[str] = []
    stopped, answered = 0.0, 0.0
    for line in process.stderr:
        lines.append(line.rstrip("\n"))
        if line.startswith("pass ") and not stopped:
            stopped = time.monotonic()
            os.kill(max(ranks_of(process.pid)), signal.SIGSTOP)
        elif "a process was lost" in line:
            answered = time.monotonic()
    answered = answered or time.monotonic()
    assert process.wait() == (0 if restarts else 75), lines
    assert stopped < answered < stopped + 60, lines
    if restarts:
        assert "a process was lost; restarting from the last checkpoint" in lines
        assert (folder / name / "model.safetensors").read_bytes() == weights
        return
    assert [line for line in lines if line.startswith("dikkat:")] == lines[-1:]
    assert "; continue with: " in lines[-1]
    assert lines[-1].endswith(f"dikkat train translator --out {name} --resume --nproc 2")


def test_a_word_that_is_wrong_is_said_by_one_process(folder: Path) -> None:
    process = start(folder, "wrong", "--set", "dropout")
    _, complaint = process.communicate(timeout=120)
    assert process.returncode == 2
    assert complaint.count("\n") == 1
    assert complaint.startswith("dikkat: --set needs section.key=value")
    assert not (folder / "wrong").exists()


def test_an_error_is_said_once_and_no_reason_to_begin_again(folder: Path) -> None:
    (folder / "none.tsv").write_text("", encoding="utf-8")
    process = start(folder, "empty", "--max-restarts", "2", data="none.tsv")
    _, complaint = process.communicate(timeout=120)
    assert process.returncode == 65
    assert complaint.count("\n") == 1
    assert complaint.startswith("dikkat: none.tsv")


@pytest.mark.parametrize("restarts", ["0", "1"])
@pytest.mark.parametrize("seconds", [0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.5])
@pytest.mark.parametrize("to_all", [False, True], ids=["launcher alone", "terminal"])
def test_a_signal_before_the_first_update_is_one_line(
    folder: Path, to_all: bool, seconds: float, restarts: str
) -> None:
    """Also where it reaches interpreters that load their modules."""
    process = start(folder, f"early {to_all} {seconds} {restarts}", "--max-restarts", restarts, start_new_session=True)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    deadline = time.monotonic() + 60
    while len(children.read_text().split()) < 2:
        assert time.monotonic() < deadline, "no ranks"
        time.sleep(0.01)
    time.sleep(seconds)
    (os.killpg if to_all else os.kill)(process.pid, signal.SIGINT)
    _, complaint = process.communicate(timeout=120)
    assert process.returncode == 130
    # the first may be what is read, or prepared
    assert complaint.splitlines()[-1] == "dikkat: interrupted"
    assert complaint.count("dikkat: ") == 1
    assert "Traceback" not in complaint


@pytest.mark.parametrize("seconds", [1.0, 5.0, 15.0])
def test_a_signal_while_ray_starts_is_one_line(folder: Path, seconds: float) -> None:
    pytest.importorskip("ray.train", reason="Ray Train is not installed: pip install 'dikkat[ray]'")
    process = start(folder, f"early ray {seconds}", "--launcher", "ray", start_new_session=True)
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)
    _, complaint = process.communicate(timeout=300)
    assert process.returncode == 130, complaint
    assert complaint.splitlines()[-1] == "dikkat: interrupted"
    assert complaint.count("dikkat: ") == 1
    assert "Traceback" not in complaint


def test_ctrl_c_on_a_terminal_saves(folder: Path) -> None:
    """The terminal sends it to all processes, and the launcher passes it on to the ranks once more."""
    process = start(folder, "stopped", start_new_session=True)
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        if line.startswith("pass ") and not any(one.startswith("pass ") for one in lines):
            os.killpg(process.pid, signal.SIGINT)
        lines.append(line.rstrip("\n"))
    assert process.wait() == 130
    assert lines[-1].startswith("stopped and saved; continue with: ")
    assert not [line for line in lines if "interrupted" in line]


@pytest.mark.parametrize("index", [0, 1])
def test_an_unfinished_run_of_other_data_is_left_as_it_is(folder: Path, index: int) -> None:
    name = f"interrupted-{index}"
    process = start(folder, name)
    assert "stopped and saved" in follow(process, signal.SIGTERM, index)[-1]
    assert process.wait() == 143
    config = (folder / name / "config.json").read_bytes()
    process = start(folder, name, "--max-restarts", "2", "--seed", "9")
    _, complaint = process.communicate(timeout=120)
    assert process.returncode == 73
    assert complaint == f"dikkat: {name}: holds an unfinished run; add --resume to continue it, or give another --out\n"
    assert (folder / name / "config.json").read_bytes() == config
