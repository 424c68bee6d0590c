"""API keys: which of them is presented, how its allowance comes back, and a file of them that several write."""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from dikkat_runtime.cli.main import run as run_command
from dikkat_runtime.errors import CannotCreateError, DataError, DikkatError, MissingInputError, UsageError
from dikkat_runtime.server import keys as keys_module
from dikkat_runtime.server.keys import Allowance, Key, find_key, new_key, read_keys
from dikkat_runtime.server.request_error import RequestError


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_an_allowance_comes_back_evenly_and_never_beyond_a_minute() -> None:
    clock = Clock()
    allowance = Allowance(60, clock)
    allowance.use(60, "requests")
    with pytest.raises(RequestError) as refused:
        allowance.use(30, "requests")
    # 60 a minute are one a second
    assert (refused.value.kind, refused.value.retry_after) == ("rate", 30.0)
    clock.seconds = 29.0
    with pytest.raises(RequestError):
        allowance.use(30, "requests")
    clock.seconds = 30.0
    allowance.use(30, "requests")
    clock.seconds = 10_000.0
    allowance.use(60, "requests")
    with pytest.raises(RequestError):
        allowance.use(1, "requests")
    with pytest.raises(RequestError) as never:
        allowance.use(61, "requests")
    assert never.value.kind == "too_large"


def test_a_key_is_known_by_all_its_bytes() -> None:
    digest = hashlib.sha256(b"dk-secret").digest()
    others = [Key(f"{index}", bytes([*digest[:index], digest[index] ^ 1, *digest[index + 1 :]])) for index in range(32)]
    assert find_key(others, "dk-secret") is None
    assert find_key([*others, Key("mine", digest), *others], "dk-secret") is not None
    assert find_key([Key("mine", digest)], "dk-secret ") is None


def test_keys_are_compared_in_a_time_that_reveals_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return hmac.compare_digest(one, other)

    class Hmac:
        compare_digest = staticmethod(compare)

    monkeypatch.setattr(keys_module, "hmac", Hmac)
    digest = hashlib.sha256(b"dk-secret").digest()
    keys = [Key("first", digest), Key("second", bytes(32)), Key("third", bytes(32))]
    assert find_key(keys, "dk-secret") is keys[0]
    assert compared == [(digest, key.digest) for key in keys]


def test_a_key_is_added_after_a_line_without_an_end(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    first = new_key(path, "first")
    path.write_text(path.read_text().rstrip("\n") + " requests=5")
    second = new_key(path, "second")
    known = read_keys(path)
    assert [key.name for key in known] == ["first", "second"]
    assert [find_key(known, key) for key in (first, second)] == known
    assert path.read_text().endswith("\n")


def test_a_new_file_is_its_owners_alone_and_one_that_others_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    before = os.umask(0)
    try:
        new_key(path, "first")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    content = path.read_bytes()
    with pytest.raises(UsageError, match="chmod 600"):
        new_key(path, "second")
    with pytest.raises(UsageError, match="chmod 600"):
        read_keys(path)
    assert path.read_bytes() == content


def test_a_key_is_added_to_keys_alone(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.touch(0o600)
    for content in (b"password=1\n", b"\xff\n"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=f"{path}:"):
            new_key(path, "bob")
        assert path.read_bytes() == content


@pytest.mark.skipif(os.name != "posix", reason="named pipes and links of POSIX")
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pipe, folder, loop = tmp_path / "pipe", tmp_path / "folder", tmp_path / "loop"
    os.mkfifo(pipe, 0o600)
    folder.mkdir()
    loop.symlink_to(loop)
    for path in (pipe, folder, loop, tmp_path / "none" / "keys"):
        with pytest.raises((DataError, CannotCreateError)):
            new_key(path, "bob")
        with pytest.raises((DataError, MissingInputError)):
            read_keys(path)
        assert run_command(["serve", "--new-key", "bob", "--keys", str(path)]) in (65, 73)
        assert capsys.readouterr().err.count("\n") == 1


def test_keys_that_are_made_at_once_are_all_kept(tmp_path: Path) -> None:
    path, names = tmp_path / "keys", [f"key{number}" for number in range(12)]
    with ThreadPoolExecutor(6) as threads:
        made_keys = list(threads.map(lambda name: new_key(path, name), names))
    known = read_keys(path)
    assert sorted(key.name for key in known) == sorted(names)
    assert all(find_key(known, key) for key in made_keys)


def test_of_processes_that_make_one_name_at_once_one_succeeds(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    command = [sys.executable, "-m", "dikkat_runtime", "serve", "--new-key", "bob", "--keys", str(path)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(3)]
    assert sorted(process.wait() for process in processes) == [0, 2, 2]
    for process in processes:
        process.communicate()
    assert len(read_keys(path)) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="locks of POSIX")
def test_a_file_that_another_process_holds_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    path = tmp_path / "keys"
    new_key(path, "first")
    monkeypatch.setattr(keys_module, "_PATIENCE", 0.05)
    with path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(DikkatError, match="another process"):
            new_key(path, "second")
    new_key(path, "second")
