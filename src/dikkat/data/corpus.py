"""Pairs of id sequences on disk, read when they are asked for: a corpus larger than memory trains like a small one.

Two files of numpy's own format: `<name>.ids.npy` holds source and target ids of pair 0, then of pair 1, … without
`<bos>` and `<eos>` (uint16 where they fit, else uint32), `<name>.offsets.npy` where each of the 2N sequences begins
and the last ends (int64).
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from dikkat.data.disk_arrays import DiskArray
from dikkat_runtime.errors import DataError, DiskError, MissingInputError, reason_of
from dikkat_runtime.text.sentences import split_sentences

# Read ranges of an array on disk so that memory holds what is asked for and nothing around it.

IntArray = NDArray[np.int64]

READ_FROM = 1 << 25
"""Bytes of a file of which ranges are read; a smaller one may stay in memory, mapped."""
_NEAR = 1 << 10
"""Entries from one range to the next, in the mean, up to which reading all between is faster than reading each."""
_READ_AT_ONCE = 1 << 20
"""Entries that are read at a time where ranges are near."""


class ArrayRanges:
    """Give ranges of a one-dimensional array that is in memory or mapped from a file.

    Of a large file they are read, not looked up in its map: that would keep 64 KiB around each in the memory of the
    process, up to the whole file.
    """

    def __init__(self, array: NDArray[Any], read_from: int = READ_FROM) -> None:
        """`read_from` is the number of bytes from which a mapped file is read."""
        self._array = np.asarray(array)
        self._file: int | None = None
        if isinstance(array, np.memmap) and array.nbytes >= read_from and hasattr(os, "preadv"):
            self._path, self._begin = Path(str(array.filename)), int(array.offset)
            self._file = os.open(self._path, os.O_RDONLY)
            weakref.finalize(self, os.close, self._file)

    def __len__(self) -> int:
        return len(self._array)

    def read(self, start: int, stop: int) -> NDArray[Any]:
        """Return the entries from `start` to before `stop`, or to the end. Raises `DataError`."""
        stop = max(start, min(stop, len(self)))
        if self._file is None:
            return self._array[start:stop]
        entries = np.empty(stop - start, self._array.dtype)
        self._fill(self._file, entries, start)
        return entries

    def gather(self, starts: IntArray, lengths: IntArray) -> NDArray[Any]:
        """Return ranges one after the other, (sum of lengths,). Raises `DataError`."""
        ends = np.cumsum(lengths)
        if self._file is None:
            positions = np.arange(lengths.sum()) + np.repeat(starts - (ends - lengths), lengths)
            entries: NDArray[Any] = self._array[positions]
            return entries
        if self._are_near(starts):
            first, last = int(starts[0]), int((starts + lengths).max())
            if last - first <= _READ_AT_ONCE:
                return ArrayRanges(self.read(first, last)).gather(starts - first, lengths)
            middle = len(starts) // 2
            parts = (slice(None, middle), slice(middle, None))
            return np.concatenate([self.gather(starts[part], lengths[part]) for part in parts])
        entries = np.empty(int(lengths.sum()), self._array.dtype)
        begin = 0
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            self._fill(self._file, entries[begin:end], start)
            begin = end
        return entries

    def _are_near(self, starts: IntArray) -> bool:
        """Whether there are several ranges that come one after the other in the file with little between them."""
        if len(starts) < 2 or starts[-1] - starts[0] > _NEAR * len(starts):
            return False
        return bool((starts[1:] >= starts[:-1]).all())

    def _fill(self, file: int, entries: NDArray[Any], start: int) -> None:
        content = entries.view(np.uint8).data
        offset = self._begin + start * self._array.dtype.itemsize
        while len(content):
            count = os.preadv(file, [content], offset)
            if count <= 0:
                raise DataError("{path}: became shorter while it was read; prepare the data again", self._path)
            content, offset = content[count:], offset + count


Ids = NDArray[np.unsignedinteger[Any]]
Side = Literal["source", "target"]

_BUFFERED_TOKENS = 1 << 20
_CHECKED_PAIRS = 1 << 16
# numpy reads a header as Python reads a literal
_HEADER_ERRORS = (ValueError, TypeError, EOFError, OverflowError, MemoryError, RecursionError, SyntaxError, TokenError)


class Lengths(Protocol):
    """Describe the lengths of N sequences, of which some are read at a time: an array, or `SequenceLengths`."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any, /) -> Any:
        """Return the lengths of a slice or of indices (B,), int64."""


