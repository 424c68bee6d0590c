"""Read the arrays of a run directory, whose checksum is compared before they are used."""

import hashlib
import json
import math
import mmap
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from dikkat_runtime.errors import DataError, MissingInputError, OutOfMemoryError, UsageError, msg, unreadable
from dikkat_runtime.files import open_regular
from dikkat_runtime.run.strict_json import parse_json

Array = NDArray[Any]
MAX_FILE_SIZE = 1 << 40
MAX_HEADER_SIZE = 1 << 24
"""Bytes; the header of a safetensors file names each weight."""
# One metadata key: safetensors writes several in random order, and equal weights should give equal files.
NOTES = "dikkat"
_TYPES: dict[str, np.dtype[Any]] = {"F32": np.dtype("<f4"), "I32": np.dtype("<i4"), "I8": np.dtype("i1")}
"""The types of arrays of a run, by their names in the file."""
STORED_PRECISION = "precision"
"""The note of the precision that weights were exported in; none for float32."""
EXPORTED_FROM = "exported_from"
"""The note of the checksum that the weights of an export had before they were stored in eight bits."""
MEMORY_SHARE = {"float32": 1.0, "int8": 0.5, "int4": 0.4}
"""What an engine holds in memory of its own, at least, as a share of a file of float32 numbers, by its precision."""
SCALE = ":scale"
"""Ends the name of the array with the size of a step of each row of a matrix in eight bits."""
ADAPTS, BASE = "adapts", "base"
"""The notes of an adapter: the checksum of the weights that it updates, and the path of the run that they are of."""
UP, DOWN = ":up", ":down"
"""End the names of the factors (E, R) and (R, D) whose product an adapter adds to a matrix of its base."""
_known: dict[Path, None] = {}
"""The files of weights that this process has read or was told of, among which adapters look for their bases."""


def require_weights(path: Path) -> None:
    """Raise `MissingInputError` where a run lacks its file of weights: not trained long enough, or damaged since."""
    if path.exists():
        return
    if (path.parent / "card.md").exists():  # written last, so its run was whole once
        raise MissingInputError("{path}: is missing from the run; restore it from a copy", path)
    raise MissingInputError("{path}: no weights yet; continue training with --resume until it validates", path)


