"""The kernels as other processors and compilers have them, called from C: the same numbers as here.

`native_driver.c` prints what they find. Packages of Debian: gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from dikkat_runtime.errors import AbsentError
from dikkat_runtime.native.library import library
from dikkat_runtime.native.library_cache import FOLDER, SOURCES

DRIVER = Path(__file__).parent / "native_driver.c"
FLAGS = ("-O1", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd", "-pthread")
CLOSE = 3e-6
"""Of the largest number of a result."""

Results = dict[str, tuple[str, list[str]]]


def compiled(compiler: str, *words: str | Path) -> None:
    done = subprocess.run([compiler, *FLAGS, f"-I{FOLDER}", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def results(command: Sequence[str | Path]) -> Results:
    """Return for each name whether its numbers must be exact or close, and the numbers, as the driver prints them."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
    result: Results = {}
    for line in done.stdout.split("\n")[:-1]:
        kind = " exact " if " exact " in line else " close "
        name, _, numbers = line.partition(kind)
        result[name] = (kind.strip(), numbers.split(" "))
    return result


def differing(result: Results, wanted: Results, *, exactly: bool = False) -> list[str]:
    """Names of results that are not the same, or where they may be, not close."""
    assert result.keys() == wanted.keys()
    names = []
    for name, (kind, numbers) in wanted.items():
        if exactly or kind == "exact":
            equal = result[name][1] == numbers
        else:
            ours, theirs = [[float(number) for number in item] for item in (result[name][1], numbers)]
            bound = CLOSE * max(map(abs, theirs))
            equal = all(abs(a - b) <= bound for a, b in zip(ours, theirs, strict=True))
        if not equal:
            names.append(name)
    return names


@pytest.fixture(scope="module")
def driver() -> Path:
    """The object file of the driver is not for every compiler; its source is."""
    if shutil.which("cc") is None:
        pytest.skip("NOT TESTED: the kernels from C, without a C compiler")
    return DRIVER


@pytest.fixture(scope="module")
def here(driver: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Return the results of the kernels of this installation."""
    try:
        kernels = os.path.realpath(library()[0]._name)
    except AbsentError as error:
        pytest.skip(str(error))
    program = tmp_path_factory.mktemp("here") / "driver"
    compiled("cc", "-march=native", driver, kernels, f"-Wl,-rpath,{Path(kernels).parent}", "-o", program, "-lm")
    result = results([program])
    assert len(result) == 15
    return result


def test_threads_of_our_own_find_the_same_bits_as_those_of_openmp(driver: Path, here: Results, tmp_path: Path) -> None:
    """A program's own `share_out` goes before that of the library."""
    kernels, program = os.path.realpath(library()[0]._name), tmp_path / "driver"
    threads = FOLDER / "threads.c"
    rpath = f"-Wl,-rpath,{Path(kernels).parent}"
    compiled("cc", "-march=native", "-DNO_OPENMP", driver, threads, kernels, rpath, "-o", program, "-lm")
    assert differing(results([program]), here, exactly=True) == []


@pytest.mark.qemu
@pytest.mark.slow
def test_arm_finds_the_same(driver: Path, here: Results, tmp_path: Path) -> None:
    compiler, emulator = "aarch64-linux-gnu-gcc", "qemu-aarch64"
    for item in (compiler, emulator):
        if shutil.which(item) is None:
            pytest.skip(f"NOT TESTED: kernels on aarch64, without {item}")
    sources = [source for source in SOURCES if source.name != "encoder.c"]
    compiled(compiler, "-static", driver, *sources, "-o", tmp_path / "driver", "-lm")
    assert differing(results([emulator, tmp_path / "driver"]), here) == []


def test_differences_are_seen() -> None:
    wanted: Results = {"a": ("exact", ["1", "2"]), "b": ("close", ["1", "-2"])}
    assert differing({"a": ("exact", ["1", "2"]), "b": ("close", ["1.000001", "-2"])}, wanted) == []
    assert differing({"a": ("exact", ["1", "2.1"]), "b": ("close", ["1", "-2.001"])}, wanted) == ["a", "b"]
    assert differing({"a": ("exact", ["1", "2"]), "b": ("close", ["1.000001", "-2"])}, wanted, exactly=True) == ["b"]
