"""A layer below the file calls of this process, which counts, fails, kills at or records every change to a folder.

A call is `os.open` that creates, `os.write`, `os.fsync`, `os.rename`, `os.replace`, `os.mkdir`, `os.unlink`,
`os.rmdir`, `os.ftruncate`, and the writing of a file that `open` opened.
"""

from __future__ import annotations

import errno
import io
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

CALLS = ("open", "write", "fsync", "rename", "replace", "mkdir", "unlink", "rmdir", "ftruncate")
Seen = Callable[[str, Path, tuple[Any, ...]], None]
"""Called before a change with the name of the call, the path and the rest of its arguments; may raise or not return."""


class Layer:
    """Stands between this process and the files below `root`."""

    def __init__(self, root: Path, seen: Seen) -> None:
        self.root = str(root)
        self.seen = seen
        self.real = {name: getattr(os, name) for name in CALLS}
        self.real_open = io.open

    def install(self) -> None:
        for name in CALLS:
            setattr(os, name, getattr(self, f"_{name}"))
        io.open = self._io_open  # type: ignore[assignment]

    def remove(self) -> None:
        for name, call in self.real.items():
            setattr(os, name, call)
        io.open = self.real_open

    def is_below(self, path: object) -> bool:
        return os.path.abspath(os.fspath(path)).startswith(self.root)  # type: ignore[call-overload]

    def path_of(self, descriptor: int) -> Path:
        return Path(os.readlink(f"/proc/self/fd/{descriptor}"))

    def _open(self, path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if "dir_fd" not in named and flags & os.O_CREAT and self.is_below(path) and not os.path.exists(path):
            self.seen("create", Path(path), ())
        return int(self.real["open"](path, flags, *rest, **named))

    def _write(self, descriptor: int, content: Any) -> int:
        if self.is_below(path := self.path_of(descriptor)):
            self.seen("write", path, (bytes(content), descriptor))
        return int(self.real["write"](descriptor, content))

    def _fsync(self, descriptor: int) -> None:
        if self.is_below(path := self.path_of(descriptor)):
            self.seen("fsync", path, ())
        self.real["fsync"](descriptor)

    def _ftruncate(self, descriptor: int, size: int) -> None:
        path = self.path_of(descriptor)
        if self.is_below(path) and os.fstat(descriptor).st_size != size:
            self.seen("truncate", path, (size,))
        self.real["ftruncate"](descriptor, size)

    def _rename(self, source: Any, target: Any, **named: Any) -> None:
        if self.is_below(target):
            self.seen("rename", Path(source), (Path(target),))
        self.real["rename"](source, target, **named)

    def _replace(self, source: Any, target: Any, **named: Any) -> None:
        if self.is_below(target):
            self.seen("rename", Path(source), (Path(target),))
        self.real["replace"](source, target, **named)

    def _mkdir(self, path: Any, *rest: Any, **named: Any) -> None:
        if self.is_below(path) and not os.path.exists(path):
            self.seen("mkdir", Path(path), ())
        self.real["mkdir"](path, *rest, **named)

    def _unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        whole = self.path_of(dir_fd) / path if dir_fd is not None else Path(path)
        if self.is_below(whole) and os.path.lexists(whole):
            self.seen("unlink", whole, ())
        self.real["unlink"](path, dir_fd=dir_fd)

    def _rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        whole = self.path_of(dir_fd) / path if dir_fd is not None else Path(path)
        if self.is_below(whole):
            self.seen("rmdir", whole, ())
        self.real["rmdir"](path, dir_fd=dir_fd)

    def _io_open(self, path: Any, mode: str = "r", *rest: Any, **named: Any) -> Any:
        if mode not in ("wb", "xb") or not isinstance(path, str | os.PathLike) or not self.is_below(path):
            return self.real_open(path, mode, *rest, **named)
        self.seen("create", Path(path), ())
        return io.BufferedWriter(_Raw(os.fspath(path), mode[0], self))


class _Raw(io.FileIO):
    """A file that is opened for writing, whose writes pass through the layer."""

    def __init__(self, path: str, mode: str, layer: Layer) -> None:
        self._layer = layer
        self._path = Path(path)
        super().__init__(path, mode)

    def write(self, content: Any) -> int:
        self._layer.seen("write", self._path, (bytes(content), self.fileno()))
        return super().write(content) or 0


@contextmanager
def watched(root: Path, seen: Seen) -> Iterator[None]:
    layer = Layer(root, seen)
    layer.install()
    try:
        yield
    finally:
        layer.remove()


def install(plan: dict[str, Any]) -> None:
    """Let change number `at` below `root` meet a `fault` (kill, half, ENOSPC, EIO); count changes in the file `log`."""
    count = 0
    root, log = Path(plan["root"]), plan.get("log")

    def seen(call: str, path: Path, rest: tuple[Any, ...]) -> None:
        nonlocal count
        count += 1
        if log:
            layer.real_open(log, "w").write(str(count))
        if count != plan["at"]:
            return
        if plan["fault"] in ("kill", "half"):
            if plan["fault"] == "half" and call == "write":
                content, descriptor = rest
                layer.real["write"](descriptor, content[: len(content) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        number = getattr(errno, plan["fault"])
        raise OSError(number, os.strerror(number), str(path))

    layer = Layer(root, seen)
    layer.install()
