"""Checkpoints that exist whole or not at all."""

from __future__ import annotations

import errno
import io
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from dikkat.run_directory import Checkpoint, RunDirectory
from dikkat_runtime.errors import DataError, DiskError

FILES = ["manifest.json", "model.safetensors", "optimizer.safetensors", "state.json"]


def save(run: RunDirectory, step: int, value: float | None = None, **options: int) -> Path:
    tensors = {
        "model": {"weight": torch.full((2, 3), float(step if value is None else value))},
        "optimizer": {"moment": torch.arange(4.0) + step},
    }
    return run.save_checkpoint(step, tensors, {"step": step, "random": [1, 2, 3]}, **options)


def latest(run: RunDirectory) -> Checkpoint:
    checkpoint = run.latest_checkpoint()
    assert checkpoint is not None
    return checkpoint


def content_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def flip_bit(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    return RunDirectory.create(tmp_path / "run")


def test_none_before_the_first(run: RunDirectory) -> None:
    assert run.latest_checkpoint() is None
    run.checkpoints.mkdir()
    assert run.latest_checkpoint() is None


def test_round_trip(run: RunDirectory) -> None:
    folder = save(run, 400)
    assert folder == run.path / "checkpoints" / "step-000400"
    assert sorted(os.listdir(folder)) == FILES
    checkpoint = latest(run)
    assert (checkpoint.step, checkpoint.path, checkpoint.problems) == (400, folder, ())
    assert checkpoint.state == {"step": 400, "random": [1, 2, 3]}
    assert torch.equal(checkpoint.tensors("model")["weight"], torch.full((2, 3), 400.0))
    assert torch.equal(checkpoint.tensors("optimizer")["moment"], torch.arange(4.0) + 400)


def test_only_the_newest_are_kept(run: RunDirectory) -> None:
    for step in (5, 999_999, 1_000_000, 2_000_000):
        save(run, step, keep=3)
    assert sorted(os.listdir(run.checkpoints)) == ["step-1000000", "step-2000000", "step-999999"]
    assert latest(run).step == 2_000_000


def test_saving_a_step_again_replaces_it(run: RunDirectory) -> None:
    save(run, 400, value=1.0)
    save(run, 400, value=2.0)
    assert os.listdir(run.checkpoints) == ["step-000400"]
    assert latest(run).tensors("model")["weight"][0, 0] == 2.0


def test_a_future_given_up_by_resuming_is_removed(run: RunDirectory) -> None:
    save(run, 400)
    flip_bit(save(run, 800) / "model.safetensors", -1)
    assert latest(run).step == 400
    save(run, 600)
    assert sorted(os.listdir(run.checkpoints)) == ["step-000400", "step-000600"]
    assert latest(run).problems == ()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "remove"])
