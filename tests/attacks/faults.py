"""Faults of a file of a run: each takes the place of the file, or changes what is in it."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path


def missing(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def link(path: Path) -> None:
    """To a good copy: what is refused is the link, not what it leads to."""
    elsewhere = path.with_name(f"elsewhere-{path.name}")
    path.rename(elsewhere)
    path.symlink_to(elsewhere.resolve())


def dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to("/nowhere/at/all")


def device(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def huge(path: Path) -> None:
    """Half a terabyte of nothing, which takes no space."""
    os.truncate(path, 1 << 39)


def zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def flipped(path: Path, seed: int = 7) -> None:
    content = bytearray(path.read_bytes() or b"\n")
    position = random.Random(f"{seed} {path.name}").randrange(len(content))
    content[position] ^= 1 << position % 8
    path.write_bytes(content)


FAULTS: tuple[Callable[[Path], None], ...] = (
    missing, empty, truncated, folder, link, dangling, device, pipe, huge, zeros, flipped,
)  # fmt: skip


def copy_of(run: Path, out: Path) -> Path:
    """A copy of a run beside its input, to be damaged."""
    shutil.copytree(run, out, symlinks=True)
    for text in run.parent.glob("input.txt"):
        if not (out.parent / text.name).exists():
            shutil.copy(text, out.parent / text.name)
    return out


def files_of(run: Path) -> list[str]:
    return sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file())
