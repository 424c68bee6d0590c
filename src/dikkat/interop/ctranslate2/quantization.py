"""Weights of a few bits as CTranslate2 rounds them: int8 with a scale for each row, int16 with one for the matrix."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from dikkat.interop.ctranslate2.model_file import Array
from dikkat_runtime.text.foreign_json import shown

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
