"""The tests of the kernels once more, with kernels as they are compiled for processors with shorter registers."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.python_path import without_library

from dikkat_runtime.native.cpu import processor_flags

FOLDER = Path(__file__).parent
TESTS = (
    "attention",
    "sampled_gradient",
    "small_linear",
    "int8_products",
    "newton_schulz",
)
LACKING = "processors_that_lack_instructions"
"""A test that compiles the kernels without byte products, and without tiles; it compares two alike where neither is."""


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("architecture", "flag"),
    [
        pytest.param("-march=x86-64-v2", "sse4_2", id="four lanes"),
        pytest.param("-march=x86-64-v3", "avx2", id="eight lanes"),
        pytest.param("-march=x86-64-v3 -mavxvnni", "avx_vnni", id="eight lanes and byte products"),
    ],
)
def test_kernels_hold_in_shorter_registers(tmp_path: Path, architecture: str, flag: str) -> None:
    flags = processor_flags()
    if platform.machine() != "x86_64" or flag not in flags:
        pytest.skip(f"needs a processor with {flag}")
    most = next((known for known in ("avx512f", "avx_vnni", "avx2", "sse4_2") if known in flags), "")
    if flag == most:
        pytest.skip(f"kernels are compiled for {flag} on this processor anyway")
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        pytest.skip("needs a C compiler: apt-get install gcc")
    wrapper = tmp_path / "cc"
    # the widths and the products are chosen by the sources; how long the compiler searches for speed changes neither
    wrapper.write_text(f'#!/bin/sh\nexec {compiler} "$@" {architecture} -O1\n')
    wrapper.chmod(0o755)
    if subprocess.run([wrapper, "-E", "-x", "c", os.devnull], capture_output=True, check=False).returncode:
        pytest.skip(f"{compiler} does not know {architecture}")
    files = [str(FOLDER / f"test_{name}.py") for name in TESTS]
    tests = f"not ({LACKING} and tiles)" if flag == "avx_vnni" else f"not {LACKING}"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", tests, *files]
    own = {"CC": str(wrapper), "XDG_CACHE_HOME": str(tmp_path), "PYTHONPATH": without_library(tmp_path / "sources")}
    result = subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-4000:]
    assert LACKING in (FOLDER / "test_int8_products.py").read_text(encoding="utf-8"), "it has another name now"
    assert list(tmp_path.glob("dikkat/kernels-*.so")), "the kernels were compiled by the wrapper"
