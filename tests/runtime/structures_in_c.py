"""Structures of ctypes against those of the C sources, by assertions that the compiler checks."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from dikkat_runtime.native import library_cache


def misplaced(
    folder: Path, source: str, name: str, structure: type[ctypes.Structure], renamed: dict[str, str]
) -> list[str]:
    """Return the parts of `structure` that differ from `name` in `source`: its own name for its size, names of fields.

    `renamed` has the names in C of fields that are called otherwise there.
    """
    if shutil.which("cc") is None:
        pytest.skip("NOT TESTED: fields of structures, without a C compiler")
    claims = [f'_Static_assert(sizeof({name}) == {ctypes.sizeof(structure)}, "<{name}>");']
    for field in structure._fields_:
        offset = getattr(structure, field[0]).offset
        in_c = renamed.get(field[0], field[0])
        claims.append(f'_Static_assert(offsetof({name}, {in_c}) == {offset}, "<{field[0]}>");')
    program = folder / "claims.c"
    program.write_text("\n".join(["#include <stddef.h>", f'#include "{library_cache.FOLDER / source}"', *claims, ""]))
    command = ["cc", "-march=native", "-fopenmp-simd", "-fsyntax-only", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    result = re.findall(r'static assertion failed: "<(\w+)>"', done.stderr)
    assert result or done.returncode == 0, done.stderr
    return result
