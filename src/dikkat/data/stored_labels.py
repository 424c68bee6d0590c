"""Labelled texts in a file without a name: as many as the disk holds, each read when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from dikkat.data.cleaning import CleaningReport
from dikkat.data.duplicates import without_duplicates
from dikkat.data.labelled import LabelledText
from dikkat.data.pairs import Pair
from dikkat.data.stored_pairs import SideTexts, StoredPairs

_BREAK = "\t"
"""Stands between labels, and cannot stand in one."""


class StoredLabels(Sequence[LabelledText]):
    """Hold labelled texts in their order, or some of them."""

    def __init__(self, pairs: StoredPairs) -> None:
        self._pairs = pairs

    @classmethod
    def store(
        cls, texts: Iterable[LabelledText], report: CleaningReport, directory: Path | None = None
    ) -> StoredLabels:
        """Write texts to a file in `directory` that has no name there, but those that came before with the same labels.

        `report` counts what is read, kept and left out. Raises `DiskError` and what `texts` raises.
        """
        pairs = StoredPairs.store(_counted(texts, report), directory)
        return cls(without_duplicates(pairs, report, lambda pair: pair._replace(source=", ".join(_labels(pair)))))

    def __len__(self) -> int:
        return len(self._pairs)

    @overload
    def __getitem__(self, index: int) -> LabelledText: ...
    @overload
    def __getitem__(self, index: slice) -> list[LabelledText]: ...
    def __getitem__(self, index: int | slice) -> LabelledText | list[LabelledText]:
        if isinstance(index, slice):
            return [_labelled(pair) for pair in self._pairs[index]]
        return _labelled(self._pairs[index])

    def __iter__(self) -> Iterator[LabelledText]:
        return map(_labelled, self._pairs)

    @property
    def texts(self) -> Sequence[str]:
        """Return the texts without their labels."""
        return SideTexts(self._pairs, "target")

    def without(self, dropped: NDArray[np.int64]) -> StoredLabels:
        """Return the texts but those of the indices `dropped`, which ascend. Raises `DiskError`."""
        return StoredLabels(self._pairs.without([dropped]))

    def sample(self, most: int, seed: int) -> StoredLabels:
        """Return about `most` of the texts, drawn by `seed`; all of them where they are no more. Raises `DiskError`."""
        return StoredLabels(self._pairs.sample(most, seed))


def _counted(texts: Iterable[LabelledText], report: CleaningReport) -> Iterator[Pair]:
    for example in texts:
        report.read += 1
        report.kept += 1
        yield Pair(_BREAK.join(example.labels), example.text, example.line)


def _labels(pair: Pair) -> tuple[str, ...]:
    return tuple(filter(None, pair.source.split(_BREAK)))


def _labelled(pair: Pair) -> LabelledText:
    return LabelledText(_labels(pair), pair.target, pair.line)
