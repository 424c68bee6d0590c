"""Write the rows of a matrix in eight bits, as the native engine packs them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dikkat_runtime.native.arrays import Array

MAX_VALUE = 127
FINE_STEPS = 254
"""Parts that a step is divided into where a matrix also embeds tokens: the native engine embeds in float32, and in int8
every difference may move a rounding further on."""


class QuantizedMatrix(NamedTuple):
    """Hold a matrix (outputs, inputs) in steps, and the size of a step of each row."""

    steps: Array
    """(outputs, inputs), int8."""
    scale: Array
    """(outputs,), float32."""
    fine: Array
    """(outputs, inputs), int8: what is left of each entry, in parts of a step."""


def quantize_rows(matrix: Array) -> QuantizedMatrix:
    """Quantize each row of `matrix` by its largest magnitude over 127, rounding halves to even.

    The arithmetic is that of `signed_row` in native/c/byte_packing.h, number by number, so both find the same bytes.
    """
    scale = np.abs(matrix).max(axis=1).astype(np.float32) / np.float32(MAX_VALUE)
    share = np.divide(1, scale, out=np.zeros_like(scale), where=scale > np.finfo(np.float32).tiny)
    steps = np.rint(matrix * share[:, None])
    exact = np.divide(matrix, scale[:, None], out=np.zeros(matrix.shape), where=share[:, None] > 0)
    fine = np.rint((exact - steps) * FINE_STEPS).clip(-FINE_STEPS // 2, FINE_STEPS // 2)
    return QuantizedMatrix(steps.astype(np.int8), scale, fine.astype(np.int8))
