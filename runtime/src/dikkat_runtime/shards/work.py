"""The work that a worker is sent: a whole file, every so-many-th chunk of a large one, or the joining of its parts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dikkat_runtime.files import TEMPORARY_PREFIX
from dikkat_runtime.shards.shard import Shard

SPLIT_FROM = 1 << 20
"""Bytes of a file from which several workers may share it; one that is smaller is a few chunks of rows."""
MAX_PARTS = 16
"""Parts of a file, each of which reads all of it; more would read longer than they compute."""
_PIECES = 4
"""Pieces of like size that each worker gets at least, if files are large, so that all end at about the same time."""


@dataclass(frozen=True, slots=True)
class Work:
    """Answer a file and write its output; or with several `parts`, answer one part; or write what they answered."""

    shard: Shard
    part: int = 0
    """From 0; this part has the chunks `part`, `part` + `parts`, …"""
    parts: int = 1
    joined: Mapping[str, Any] | None = field(default=None, hash=False)
    """What the parts of a file have found together, where the work is to write its output."""

    @property
    def is_part(self) -> bool:
        """True if answers alone are written, for another worker to write the output."""
        return self.parts > 1 and self.joined is None

    @property
    def size(self) -> float:
        """The bytes of the file whose rows are answered."""
        return 0.0 if self.joined is not None else self.shard.size / self.parts

    def answers_of(self, part: int) -> Path:
        """Return the file with the answers of one part, which counts as half-written."""
        output = self.shard.output
        return output.with_name(f"{TEMPORARY_PREFIX}{output.name}-part-{part + 1}-of-{self.parts}")

    @property
    def answers(self) -> list[Path]:
        """The files with the answers of all parts; none for a file that is not split."""
        return [self.answers_of(part) for part in range(self.parts)] if self.parts > 1 else []

    def to_json(self) -> dict[str, Any]:
        """Return all fields as values of JSON."""
        return {"shard": self.shard.to_json(), "part": self.part, "parts": self.parts, "joined": self.joined}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Work:
        """Return the work of `to_json`."""
        return cls(Shard.from_json(values["shard"]), values["part"], values["parts"], values["joined"])


def share_out(shards: Sequence[Shard], num_workers: int) -> list[Work]:
    """Return the work on files for so many workers, the largest first; large files are split into parts."""
    total = sum(shard.size for shard in shards)
    fair = max(1.0, total / (num_workers * _PIECES))
    work = list[Work]()
    for shard in shards:
        parts = 1
        if shard.size >= SPLIT_FROM:
            parts = min(num_workers, math.ceil(shard.size / fair), MAX_PARTS)
        work += [Work(shard, part, parts) for part in range(parts)]
    return sorted(work, key=lambda item: -item.size)
