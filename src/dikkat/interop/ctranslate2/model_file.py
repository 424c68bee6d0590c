"""Read `model.bin` of CTranslate2, versions 3 to 6, and write version 6.

Little-endian: the version, the name of the specification (its length in 2 bytes, with a zero at its end), its revision,
and how many variables; for each its name, its rank, its sizes, its type, the length of its data, and the data. Then how
many aliases, each the name of one and of the variable that it stands for. Version 3 has the size of a number in the
place of its type, and how many numbers there are in that of their length.
"""

import io
import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dikkat_runtime.errors import DataError
from dikkat_runtime.text.foreign_json import read_regular, shown

VERSION, REVISION = 6, 7
OLDEST_VERSION, OLDEST_REVISION = 3, 3
_WITH_TYPES = 4
"""The version since which a variable has a type."""
_TYPE_OF_SIZE = {4: 0, 1: 1, 2: 2}
"""The type of a number of so many bytes before."""
SPECIFICATION = "TransformerSpec"
Array = NDArray[Any]
_MAX_SIZE = 1 << 34
_MAX_VARIABLES = 1 << 16
_MAX_SIZES = 4
_MAX_BEGINNING_LENGTH = 64
_TYPES = ("<f4", "i1", "<i2", "<i4", "<f2", "<u2")
"""Types by their numbers in the file; the last, bfloat16, is the upper half of a float32."""
_BFLOAT16 = 5


@dataclass(frozen=True, slots=True)
class ModelFile:
    """Hold the variables of a model file."""

    variables: Mapping[str, Array]
    """Numbers by name, those without sizes are settings; bfloat16 has become float32."""
    aliases: Mapping[str, str]
    """Names that stand for a variable of another name."""
    version: int = VERSION
    """That of the format, of which `OLDEST_VERSION` is the first that is read."""
    revision: int = REVISION
    """That of the names of variables."""


class ByteReader:
    """Read numbers and parts of a file from its beginning on; raises `ValueError` where it is cut short."""

    def __init__(self, content: bytes) -> None:
        self.content, self.at = memoryview(content), 0

    def part(self, size: int) -> memoryview:
        if self.at + size > len(self.content):
            raise ValueError("it is cut short")
        self.at += size
        return self.content[self.at - size : self.at]

    def number(self, kind: str) -> int:
        """Return the next whole number, of a kind of `struct`."""
        (value,) = struct.unpack(f"<{kind}", self.part(struct.calcsize(f"<{kind}")))
        return int(value)

    def name(self) -> str:
        """Return the next name, which has its length before it and a zero after it."""
        raw = bytes(self.part(self.number("H")))
        if not raw.endswith(b"\0") or len(raw) < 2:
            raise ValueError("a name without its end")
        return raw[:-1].decode("utf-8")


def begins_as_model(path: Path) -> bool:
    """Return whether a file begins with a version and the name of a specification, of whatever kind of model."""
    try:
        with path.open("rb") as file:
            beginning = file.read(_MAX_BEGINNING_LENGTH)
    except OSError:
        return False
    return b"Spec\0" in beginning[6:]


def read_model_file(path: Path) -> ModelFile:
    """Return the variables of the Transformer in a file.

    Raises `MissingInputError`, or `DataError` for a damaged file, another version, or a model of another kind.
    """
    content = read_regular(path, _MAX_SIZE)
    try:
        return _parsed(ByteReader(content))
    except (ValueError, struct.error) as error:
        raise DataError("{path}: not a readable CTranslate2 model ({error})", path, shown(str(error))) from None


def _parsed(reader: ByteReader) -> ModelFile:
    if not OLDEST_VERSION <= (version := reader.number("I")) <= VERSION:
        raise ValueError(
            f"version {version} of the format, where versions {OLDEST_VERSION} to {VERSION} are read; convert it anew"
        )
    if (kind := reader.name()) != SPECIFICATION:
        raise ValueError(f"a model of the kind {kind}, where {SPECIFICATION} is read")
    if not OLDEST_REVISION <= (revision := reader.number("I")) <= REVISION:
        raise ValueError(
            f"revision {revision} of {kind}, where revisions {OLDEST_REVISION} to {REVISION} are read; convert it anew"
        )
    variables: dict[str, Array] = {}
    for _ in range(_counted(reader)):
        name = reader.name()
        if name in variables:
            raise ValueError(f"the variable {name} is there twice")
        variables[name] = _variable(reader, name, version)
    aliases: dict[str, str] = {}
    for _ in range(_counted(reader)):
        alias, name = reader.name(), reader.name()
        if alias in variables or alias in aliases or name not in variables:
            raise ValueError(f"the alias {alias} of {name} stands for nothing, or is there twice")
        aliases[alias] = name
    if reader.at != len(reader.content):
        raise ValueError(f"it has {len(reader.content) - reader.at:,} bytes after its end")
    return ModelFile(variables, aliases, version, revision)


