"""Writing that loses nothing."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from dikkat_runtime.errors import CannotCreateError, DiskError
from dikkat_runtime.files import append_line, temporary_next_to, write_atomically


def failing(code: int) -> Any:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def test_write_replaces_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "a"
    write_atomically(path, b"first, longer")
    write_atomically(path, b"second")
    assert path.read_bytes() == b"second"
    assert os.listdir(tmp_path) == ["a"]


def test_a_device_or_a_pipe_is_never_replaced_by_a_file(tmp_path: Path) -> None:
    """Whoever is root would lose /dev/null for every program. Only the name is asked for: nothing is written there."""
    os.mkfifo(tmp_path / "pipe")
    for name in (tmp_path / "pipe", Path("/dev/null"), Path("/dev/stdout"), Path("/dev/nothing-yet")):
        with pytest.raises(CannotCreateError, match="is a device, a pipe or a socket; name a file"):
            temporary_next_to(name)
    with pytest.raises(CannotCreateError):
        write_atomically(tmp_path / "pipe", b"x")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_written_files_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "a", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_partial_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(data)[:3]))
    write_atomically(tmp_path / "a", b"0123456789")
    assert (tmp_path / "a").read_bytes() == b"0123456789"


@pytest.mark.parametrize("call", ["write", "fsync"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_full_or_broken_disk_is_one_line_and_the_old_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, call, failing(code))
    with pytest.raises(DiskError) as caught:
        write_atomically(path, b"new")
    assert str(path) in str(caught.value)
    assert os.strerror(code) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 74
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_interruption_between_write_and_rename_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotCreateError, match=r"none/a: .*folder .*none does not exist; create it"):
        write_atomically(tmp_path / "none" / "a", b"x")


def test_forbidden_place_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "open", failing(errno.EACCES))
    with pytest.raises(CannotCreateError, match=r"a: cannot be written: Permission denied; choose another path"):
        write_atomically(tmp_path / "a", b"x")


def test_append_cuts_a_line_that_a_crash_left_unfinished(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"one\ntw")
    append_line(path, b"two")
    assert path.read_bytes() == b"one\ntwo\n"


def test_append_on_a_full_disk_keeps_the_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    append_line(path, b"one")
    write = os.write

    def write_some_then_fail(descriptor: int, data: bytes) -> int:
        if len(data) < 4:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(descriptor, bytes(data)[:2])

    monkeypatch.setattr(os, "write", write_some_then_fail)
    with pytest.raises(DiskError, match="No space left"):
        append_line(path, b"two")
    assert path.read_bytes() == b"one\n"
