"""Structures and argument types with which dikkat calls the kernels."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from dikkat.native import adamw, drawn_gradient, kernels, narrow_linear, norms, quantized
from dikkat.native.calls import ARGUMENTS, native_library
from tests.runtime.structures_in_c import misplaced

from dikkat.kernels.library import library, why_absent

STRUCTURES: list[tuple[str, str, type[ctypes.Structure], dict[str, str]]] = [
    ("adamw.c", "Update", adamw._Update, {}),
    ("drawn_gradient.c", "Drawn", drawn_gradient._Drawn, {}),
    ("kernels.c", "Rotation", kernels._Rotation, {}),
    ("attention.h", "Attention", kernels._Attention, {}),
    ("attention.h", "Gradients", kernels._Gradients, {}),
    ("kernels.c", "Turning", kernels._Turning, {}),
    ("narrow_linear.c", "NarrowLinear", narrow_linear._NarrowLinear, {}),
    ("narrow_linear.c", "LinearGradients", narrow_linear._Gradients, {}),
    ("norms.c", "Normalization", norms._Normalization, {}),
    ("byte_rows.h", "Packing", quantized._Packing, {"source": "from"}),
    ("byte_gradient.c", "Backward", quantized._Backward, {}),
    ("quantized.h", "Finish", quantized._Finish, {}),
]


@pytest.mark.parametrize(("source", "name", "structure", "renamed"), STRUCTURES, ids=lambda each: str(each)[:20])
def test_every_field_lies_where_c_has_it(
    tmp_path: Path, source: str, name: str, structure: type[ctypes.Structure], renamed: dict[str, str]
) -> None:
    assert misplaced(tmp_path, source, name, structure, renamed) == []


@pytest.mark.skipif(library() is None, reason=f"no native kernels: {why_absent()}")
@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_call_with_wrong_arguments_never_gets_to_c(name: str) -> None:
    function = getattr(native_library(), name)
    assert len(function.argtypes) >= 1
    with pytest.raises((ctypes.ArgumentError, TypeError)):
        function(*[object()] * len(function.argtypes))
