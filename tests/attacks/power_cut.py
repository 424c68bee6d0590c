"""What of a folder is on the disk when the power goes: only what was synced.

A file keeps the content of its last fsync, a folder the names of its last fsync. Every other order that a file system
may choose keeps more than that, so a run that can go on from here can go on from any of them, as far as what must be
there is concerned.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(eq=False)
class Node:
    """A file or a folder, as the programs see it and as the disk has it."""

    is_folder: bool
    content: bytes = b""
    names: dict[str, Node] = field(default_factory=dict)
    synced_content: bytes = b""
    synced_names: dict[str, Node] = field(default_factory=dict)


class Disk:
    """Replays recorded changes below `root`, whose own name is synced."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._top = Node(is_folder=True)

    def apply(self, call: str, path: Path, rest: tuple[Any, ...]) -> None:
        getattr(self, f"_{call}")(path, *rest)

    def materialize(self, out: Path) -> None:
        """Write what is on the disk into the empty folder `out`."""
        _write(self._top, out)

    def _node(self, path: Path) -> Node:
        node = self._top
        for name in path.relative_to(self._root).parts:
            node = node.names[name]
        return node

    def _create(self, path: Path) -> None:
        self._node(path.parent).names[path.name] = Node(is_folder=False)

    def _mkdir(self, path: Path) -> None:
        self._node(path.parent).names[path.name] = Node(is_folder=True)

    def _write(self, path: Path, content: bytes, _: int) -> None:
        if path.name.startswith("#"):  # a temporary file without a name
            return
        self._node(path).content += content

    def _truncate(self, path: Path, size: int) -> None:
        node = self._node(path)
        node.content = node.content[:size]

    def _fsync(self, path: Path) -> None:
        node = self._node(path)
        node.synced_content, node.synced_names = node.content, dict(node.names)

    def _rename(self, source: Path, target: Path) -> None:
        self._node(target.parent).names[target.name] = self._node(source.parent).names.pop(source.name)

    def _unlink(self, path: Path) -> None:
        del self._node(path.parent).names[path.name]

    _rmdir = _unlink


def _write(node: Node, out: Path) -> None:
    for name, child in node.synced_names.items():
        if child.is_folder:
            (out / name).mkdir()
            _write(child, out / name)
        else:
            (out / name).write_bytes(child.synced_content)
