"""The tests of the kernels once more, with kernels of another compiler, and with threads of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.python_path import without_library
from tests.unit.kernels.test_lesser_processors import FOLDER, TESTS

FILES = [str(FOLDER / f"test_{name}.py") for name in (*TESTS, "layer_norm", "adamw")]


@pytest.mark.nightly
@pytest.mark.parametrize("variables", [{"CC": "clang-14"}, {"DIKKAT_OPENMP": "0"}], ids=["clang", "without OpenMP"])
def test_kernels_hold_as_others_compile_them(tmp_path: Path, variables: dict[str, str]) -> None:
    compiler = variables.get("CC", "cc")
    if shutil.which(compiler) is None:
        pytest.skip(f"NOT TESTED: kernels of {compiler}: apt-get install {compiler}")
    own = {"XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": without_library(tmp_path / "sources")}
    environment = {**os.environ, **variables, **own, "DIKKAT_COMPILE_SECONDS": "1800"}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", "not processors_that_lack"]
    done = subprocess.run([*command, *FILES], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert list(tmp_path.glob("dikkat/kernels-*.so")), "the kernels were compiled by that compiler"
