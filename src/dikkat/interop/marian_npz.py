"""Read the `.npz` file of a Marian model: a zip of numpy arrays. Nothing in it is ever unpickled."""

import math
import zipfile
from pathlib import Path
from typing import IO

import numpy as np
import torch
from torch import Tensor

from dikkat_runtime.errors import DataError
from dikkat_runtime.text.foreign_json import require_regular, shown

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
OPTIONS = "special:model.yml"
_MAX_GROWTH = 4
"""An honest file is stored as it is; one that is so many times larger unpacked is an attack."""
_MAX_ARRAYS = 1 << 14


def read_npz(path: Path) -> tuple[dict[str, Tensor], bytes]:
    """Return the weights by their names, and the options of the model.

    Raises `MissingInputError`, or `DataError` for a damaged file, a pickle in it, or one without options.
    """
    require_regular(path)
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            size = sum(entry.file_size for entry in entries)
            if len(entries) > _MAX_ARRAYS or size > _MAX_GROWTH * path.stat().st_size:
                raise DataError("{path}: not a Marian model: it unpacks to many times its size", path)
            for entry in entries:
                with archive.open(entry) as member:
                    _check_size(member, entry)
        with np.load(path, allow_pickle=False) as arrays:
            weights = {name: arrays[name] for name in arrays.files}
    except DataError:
        raise
    # numpy and zipfile raise whatever a damaged header leads to
    except Exception as error:
        raise DataError("{path}: not a readable .npz file ({error})", path, shown(str(error))) from None
    options = weights.pop(OPTIONS, None)
    if not isinstance(options, np.ndarray) or options.dtype.itemsize != 1:
        raise DataError("{path}: not a Marian model: it has no {options}", path, OPTIONS)
    for name, array in weights.items():
        # of what is not an array numpy returns the bytes
        kind = array.dtype if isinstance(array, np.ndarray) else "bytes"
        if kind != np.float32:
            raise DataError("{path}: the weight {name} is of the type {kind}, not float32", path, shown(name), kind)
    return {name: torch.from_numpy(array) for name, array in weights.items()}, options.tobytes()


def _check_size(member: IO[bytes], entry: zipfile.ZipInfo) -> None:
    """Raise `ValueError` for an array that claims other bytes than there are: numpy takes memory for all at once."""
    shape, _, kind = _HEADERS[np.lib.format.read_magic(member)](member)
    if math.prod(shape) * kind.itemsize != entry.file_size - member.tell():
        raise ValueError(f"{entry.filename} claims a shape of {shape} that does not fit its size")
