"""Build hook of the wheel: compiles the C kernels into the package.

By default for the processor that compiles, as `pip install ./runtime` from a checkout wants it. For a wheel that is to
run elsewhere, `DIKKAT_RUNTIME_LEVELS="avx2 avx512 amx"` names instruction-set levels; the best one that the processor
has is chosen when the library is loaded. Where CC compiles for another system, `DIKKAT_RUNTIME_PLATFORM` is the tag of
the wheel. gcc's OpenMP library is put beside the kernels, since slim systems lack it.
Where that fails, for want of a compiler for example, the package is made without kernels, unless levels are named.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# whoever builds it may have another Python: pip builds before it compares
if sys.version_info < (3, 11):  # noqa: UP036
    raise SystemExit(f"dikkat-runtime needs Python 3.11 or newer, not {platform.python_version()}")

SOURCES = Path(__file__).resolve().parent / "src"
sys.path.insert(0, str(SOURCES))
from dikkat_runtime.native.first_use import CompileError, CompileTimeoutError, build, openmp_flags  # noqa: E402
from dikkat_runtime.native.library import library_path  # noqa: E402
from dikkat_runtime.native.library_cache import LEVELS  # noqa: E402

IN_PACKAGE = Path("dikkat_runtime", "native", "lib")
SECONDS = 3600.0


class CustomBuildHook(BuildHookInterface[Any]):
    """Compile, then put the libraries into the wheel, which is one for this platform and any Python 3."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        named = os.environ.get("DIKKAT_RUNTIME_LEVELS", "")
        foreign = os.environ.get("DIKKAT_RUNTIME_PLATFORM", "")
        unknown = [level for level in named.split() if level not in LEVELS]
        if unknown:
            raise SystemExit(f"dikkat-runtime: no level is called {unknown[0]!r}; known: {', '.join(LEVELS)}")
        compiler = shlex.split(os.environ.get("CC") or "cc")
        self._folder = Path(tempfile.mkdtemp())
        try:
            for level in named.split() or ["native"]:
                build(compiler, library_path(self._folder, level), "-Wl,-rpath,$ORIGIN", level=level, seconds=SECONDS)
        except (OSError, CompileError, CompileTimeoutError) as error:
            failure = f"{shlex.join(compiler)} cannot compile the C kernels: {error}"
            if named:
                raise SystemExit(f"dikkat-runtime: {failure}") from None
            self.app.display_warning(f"{failure}; dikkat-runtime is installed without them")
            return
        for leftover in self._folder.glob("*.o"):
            leftover.unlink()
        if openmp_flags(compiler, SECONDS):
            openmp = _printed(compiler, "-print-file-name=libgomp.so.1")
            shutil.copy(os.path.realpath(openmp), self._folder / "libgomp.so.1")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{foreign or (_platform_tag(self._folder) if named else _this_platform())}"
        if version == "editable":
            # such an installation runs from the sources, and so do its libraries
            beside = SOURCES / IN_PACKAGE
            shutil.rmtree(beside, ignore_errors=True)
            shutil.copytree(self._folder, beside)
        else:
            build_data["force_include"] |= {str(path): str(IN_PACKAGE / path.name) for path in self._folder.iterdir()}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def _this_platform() -> str:
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")


def _platform_tag(folder: Path) -> str:
    """`manylinux_2_NN_MACHINE` (PEP 600) for the newest glibc that the libraries need; they need nothing else.

    Where they need more than glibc, or the system is another one, the tag names this system alone.
    """
    allowed = re.compile(rb"lib(?:c|m|pthread|dl|rt)\.so\.\d+|ld-linux-[\w-]+\.so\.\d+")
    minors = [0]
    for path in folder.iterdir():
        content = path.read_bytes()
        needed = set(re.findall(rb"(?<![\w./-])[\w-]+\.so\.\d+(?![\w.])", content)) - {b"libgomp.so.1"}
        if not all(map(allowed.fullmatch, needed)):
            return _this_platform()
        minors += map(int, re.findall(rb"GLIBC_2\.(\d+)", content))
    return f"manylinux_2_{max(minors)}_{platform.machine()}" if platform.libc_ver()[0] == "glibc" else _this_platform()


def _printed(compiler: list[str], option: str) -> str:
    return subprocess.run([*compiler, option], capture_output=True, text=True, check=True).stdout.strip()