def _counted(reader: ByteReader) -> int:
    if (count := reader.number("I")) > _MAX_VARIABLES:
        raise ValueError(f"it has {count:,} variables")
    return count


def _variable(reader: ByteReader, name: str, version: int) -> Array:
    rank = reader.number("B")
    if rank > _MAX_SIZES:
        raise ValueError(f"the variable {name} has {rank} sizes")
    shape = [reader.number("I") for _ in range(rank)]
    kind, size = reader.number("B"), reader.number("I")
    if version < _WITH_TYPES:
        size, kind = size * kind, _TYPE_OF_SIZE.get(kind, len(_TYPES))
    if kind >= len(_TYPES):
        raise ValueError(f"the variable {name} is of the type {kind}, which is not known")
    if size != math.prod(shape) * np.dtype(_TYPES[kind]).itemsize:
        raise ValueError(f"the variable {name} has {size:,} bytes, which do not fit its sizes")
    numbers = np.frombuffer(reader.part(size), _TYPES[kind]).reshape(shape)
    return (numbers.astype("<u4") << 16).view("<f4") if kind == _BFLOAT16 else numbers


def model_file_bytes(model: ModelFile) -> bytes:
    """Return the content of a file with these variables, in the order of their names, as CTranslate2 writes it."""
    out = io.BytesIO()
    out.write(struct.pack("<I", VERSION) + _named(SPECIFICATION) + struct.pack("<II", REVISION, len(model.variables)))
    for name, array in sorted(model.variables.items()):
        kind = _TYPES.index(array.dtype.newbyteorder("<").str.replace("|", ""))
        out.write(_named(name) + struct.pack("<B", array.ndim))
        out.write(struct.pack(f"<{array.ndim}I", *array.shape) + struct.pack("<BI", kind, array.nbytes))
        out.write(np.ascontiguousarray(array).tobytes())
    out.write(struct.pack("<I", len(model.aliases)))
    for alias, name in sorted(model.aliases.items()):
        out.write(_named(alias) + _named(name))
    return out.getvalue()


def _named(name: str) -> bytes:
    raw = name.encode() + b"\0"
    return struct.pack("<H", len(raw)) + raw


# Weights of a few bits as CTranslate2 rounds them: int8 with a scale for each row, int16 with one for the matrix.

SCALE = "_scale"
"""Ends the name of the scale of a matrix."""
_ROUNDED = re.compile(r".*/(?:linear_\d+(?:_noact)?|embeddings(?:_0)?|projection)/weight")
_MAX_VALUE = 127


def quantized(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays with every embedding and every matrix of a linear layer in int8, and their scales (rows,).

    A row is rounded to q = round(w * s) with s = 127 / max |w|.
    """
    rounded: dict[str, Array] = {}
    for name, array in arrays.items():
        rounded[name] = array
        if _ROUNDED.fullmatch(name):
            largest = np.abs(array).max(axis=1)
            # a row of zeros has no largest entry, and one far below float32's usual range no finite scale
            tiny = np.float32(_MAX_VALUE) / np.finfo(np.float32).max
            scale = (_MAX_VALUE / np.where(largest == 0, _MAX_VALUE, np.maximum(largest, tiny))).astype(np.float32)
            rounded |= {name: np.rint(array * scale[:, None]).astype(np.int8), name + SCALE: scale}
    return rounded


def restored(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Return the arrays in float32, without their scales: w = q / s.

    Raises `ValueError` for whole numbers without a scale that fits them, and for a scale of nothing.
    """
    whole: dict[str, Array] = {}
    for name, array in arrays.items():
        if name.endswith(SCALE) and name.removesuffix(SCALE) in arrays:
            continue
        if array.dtype.kind == "f":
            whole[name] = array.astype(np.float32)
            continue
        scale = arrays.get(name + SCALE)
        if array.dtype not in (np.int8, np.int16) or array.ndim != 2 or scale is None or scale.dtype.kind != "f":
            raise ValueError(f"the weight {shown(name)} is of the type {array.dtype}, without a scale that fits it")
        if scale.shape not in ((), (1,), (len(array),)) or not (np.isfinite(scale) & (scale > 0)).all():
            raise ValueError(f"the scale of {shown(name)} does not fit it")
        whole[name] = array.astype(np.float32) / scale.astype(np.float32).reshape(-1, 1)
    return whole