def test_damaged_checkpoint_is_named_and_the_previous_one_used(run: RunDirectory, name: str, damage: str) -> None:
    save(run, 400)
    path = save(run, 800) / name
    if damage == "flip":
        flip_bit(path, path.stat().st_size // 2)
    elif damage == "remove":
        path.unlink()
    else:
        os.truncate(path, path.stat().st_size // 2 if damage == "truncate" else 0)
    checkpoint = latest(run)
    assert checkpoint.step == 400
    assert len(checkpoint.problems) == 1
    assert "step-000800" in checkpoint.problems[0]
    assert "damaged" in checkpoint.problems[0]
    if (name, damage) != ("manifest.json", "flip"):  # a flipped checksum looks like a flip in the file it is of
        assert name in checkpoint.problems[0]
    assert torch.equal(checkpoint.tensors("model")["weight"], torch.full((2, 3), 400.0))


def test_a_flipped_bit_anywhere_in_the_manifest_is_noticed(run: RunDirectory) -> None:
    save(run, 400)
    path = save(run, 800) / "manifest.json"
    content = path.read_bytes()
    for position in range(len(content) - 1):  # the last byte is the newline after the JSON
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        assert latest(run).step == 400, position


def test_a_file_of_another_length_is_not_read(run: RunDirectory) -> None:
    """A disk may make a file of any length: half a terabyte would be hashed for many minutes."""
    save(run, 400)
    folder = save(run, 800)
    os.truncate(folder / "model.safetensors", 1 << 39)
    checkpoint = latest(run)
    assert checkpoint.step == 400
    assert checkpoint.problems[0].startswith(f"{folder}/model.safetensors: damaged: has 549,755,813,888 bytes, but ")


def test_a_copy_under_another_step_is_not_taken_for_it(run: RunDirectory) -> None:
    shutil.copytree(save(run, 400), run.checkpoints / "step-000900")
    assert latest(run).step == 400


def test_no_sound_checkpoint_is_an_error(run: RunDirectory) -> None:
    for step in (400, 800):
        flip_bit(save(run, step) / "model.safetensors", -1)
    with pytest.raises(
        DataError, match=r"checkpoints: no checkpoint is intact: .*step-000800.*step-000400.*--out"
    ) as e:
        run.latest_checkpoint()
    assert e.value.exit_code == 65


def test_damage_after_opening_is_noticed_when_loading(run: RunDirectory) -> None:
    save(run, 400)
    checkpoint = latest(run)
    flip_bit(checkpoint.path / "model.safetensors", -1)
    with pytest.raises(DataError, match=r"step-000400/model\.safetensors: damaged"):
        checkpoint.tensors("model")


@pytest.mark.parametrize("name", ["step-000200", ".replaced-step-000100", ".replaced-step-000300", ".writing-x"])
@pytest.mark.parametrize("make", [os.mkfifo, Path.touch, lambda path: path.symlink_to("/dev/zero")])
def test_what_a_stranger_put_in_the_place_of_a_folder_is_removed_without_a_wait(
    run: RunDirectory, name: str, make: Callable[[Path], object]
) -> None:
    """A pipe of the name of the next checkpoint kept a training waiting for ever at its first save."""
    save(run, 100)
    make(run.checkpoints / name)
    signal.alarm(300)
    try:
        assert latest(run).step == 100
        save(run, 200)
    finally:
        signal.alarm(0)
    assert latest(run).step == 200
    assert {path.name for path in run.checkpoints.iterdir() if path.is_dir()} == {"step-000100", "step-000200"}
    assert not [path for path in run.checkpoints.iterdir() if path.is_fifo()]


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM])
@pytest.mark.parametrize("name", FILES)
def test_a_checkpoint_that_cannot_be_read_now_is_not_given_up(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    """Too many open files, or too little memory: going back to the one before would lose what was saved."""
    save(run, 100)
    newest = save(run, 200)
    whole = content_of(newest)
    real_low, real_high = os.open, io.open

    def refuse(path: Any) -> None:
        if isinstance(path, str | os.PathLike) and Path(path) == newest / name:
            raise OSError(number, os.strerror(number), str(path))

    def low(path: Any, *rest: Any, **named: Any) -> Any:
        refuse(path)
        return real_low(path, *rest, **named)

    def high(path: Any, *rest: Any, **named: Any) -> Any:
        refuse(path)
        return real_high(path, *rest, **named)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", low)
        patch.setattr(io, "open", high)
        with pytest.raises(OSError, match=os.strerror(number)):
            run.latest_checkpoint()
    assert content_of(newest) == whole
    assert latest(run).step == 200


def test_leftovers_of_an_interrupted_save_are_ignored_and_cleared(run: RunDirectory) -> None:
    save(run, 400)
    shutil.copytree(run.checkpoints / "step-000400", run.checkpoints / ".writing-step-000800-abcd")
    assert latest(run).step == 400
    assert os.listdir(run.checkpoints) == ["step-000400"]


@pytest.mark.parametrize(
    ("step", "call", "failing_call"),
    [(step, call, number) for step in (600, 800) for call in ("write", "fsync") for number in (1, 2, 3, 4)]
    + [(600, "mkdir", 1), (800, "mkdir", 1), (600, "rename", 1), (600, "rename", 2), (800, "rename", 1)],
)
def test_full_disk_leaves_every_earlier_checkpoint_as_it_was(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, step: int, call: str, failing_call: int
) -> None:
    save(run, 400)
    save(run, 600)  # saving 600 again must put the old one back
    before = content_of(run.path)
    calls = 0
    original = getattr(os, call)

    def fail_once(*arguments: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == failing_call:
            raise OSError(errno.ENOSPC, "No space left on device")
        return original(*arguments, **options)

    monkeypatch.setattr(os, call, fail_once)
    with pytest.raises(DiskError, match=rf"checkpoints/step-000{step}: writing failed: No space left") as caught:
        save(run, step)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 74
    assert content_of(run.path) == before


CALLS = ["write", "fsync", "rename", "mkdir", "unlink", "rmdir"]


def save_and_die(run: RunDirectory, step: int, value: float, fatal_call: int) -> bool:
    """Save in a child process that gets SIGKILL before its `fatal_call`-th change on disk; whether it was killed."""
    child = os.fork()
    if child == 0:
        remaining = fatal_call

        def deadly(original: Any) -> Any:
            def call(*arguments: Any, **options: Any) -> Any:
                nonlocal remaining
                remaining -= 1
                if remaining == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return original(*arguments, **options)

            return call

        for name in CALLS:
            setattr(os, name, deadly(getattr(os, name)))
        save(run, step, value)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return status != 0


@pytest.mark.parametrize("step", [pytest.param(600, marks=pytest.mark.nightly), 800])
def test_sigkill_at_any_moment_leaves_a_sound_checkpoint(tmp_path: Path, step: int) -> None:
    for fatal_call in range(1, 100):
        run = RunDirectory.create(tmp_path / str(fatal_call))
        save(run, 400, value=4.0)
        save(run, 600, value=6.0)
        killed = save_and_die(run, step, 8.0, fatal_call)
        checkpoint = latest(run)
        assert checkpoint.problems == ()
        # The old newest one or the new one, never an older one.
        assert (checkpoint.step, float(checkpoint.tensors("model")["weight"][0, 0])) in [(600, 6.0), (step, 8.0)]
        save(run, 1000)
        assert not [name for name in os.listdir(run.checkpoints) if name.startswith(".")]
        if not killed:
            assert fatal_call > 15
            return
    pytest.fail("the save never came to its end")


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    index = tmp_path / "tiny"
    index.mkdir()
    mount = shutil.which("mount")
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(index)]
    if mount is None or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a real full disk is NOT tested here: mounting a tmpfs is not allowed")
    try:
        yield index
    finally:
        subprocess.run(["umount", str(index)], check=True)


def test_really_full_disk(tiny_disk: Path) -> None:
    run = RunDirectory.create(tiny_disk / "run")
    run.write_config({"model": {}})
    save(run, 400)
    run.save_weights({"weight": torch.ones(10)}, {})
    before = content_of(run.path)
    large = {"weight": torch.ones(100_000)}
    with pytest.raises(DiskError, match="step-000800: writing failed: No space left"):
        run.save_checkpoint(800, {"model": large}, {})
    with pytest.raises(DiskError, match=r"model\.safetensors: writing failed: No space left"):
        run.save_weights(large, {})
    assert content_of(run.path) == before
    assert latest(run).step == 400
