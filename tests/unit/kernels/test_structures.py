"""Structures and argument types with which dikkat calls the kernels."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from tests.runtime.structures_in_c import misplaced

from dikkat.kernels import adamw, attention, cross_entropy, int8_products, layer_norm, linear, rotary
from dikkat.kernels.calls import ARGUMENTS, native_library
from dikkat.kernels.library import library, why_absent
from dikkat.training import optimizer

STRUCTURES: list[tuple[str, str, type[ctypes.Structure], dict[str, str]]] = [
    ("adamw.c", "Update", adamw._Update, {}),
    ("orthogonal.c", "Muon", optimizer._Muon, {}),
    ("sampled_gradient.c", "SampledGradient", cross_entropy._SampledStruct, {}),
    ("kernels.c", "Rotating", rotary._Rotating, {}),
    ("attention.h", "Gradients", attention._Gradients, {}),
    ("small_linear.c", "SmallLinear", linear._SmallLinearStruct, {}),
    ("small_linear.c", "LinearGradients", linear._Gradients, {}),
    ("norms.c", "Normalization", layer_norm._Normalization, {}),
    ("byte_gradient.c", "Backward", int8_products._Backward, {}),
    ("byte_parts.h", "Epilogue", int8_products._Epilogue, {}),
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
