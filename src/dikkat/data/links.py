"""Hold which tokens of a source should attend to which, for the pairs of a corpus: what a guided head learns.

A link is a pair, the position of a token and that of a token that it should attend to. The file is one array of int64
in numpy's own format: three numbers a link, sorted by pair, then by row, then by column.
"""

import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dikkat.data.corpus import Corpus, map_array
from dikkat_runtime.errors import DataError
from dikkat_runtime.files import write_atomically

Link = tuple[int, int, int]
"""Index of a pair in the corpus, row and column."""
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class BatchLinks:
    """Hold the L links of a batch; each array is (L,), int64."""

    sentences: IntArray
    """Position of the pair in the batch."""
    rows: IntArray
    """Position of the token that attends."""
    columns: IntArray
    """Position of a token that it should attend to."""
    groups: IntArray
    """Number of the row among all linked rows of the batch, from 0."""

    @property
    def num_rows(self) -> int:
        return int(self.groups[-1]) + 1 if len(self.groups) else 0


class Links:
    """Hold the links of a corpus, (L, 3), sorted."""

    def __init__(self, links: IntArray) -> None:
        self._links = links

    @property
    def num_pairs(self) -> int:
        return len(np.unique(self._links[:, 0]))

    @classmethod
    def build(cls, directory: Path, links: Iterable[Link]) -> "Links":
        """Write the links of the training pairs next to their corpus. Raises `DiskError`."""
        table = np.array(sorted(set(links)), np.int64).reshape(-1, 3)
        content = io.BytesIO()
        np.save(content, table.reshape(-1), allow_pickle=False)
        write_atomically(_path(directory), content.getvalue())
        return cls(table)

    @classmethod
    def open(cls, directory: Path, corpus: Corpus) -> "Links":
        """Open what `build` wrote.

        Raises `MissingInputError`, or `DataError` where it is damaged or links tokens that the sources have not.
        """
        path = _path(directory)
        flat = map_array(path, lambda array: array.dtype == np.dtype(np.int64) and array.size % 3 == 0)
        table = np.array(flat).reshape(-1, 3)
        pairs, positions = table[:, 0], table[:, 1:]
        fits = not len(table) or bool(pairs[0] >= 0 and pairs[-1] < len(corpus) and (np.diff(pairs) >= 0).all())
        # <eos> is the last position of a source
        if not fits or bool(((positions < 0) | (positions > corpus.source_lengths[pairs][:, None])).any()):
            raise DataError(
                "{path}: does not fit the corpus of {count} pairs; prepare the data again", path, len(corpus)
            )
        return cls(table)

    @staticmethod
    def remove(directory: Path) -> None:
        """Remove what an interrupted preparation with other settings has left."""
        _path(directory).unlink(missing_ok=True)

    def of(self, indices: IntArray) -> BatchLinks:
        """Return the links of a batch of the pairs `indices` (B,)."""
        pairs = self._links[:, 0]
        starts, ends = (np.searchsorted(pairs, indices, side) for side in ("left", "right"))
        counts = ends - starts
        sentences = np.repeat(np.arange(len(indices)), counts)
        before = np.cumsum(counts) - counts
        chosen = self._links[np.arange(counts.sum()) + np.repeat(starts - before, counts)]
        rows, columns = chosen[:, 1].copy(), chosen[:, 2].copy()
        is_new = (np.diff(sentences, prepend=-1) != 0) | (np.diff(rows, prepend=-1) != 0)
        return BatchLinks(sentences, rows, columns, np.cumsum(is_new) - 1)


def _path(directory: Path) -> Path:
    return directory / "train.links.npy"