class Corpus:
    """N pairs of id sequences; a sequence is read from disk when it is asked for. Memory does not grow with N."""

    def __init__(self, ids: Ids, offsets: NDArray[np.int64], directory: Path | None = None) -> None:
        self.ids, self._offsets = ArrayRanges(ids), ArrayRanges(offsets)
        """All ids of all pairs one after the other, the source before its target; and where each begins."""
        self.directory = directory
        """Folder of its files; None for a corpus in memory."""

    @classmethod
    def build(cls, directory: Path, name: str, pairs: Iterable[tuple[Iterable[int], Iterable[int]]]) -> Corpus:
        """Write the pairs, each of which is read once, and open them, in constant memory. Raises `DiskError`."""
        paths = _paths(directory, name)
        partials = tuple(path.with_name(path.name + ".partial") for path in paths)
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=directory) as spool:
                offsets = DiskArray(np.int64, directory)
                size, largest = _spool(pairs, spool, offsets)
                width: type[np.unsignedinteger[Any]] = np.uint16 if largest <= np.iinfo(np.uint16).max else np.uint32
                _write(partials[0], np.dtype(width), size, _blocks(spool))
            _write(partials[1], offsets.dtype, len(offsets), offsets.blocks())
            # Without its offsets a corpus does not open: the old ones must never meet the new ids.
            paths[1].unlink(missing_ok=True)
            os.replace(partials[0], paths[0])
            os.replace(partials[1], paths[1])
        except OSError as error:
            reason = reason_of(error)
            raise DiskError(
                "{paths}: cannot write the corpus: {reason}; free some space or use another disk", paths[0], reason
            ) from None
        finally:
            for path in partials:
                with suppress(OSError):  # what went wrong before is what the user has to hear
                    path.unlink()
        return cls.open(directory, name, vocab_size=largest + 1)

    @classmethod
    def open(
        cls,
        directory: Path,
        name: str,
        *,
        vocab_size: int,
        target_vocab_size: int | None = None,
        num_classes: int | None = None,
        any_number_of_classes: bool = False,
    ) -> Corpus:
        """Open what `build` wrote; with `num_classes`, each target is the number of a class, or any number of them.

        Targets are of the same vocabulary unless `target_vocab_size` is that of another. Raises `MissingInputError`,
        or `DataError` when the two files do not fit, or hold an id that is neither of the vocabulary nor a class.
        """
        ids_path, offsets_path = _paths(directory, name)
        ids = map_array(ids_path, lambda array: array.dtype in (np.dtype(np.uint16), np.dtype(np.uint32)))
        offsets = map_array(offsets_path, lambda array: array.dtype == np.dtype(np.int64))
        ends_fit = offsets.size % 2 == 1 and offsets[0] == 0 and offsets[-1] == ids.size
        corpus = cls(ids, offsets, directory)
        if not ends_fit or not corpus._offsets_ascend():
            raise DataError("{path}: does not fit {name} ({size} ids); prepare the data again").fill(
                offsets_path, ids_path.name, ids.size
            )
        if num_classes is not None:
            if not any_number_of_classes:
                _check_one_class(offsets_path, corpus)
            if first := _first_beyond(corpus, "target", num_classes):
                raise DataError(
                    "{path}: text {text} is of class {number}, but the last class is {last}; prepare the data again"
                ).fill(ids_path, *first, num_classes - 1)
        _check_ids(ids_path, corpus, max(vocab_size, target_vocab_size or 0, num_classes or 0))
        limits: tuple[tuple[Side, int], ...] = (("source", vocab_size), ("target", target_vocab_size or 0))
        for side, size in limits if target_vocab_size is not None else ():
            if first := _first_beyond(corpus, side, size):
                raise DataError(
                    "{path}: the {side} of pair {pair} holds {id}, but its vocabulary ends at {last}; prepare the "
                    "data again"
                ).fill(ids_path, side, *first, size - 1)
        return corpus

    @classmethod
    def in_memory(cls, pairs: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Corpus:
        """Return a corpus without files, for a handful of pairs."""
        sequences = [sequence for pair in pairs for sequence in pair]
        offsets = np.cumsum([0, *map(len, sequences)], dtype=np.int64)
        return cls(np.array([token for sequence in sequences for token in sequence], np.uint32), offsets)

    def __len__(self) -> int:
        return len(self._offsets) // 2

    def source(self, index: int) -> Ids:
        """Source ids of one pair, `(S,)`. Raises `IndexError`."""
        return self._sequence(2 * range(len(self))[index])

    def target(self, index: int) -> Ids:
        """Target ids of one pair, `(T,)`. Raises `IndexError`."""
        return self._sequence(2 * range(len(self))[index] + 1)

    @property
    def source_lengths(self) -> NDArray[np.int64]:
        """Source tokens of each pair, `(N,)`, without `<eos>`."""
        return self.lengths("source")[:]

    @property
    def target_lengths(self) -> NDArray[np.int64]:
        """Target tokens of each pair, `(N,)`, without `<bos>` and `<eos>`."""
        return self.lengths("target")[:]

    def lengths(self, side: Side) -> SequenceLengths:
        """Lengths of the sequences of a side, (N,), which are read when they are asked for."""
        return SequenceLengths(self, side)

    def gather(self, indices: NDArray[np.int64], side: Side) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Ids of many sequences one after the other, `(sum of lengths,)`, and their lengths, `(B,)`."""
        starts, lengths = self._bounds(2 * indices + (side == "target"))
        return self.ids.gather(starts, lengths).astype(np.int64), lengths

    def blocks(self) -> Iterator[Ids]:
        """Yield all ids, some at a time."""
        for start in range(0, len(self.ids), _BUFFERED_TOKENS):
            yield self.ids.read(start, start + _BUFFERED_TOKENS)

    def fingerprint(self) -> str:
        """SHA-256 of lengths and ids in hexadecimal: equal for equal pairs, whatever width they are stored in."""
        digest = hashlib.sha256()
        for array, width in ((self._offsets, "<i8"), (self.ids, "<u4")):
            for start in range(0, len(array), _BUFFERED_TOKENS):
                digest.update(array.read(start, start + _BUFFERED_TOKENS).astype(width).tobytes())
        return digest.hexdigest()

    def _bounds(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where sequences begin, and their lengths, by their numbers."""
        ends = self._offsets.gather(rows, np.full(len(rows), 2)).reshape(-1, 2)
        return ends[:, 0], ends[:, 1] - ends[:, 0]

    def _sequence(self, row: int) -> Ids:
        start, stop = self._offsets.read(row, row + 2).tolist()
        return self.ids.read(start, stop)

    def _offsets_ascend(self) -> bool:
        for start in range(0, len(self._offsets), _BUFFERED_TOKENS):
            block = self._offsets.read(start, start + _BUFFERED_TOKENS + 1)
            # compared, since differences of damaged offsets can be beyond 64 bits
            if bool((block[1:] < block[:-1]).any()):
                return False
        return True


class SequenceLengths:
    """The lengths of one side of a corpus, (N,), int64, which are computed from its offsets when they are asked for."""

    def __init__(self, corpus: Corpus, side: Side) -> None:
        self._corpus, self._side = corpus, int(side == "target")

    def __len__(self) -> int:
        return len(self._corpus)

    def __getitem__(self, index: slice | NDArray[np.int64]) -> NDArray[np.int64]:
        if not isinstance(index, slice):
            return self._corpus._bounds(2 * index + self._side)[1]
        start, stop, step = index.indices(len(self))
        # of a slice that is all pairs, offsets are twice what is asked for
        parts = [
            np.diff(self._corpus._offsets.read(2 * first, 2 * min(first + _CHECKED_PAIRS, stop) + 1))[self._side :: 2]
            for first in range(start, stop, _CHECKED_PAIRS)
        ]
        return np.concatenate([np.empty(0, np.int64), *parts])[::step]


def length_counts(lengths: Lengths) -> NDArray[np.int64]:
    """Return how many sequences have each length, (longest + 1,)."""
    counts = np.zeros(1, np.int64)
    for start in range(0, len(lengths), _CHECKED_PAIRS):
        block = np.bincount(lengths[start : start + _CHECKED_PAIRS])
        longer, shorter = (block, counts) if len(block) > len(counts) else (counts, block)
        longer[: len(shorter)] += shorter
        counts = longer
    return counts


def _check_ids(path: Path, corpus: Corpus, vocab_size: int) -> None:
    before = 0
    for block in corpus.blocks():
        if int(block.max()) >= vocab_size:
            position = int((block >= vocab_size).argmax())
            raise DataError(
                "{path}: token {position} of {count} is {id}, but the vocabulary ends at {last}; prepare the data again"
            ).fill(path, before + position + 1, len(corpus.ids), block[position], vocab_size - 1)
        before += len(block)


def _first_beyond(corpus: Corpus, side: Side, limit: int) -> tuple[int, int] | None:
    """Return the first id of a side that is not below a limit, after the number of its pair, from 1."""
    for start in range(0, len(corpus), _CHECKED_PAIRS):
        pairs = np.arange(start, min(start + _CHECKED_PAIRS, len(corpus)))
        ids, lengths = corpus.gather(pairs, side)
        if ids.size and int(ids.max()) >= limit:
            first = int((ids >= limit).argmax())
            return int(np.repeat(pairs, lengths)[first]) + 1, int(ids[first])
    return None


def _check_one_class(offsets_path: Path, corpus: Corpus) -> None:
    for start in range(0, len(corpus), _CHECKED_PAIRS):
        is_wrong = corpus.lengths("target")[start : start + _CHECKED_PAIRS] != 1
        if bool(is_wrong.any()):
            text = start + int(is_wrong.argmax())
            raise DataError(
                "{path}: text {text} does not have exactly one class; prepare the data again", offsets_path, text + 1
            )


def _paths(directory: Path, name: str) -> tuple[Path, Path]:
    return directory / f"{name}.ids.npy", directory / f"{name}.offsets.npy"


def _spool(
    pairs: Iterable[tuple[Iterable[int], Iterable[int]]], spool: IO[bytes], offsets: DiskArray
) -> tuple[int, int]:
    """Write all ids as uint32 to `spool`, where each sequence begins and the last ends to `offsets`; count, largest."""
    ends, buffer = [0], list[int]()
    size = largest = 0

    def write() -> None:
        nonlocal size, largest
        largest = max(largest, max(buffer, default=0))
        spool.write(np.array(buffer, np.uint32).tobytes())
        offsets.append(np.array(ends, np.int64))
        size += len(buffer)
        buffer.clear()
        ends.clear()

    for pair in pairs:
        for sequence in pair:
            rest = iter(sequence)
            while some := list(islice(rest, _BUFFERED_TOKENS)):
                buffer.extend(some)
                if len(buffer) >= _BUFFERED_TOKENS:
                    write()
            ends.append(size + len(buffer))
        if len(ends) >= _BUFFERED_TOKENS:
            write()
    write()
    return size, largest


def _blocks(spool: IO[bytes]) -> Iterator[NDArray[np.uint32]]:
    spool.seek(0)
    while block := spool.read(4 * _BUFFERED_TOKENS):
        yield np.frombuffer(block, np.uint32)


def _write(path: Path, dtype: np.dtype[Any], size: int, blocks: Iterable[NDArray[Any]]) -> None:
    """Write a one-dimensional .npy file and bring it to the disk.

    Plain writes, not a writable memory map: on a full disk a map kills the process, a write raises `OSError`.
    """
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": (size,)}
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for block in blocks:
            file.write(block.astype(dtype, copy=False).tobytes())
        file.flush()
        os.fsync(file.fileno())


def map_array(path: Path, is_expected: Callable[[NDArray[Any]], bool]) -> NDArray[Any]:
    try:
        array: np.memmap[Any, Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise MissingInputError("{path}: there is no such corpus; prepare the data again", path) from None
    except (OSError, *_HEADER_ERRORS) as error:
        raise DataError(
            "{path}: damaged ({error}); prepare the data again", path, " ".join(str(error).split())
        ) from None
    is_whole = path.stat().st_size == array.offset + array.nbytes
    if array.ndim != 1 or not is_whole or not is_expected(array):
        raise DataError("{path}: damaged (a {dtype} array of shape {shape}); prepare the data again").fill(
            path, array.dtype, array.shape
        )
    return array


# Measure the length and sentences of a translator's training lines, which limit what it reads in one piece.

_USUAL = 99.9
"""Percentage of the lines that are no longer than is usual."""
_EXAMINED = 2_000
"""Lines whose sentences are counted, evenly spread over the training data."""


def source_profile(lengths: Lengths, texts: Sequence[str], language: str) -> dict[str, Any]:
    """Return the profile of the source side for `config.json`: tokens of its lines, and sentences."""
    chosen = np.unique(np.linspace(0, len(texts) - 1, _EXAMINED).astype(int)).tolist()
    several = sum(len(split_sentences(texts[index], language)) > 1 for index in chosen)
    counts = length_counts(lengths)
    # as np.percentile finds it by its method "higher", of all lengths in their order
    usual = np.ceil((len(lengths) - 1) * (_USUAL / 100))
    return {
        "longest": len(counts) - 1,
        "usual": int(np.searchsorted(np.cumsum(counts), usual, side="right")),
        "several_sentences": several / len(chosen),
    }
