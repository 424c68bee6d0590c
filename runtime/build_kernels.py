"""Build hook of the wheel: compiles the C kernels, which lie in the source tree of dikkat, into the package.

By default for the processor that compiles, as `pip install ./runtime` from a checkout wants it. For a wheel that is to
run elsewhere, `DIKKAT_RUNTIME_LEVELS="avx2 avx512 amx"` names instruction-set levels; the best one that the processor
has is chosen when the library is loaded. gcc's OpenMP library is put beside the kernels, since slim systems lack it.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

KERNELS = Path(__file__).resolve().parent.parent / "src" / "dikkat" / "native"
PACKAGE = Path(__file__).resolve().parent / "src" / "dikkat_runtime" / "native" / "lib"
LEVELS = {
    "native": ["-march=native"],
    "avx2": ["-march=x86-64-v3"],
    "avx512": ["-march=x86-64-v4", "-mavx512vnni"],
    "amx": ["-march=x86-64-v4", "-mavx512vnni", "-mavx512bf16", "-mamx-tile", "-mamx-int8", "-mamx-bf16"],
}
"""Options of the compiler for each level; what a level needs of a processor is told in `native/cpu.py`."""
FLAGS = ["-O3", "-fno-math-errno", "-fno-trapping-math", "-fopenmp", "-fPIC"]


class CustomBuildHook(BuildHookInterface[Any]):
    """Compile, then put the libraries into the wheel, which is one for this platform and any Python 3."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        compiler = shlex.split(os.environ.get("CC", "cc"))
        if shutil.which(compiler[0]) is None:
            raise SystemExit(
                f"dikkat-runtime: building needs a C compiler, but there is no {compiler[0]}; install gcc, or a wheel"
                " that was built elsewhere"
            )
        shutil.rmtree(PACKAGE, ignore_errors=True)
        PACKAGE.mkdir(parents=True)
        for level in os.environ.get("DIKKAT_RUNTIME_LEVELS", "native").split():
            if level not in LEVELS:
                raise SystemExit(f"dikkat-runtime: no level is called {level!r}; known: {', '.join(LEVELS)}")
            build(compiler, level, PACKAGE / f"kernels-{level}.so")
        openmp = _printed(compiler, "-print-file-name=libgomp.so.1")
        if os.path.isabs(openmp):
            shutil.copy(os.path.realpath(openmp), PACKAGE / "libgomp.so.1")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        build_data["artifacts"].append("src/dikkat_runtime/native/lib/*")


def build(compiler: list[str], level: str, path: Path) -> None:
    """Compile all kernels for one level, side by side, and link them at `path`."""
    wide = ["-mprefer-vector-width=512"] if level in ("avx512", "amx") or _has_avx512(level) else []
    flags = [*FLAGS, *LEVELS[level], *wide]
    sources = sorted(KERNELS.glob("*.c"))
    if not sources:
        raise SystemExit(f"dikkat-runtime: no kernels in {KERNELS}; build from a checkout of the repository")
    objects = [path.with_name(f"{level}-{source.stem}.o") for source in sources]

    def compile_one(source: Path, to: Path) -> None:
        _call([*compiler, *flags, "-c", str(source), "-o", str(to)])

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, sources, objects))
    rpath = "-Wl,-rpath,$ORIGIN"
    _call([*compiler, *flags, "-shared", rpath, *map(str, objects), "-o", str(path), "-lm"])
    for each in objects:
        each.unlink()


def _has_avx512(level: str) -> bool:
    if level != "native" or platform.machine() != "x86_64":
        return False
    try:
        return "avx512f" in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False


def _call(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"dikkat-runtime: {shlex.join(command)} failed:\n{done.stderr}")


def _printed(compiler: list[str], option: str) -> str:
    return subprocess.run([*compiler, option], capture_output=True, text=True, check=True).stdout.strip()
