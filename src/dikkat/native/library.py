"""The C kernels as a shared library: compiled on first need with the system's C compiler, cached, loaded.

Where there is no compiler, or `DIKKAT_NATIVE=0` is set, `library()` is None and PyTorch does the same work.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

# loaded first, so that the kernels share its OpenMP threads
import torch  # noqa: F401

from dikkat.native.processor import processor_flags

FOLDER = Path(__file__).parent
SOURCES, HEADERS = (tuple(sorted(FOLDER.glob(f"*.{suffix}"))) for suffix in ("c", "h"))
# compilers halve the vectors on processors that once ran slower with whole ones
WHOLE_VECTORS = ("-mprefer-vector-width=512",) if "avx512f" in processor_flags() else ()
FLAGS = (
    "-O3",
    "-march=native",
    *WHOLE_VECTORS,
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp",
    "-shared",
    "-fPIC",
)
SECONDS_TO_COMPILE = 120


@cache
def library() -> ctypes.CDLL | None:
    """The loaded kernels, compiled at the first call on this computer (some ten seconds); None where they cannot be."""
    return None if why_absent() else _load()[0]


@cache
def why_absent() -> str:
    """Why there are no native kernels, in a few words; empty where there are."""
    if os.environ.get("DIKKAT_NATIVE", "1") == "0":
        return "DIKKAT_NATIVE=0"
    return _load()[1]


@cache
def _load() -> tuple[ctypes.CDLL | None, str]:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return None, "no C compiler"
    try:
        return ctypes.CDLL(str(_compiled(compiler))), ""
    except subprocess.CalledProcessError as error:
        reason = (error.stderr or "").strip().partition("\n")[0]
        return None, f"{compiler} failed: {reason}"
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"{compiler}: {error}"


def _compiled(compiler: str) -> Path:
    """The library for these sources, compiler and processor, from the cache or made now."""
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True, timeout=30).stdout
    texts = [path.read_text(encoding="utf-8") for path in (*HEADERS, *SOURCES)]
    named = "\n".join([*texts, version, *FLAGS, *sorted(processor_flags())])
    folder = cache_folder()
    path = folder / f"kernels-{hashlib.sha256(named.encode()).hexdigest()[:16]}.so"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    # built beside and renamed: two processes at once each find a whole file
    with tempfile.TemporaryDirectory(dir=folder) as beside:
        built = Path(beside) / path.name
        build(compiler, built)
        built.replace(path)
    return path


def build(compiler: str, path: Path, *flags: str) -> None:
    """Compile the sources side by side, with `flags` behind the usual ones, and link them at `path`.

    Raises `subprocess.CalledProcessError` or `subprocess.TimeoutExpired`.
    """

    def call(*arguments: str | Path) -> None:
        command = [compiler, *FLAGS, *flags, *map(str, arguments)]
        subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS_TO_COMPILE)

    objects = [path.with_name(f"{source.stem}.o") for source in SOURCES]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda source, to: call("-c", source, "-o", to), SOURCES, objects))
    call(*objects, "-o", path, "-lm")


def cache_folder() -> Path:
    """Where compiled kernels are kept: `$XDG_CACHE_HOME/dikkat`, by default `~/.cache/dikkat`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "dikkat"
