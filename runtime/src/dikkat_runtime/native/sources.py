"""The C sources of the kernels, the options of the compiler, and the digest that names a library."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from pathlib import Path

from dikkat_runtime.native.cpu import processor_flags, processor_kind

FOLDER = Path(__file__).parent / "c"
SOURCES, HEADERS = (tuple(sorted(FOLDER.glob(f"*.{suffix}"))) for suffix in ("c", "h"))
# every compiler fuses multiplications and additions
_FLAGS = (
    "-O3",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",
    "-pthread",
    "-shared",
    "-fPIC",
)
# compilers halve the vectors on processors that once ran slower with full ones
_WHOLE_VECTORS = "-mprefer-vector-width=512"
_AVX512 = ("-march=x86-64-v4", "-mavx512vnni", _WHOLE_VECTORS)
_NATIVE = "-mcpu=native" if platform.machine() in ("aarch64", "arm64") else "-march=native"
LEVELS = {
    "native": (_NATIVE, *([_WHOLE_VECTORS] if "avx512f" in processor_flags() else [])),
    "avx2": ("-march=x86-64-v3",),
    "avx512": _AVX512,
    "amx": (*_AVX512, "-mavx512bf16", "-mamx-tile", "-mamx-int8", "-mamx-bf16"),
}
"""Options of the compiler for each level; `cpu.NEEDS` lists the processor flags of each level."""


def flags_of(level: str) -> tuple[str, ...]:
    """Return the compiler options of a level of `LEVELS`; `DIKKAT_OPENMP=0` asks for the kernels' own threads."""
    return (*_FLAGS, *LEVELS[level], *(["-DNO_OPENMP"] if os.environ.get("DIKKAT_OPENMP") == "0" else []))


@cache
def source_digest(level: str) -> str:
    """Return sixteen hexadecimal digits that depend on sources, options and, if it matters, the processor."""
    texts = [path.read_text(encoding="utf-8") for path in (*HEADERS, *SOURCES)]
    named = "\n".join([*texts, *flags_of(level), processor_kind() if level == "native" else ""])
    return hashlib.sha256(named.encode()).hexdigest()[:16]
