"""Keep API keys: a file of their hashes, each with a name and limits, and make new ones."""

import errno
import hashlib
import hmac
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dikkat_runtime.errors import CannotCreateError, DataError, MissingInputError, UsageError, msg, reason_of
from dikkat_runtime.files import open_regular, take_lock, write_errors
from dikkat_runtime.server.request_error import RequestError

_LINE = re.compile(r"(?P<name>[\w.-]{1,64})\s+sha256:(?P<hash>[0-9a-f]{64})(?P<limits>(?:\s+\w+=\d{1,12})*)", re.ASCII)
_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)
_LIMITS = ("requests", "characters")
_MAX_FILE_SIZE = 1 << 20
_PATIENCE = 10.0
"""Seconds to wait for other processes that add a key."""


class Allowance:
    """A limit a minute, evenly refilled; a full minute's worth may be used together."""

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_minute, self._clock = per_minute, clock
        self._left, self._at = float(per_minute), clock()

    def use(self, amount: int, what: str) -> None:
        """Take `amount`. Raises `RequestError` with the time when there will be enough, if ever."""
        now = self._clock()
        self._left = min(self._per_minute, self._left + (now - self._at) * self._per_minute / 60)
        self._at = now
        if amount > self._per_minute:
            raise RequestError(
                "too_large",
                msg("this key may send {per_minute:,} {unit} a minute, not {count:,}", self._per_minute, what, amount),
            )
        if amount > self._left:
            seconds = (amount - self._left) * 60 / self._per_minute
            raise RequestError(
                "rate",
                msg("this key may send {per_minute:,} {unit} a minute", self._per_minute, what),
                retry_after=seconds,
            )
        self._left -= amount


@dataclass(slots=True)
class Key:
    """A key with its limits and counters."""

    name: str
    digest: bytes
    """SHA-256 of the key itself, which is long and random."""
    allowances: dict[str, Allowance] = field(default_factory=dict)
    characters: int = 0
    """Characters sent since the server was started."""

    def use(self, what: str, amount: int) -> None:
        """Count a use. Raises `RequestError` where it is too much."""
        if allowance := self.allowances.get(what):
            allowance.use(amount, what)
        if what == "characters":
            self.characters += amount


def read_keys(path: Path) -> list[Key]:
    """Return the keys of a file only its owner may read. Raises `MissingInputError`, `DataError` or `UsageError`."""
    try:
        with os.fdopen(open_regular(path, _MAX_FILE_SIZE), "rb") as file:
            _check_mode(path, file.fileno())
            content = file.read()
    except OSError as error:
        raise MissingInputError(
            "{path}: cannot be read: {reason}; make a key with --new-key NAME", path, reason_of(error)
        ) from None
    keys = list(_keys(path, content))
    if not keys:
        raise DataError("{path}: holds no key; make one with --new-key NAME", path)
    return keys


def find_key(keys: list[Key], presented: str) -> Key | None:
    """Return the presented key; all are compared, so that the time reveals nothing."""
    digest, match = hashlib.sha256(presented.encode("utf-8", "replace")).digest(), None
    for key in keys:
        if hmac.compare_digest(digest, key.digest):
            match = key
    return match


def new_key(path: Path, name: str) -> str:
    """Make a key, append its hash to the file and return it; several processes may do so at once.

    Raises `UsageError`, `DataError` for a file that holds something else, `CannotCreateError` and `DiskError`.
    """
    if not _NAME.fullmatch(name):
        raise UsageError("{name} is not a name for a key: use up to 64 letters, digits, -, _ and .", repr(name))
    key = f"dk-{secrets.token_urlsafe(32)}"
    line = f"{name} sha256:{hashlib.sha256(key.encode()).hexdigest()}\n".encode()
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
    with write_errors(path), os.fdopen(open_regular(path, _MAX_FILE_SIZE, flags, 0o600), "r+b", buffering=0) as file:
        if not take_lock(file.fileno(), _PATIENCE):
            raise CannotCreateError("{path}: another process is writing this file; try again later", path)
        _check_mode(path, file.fileno())
        content = file.read()
        if any(key.name == name for key in _keys(path, content)):
            raise UsageError(
                "{path}: there is already a key called {name}; choose another name, or delete its line", path, name
            )
        try:
            written = line if not content or content.endswith(b"\n") else b"\n" + line
            if file.write(written) != len(written):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file.fileno())
        except BaseException:
            file.truncate(len(content))
            raise
    return key


def _check_mode(path: Path, descriptor: int) -> None:
    """Raise `UsageError` for a file that others may read or change."""
    if os.fstat(descriptor).st_mode & 0o077:
        raise UsageError("{path}: others may read or change this file of keys; run chmod 600 {path}", path)


def _keys(path: Path, content: bytes) -> Iterator[Key]:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise DataError("{path}: not a file of keys: not valid UTF-8", path) from None
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        parsed = _LINE.fullmatch(line.strip())
        limits = dict(part.split("=") for part in parsed["limits"].split()) if parsed else {}
        if parsed is None or not set(limits) <= set(_LIMITS) or "0" in limits.values():
            raise DataError(
                "{path}:{line}: not a key: write NAME sha256:HASH, and requests=N or characters=N a minute"
            ).fill(path, number)
        allowances = {name: Allowance(int(value)) for name, value in limits.items()}
        yield Key(parsed["name"], bytes.fromhex(parsed["hash"]), allowances)