def free_memory() -> int | None:
    """Return the bytes that the machine can still give, or the group that this process is in; None where unknown."""
    limits = []
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as lines:
            limits += [1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
        most, used, stat = (Path(f"/sys/fs/cgroup/memory.{name}").read_text() for name in ("max", "current", "stat"))
        # what is kept of files is given back when memory is asked for
        kept = next(int(line.split()[1]) for line in stat.splitlines() if line.startswith("file "))
        limits.append(int(most) - int(used) + kept)
    except (OSError, ValueError, StopIteration):
        pass  # another system, or a group without a limit
    return min(limits, default=None)


def require_memory(path: Path, precision: str, imported: int | None = None, extra: int = 0) -> None:
    """Raise `OutOfMemoryError` where the weights of a file cannot fit into memory in a precision, before any is read.

    The message names a precision that would fit. Of another toolkit's weights those `imported` are so many numbers;
    float32 holds so many `extra` bytes.
    """
    free, stored = free_memory(), path.stat().st_size if path.exists() else 0
    stored = stored if imported is None else 4 * imported
    needed = {name: stored * share for name, share in MEMORY_SHARE.items()}
    needed["float32"] += extra
    if free is None or needed.get(precision, stored) <= free:
        return
    fits = [name for name, size in needed.items() if size <= free]
    advice = msg("--precision {precision} would fit", fits[0]) if fits else msg("no precision would fit")
    advice = msg("import it on a larger machine, and {advice} here", advice) if fits and imported else advice
    raise OutOfMemoryError(
        "{path}: its weights take {needed:.1f} GiB in {precision}, but only {free:.1f} GiB are free; {advice}"
    ).fill(path, needed.get(precision, stored) / 2**30, precision, free / 2**30, advice)


def read_weights(path: Path) -> dict[str, Array]:
    """Return the whole weights that are stored at `path`: those of an adapter are the updated ones of its base.

    Raises as `read_stored`, and `DataError` where an adapter does not fit its base.
    """
    stored, base = read_stored(path), base_of(path)
    if base is None:
        return stored
    weights = dict(read_weights(base))
    for name in dict.fromkeys(part.removesuffix(UP).removesuffix(DOWN) for part in stored):
        up, down = factors_of(stored, name, np.shape(weights.get(name, ())), path)
        weights[name] = weights[name] + up @ down
    return weights


def read_stored(path: Path) -> dict[str, Array]:
    """Return the float32 arrays of a safetensors file of dikkat after comparing its checksum.

    Matrices that an export stored in eight bits are the rows of steps times their sizes. An adapter has the factors of
    what it adds to its base. Raises `MissingInputError` or `DataError`.
    """
    require_weights(path)
    stored = read_arrays(path, "F32", "I8")
    weights = {name: array for name, array in stored.items() if not name.endswith(SCALE)}
    for name, steps in weights.items():
        if steps.dtype == np.int8:
            scale = stored.get(name + SCALE)
            if scale is None or steps.ndim != 2 or scale.shape != steps.shape[:1]:
                raise DataError(
                    "{path}: damaged: {name} is in eight bits without their sizes; restore the file", path, name
                )
            weights[name] = steps * scale[:, None]
    _known[path] = None
    return weights


def factors_of(stored: Mapping[str, Array], name: str, shape: tuple[int, ...], path: Path) -> tuple[Array, Array]:
    """Return the factors (E, R) and (R, D) of an adapter's file for an array (E, D). Raises `DataError`."""
    up, down = stored.get(name + UP), stored.get(name + DOWN)
    if up is None or down is None or (up.shape, down.shape) != (shape[:1] + down.shape[:1], down.shape[:1] + shape[1:]):
        raise DataError("{path}: damaged: {name} does not fit the matrix of its base; restore the file", path, name)
    if not np.isfinite(up).all() or not np.isfinite(down).all():
        raise DataError("{where}: damaged: {name} holds values that are not finite; train again", path, name)
    return up, down


def base_of(path: Path) -> Path | None:
    """Return the file that the adapter at `path` updates, which is known to this process or where it was; else None.

    Raises `MissingInputError`, or `DataError`.
    """
    wanted = read_note(path, ADAPTS)
    if wanted is None:
        return None
    noted = Path(read_note(path, BASE) or "") / path.name
    for file in (noted, *_known):
        if file.exists() and wanted in _checksums(file):
            return file
    raise MissingInputError(
        "{adapter}: the run that it adapts is not in {base} any more; name it before --adapter {adapter}"
    ).fill(path.parent, noted.parent)


def offer_base(path: Path, adapter: Path) -> None:
    """Let the file `adapter` update the weights at `path`.

    Raises `UsageError` for an adapter of another base and for whole weights, `MissingInputError` or `DataError`.
    """
    wanted = read_note(adapter, ADAPTS)
    if wanted is None:
        raise UsageError("{adapter}: is a whole model, not an adapter; use it alone", adapter.parent)
    if wanted not in (own := _checksums(path)):
        raise UsageError(
            "{adapter}: adapts the weights {wanted}, but {base} has {own}; name the run that it was trained from"
        ).fill(adapter.parent, wanted[:8], path.parent, own[0][:8])
    _known[path] = None


def _checksums(path: Path) -> tuple[str, str | None]:
    """Return the checksum of a file of weights, and the one before it was exported in eight bits."""
    return read_checksum(path), read_note(path, EXPORTED_FROM)


def read_arrays(path: Path, *kinds: str) -> dict[str, Array]:
    """Return the arrays of a safetensors file of dikkat, all of these types of `_TYPES`, after comparing its checksum.

    Raises `MissingInputError` or `DataError`.
    """
    try:
        arrays, notes = _parse(path, kinds)
        claimed = notes.pop("sha256")
        aliases = {alias: arrays[name] for alias, name in notes["aliases"].items()}
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise _not_ours(path, error) from None
    if claimed != _digest(arrays, notes):
        raise DataError("{where}: damaged: its content does not match its checksum; restore the file", path)
    return arrays | aliases


def read_note(path: Path, name: str) -> str | None:
    """Return what was noted by a name when a safetensors file of dikkat was written, or None where nothing was.

    Raises `MissingInputError` or `DataError`.
    """
    note = _read_notes(path, lambda notes: notes["metadata"].get(name))
    return None if note is None else str(note)


def read_checksum(path: Path) -> str:
    """Return the checksum that weights were saved with, without comparing it.

    Raises `MissingInputError` or `DataError`.
    """
    require_weights(path)
    return str(_read_notes(path, lambda notes: notes["sha256"]))


def _read_notes(path: Path, part: Callable[[Any], Any]) -> Any:
    """Return `part` of the notes in the header of a file. Raises `MissingInputError` or `DataError`."""
    try:
        with open(open_regular(path, MAX_FILE_SIZE), "rb") as file:
            header, _ = read_file_header(file)
        return part(parse_json(header["__metadata__"][NOTES].encode()))
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise _not_ours(path, error) from None


def _not_ours(path: Path, error: Exception) -> DataError:
    return DataError("{where}: damaged, or not weights written by dikkat ({reason}); restore the file", path, error)


def read_file_header(file: BinaryIO) -> tuple[Any, int]:
    """Return the header of a safetensors file, and where its values begin: 8 bytes of length, JSON, the values."""
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(MAX_HEADER_SIZE, os.fstat(file.fileno()).st_size - 8):
        raise ValueError("its header does not fit into the file")
    return parse_json(file.read(length)), 8 + length


def _parse(path: Path, kinds: Sequence[str]) -> tuple[dict[str, Array], dict[str, Any]]:
    """Return arrays and notes of a safetensors file as long as its header says, mapped into memory, not copied."""
    with open(open_regular(path, MAX_FILE_SIZE), "rb") as file:
        header, begin = read_file_header(file)
        notes = parse_json(header.pop("__metadata__")[NOTES].encode())
        size = os.fstat(file.fileno()).st_size
        end = begin + max((entry["data_offsets"][1] for entry in header.values()), default=0)
        if size != end:
            raise ValueError(f"it has {size:,} bytes, but its header tells of {end:,}")
        values = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))[begin:]
    arrays = {}
    for name, entry in header.items():
        shape, (start, end) = entry["shape"], entry["data_offsets"]
        if entry["dtype"] not in kinds:
            raise ValueError(f"{name} is of type {entry['dtype']}, not {kinds[0]}")
        kind = _TYPES[entry["dtype"]]
        is_shape = all(type(size) is int and size >= 0 for size in shape)
        if not is_shape or end - start != kind.itemsize * math.prod(shape):
            raise ValueError(f"the size of {name} does not fit its shape")
        if not 0 <= start <= end <= len(values):
            raise ValueError(f"{name} lies outside the file")
        arrays[name] = np.frombuffer(values[start:end], kind).reshape(shape)
    return arrays, notes


def _digest(arrays: dict[str, Array], notes: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(notes, sort_keys=True).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, f"torch.{array.dtype}", list(array.shape)]).encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
