"""A wheel for several kinds of processors, in an environment of its own where there is no compiler."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.python_path import PYTHON_PATH
from tests.runtime.runs import SENTENCES, classifier_run, language_model_run, translator_run

from dikkat_runtime.native.cpu import levels
from dikkat_runtime.native.library_cache import LEVELS

RUNTIME = Path(__file__).resolve().parents[2] / "runtime"


def ran(command: list[str | Path], variables: dict[str, str]) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    done = subprocess.run(
        list(map(str, command)), env=environment, capture_output=True, text=True, check=False, cwd=RUNTIME.parent
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def installed_bytes(home: Path) -> int:
    """Return the bytes of all packages beyond those of a new environment, without bytecode."""
    (packages,) = home.glob("lib/python*/site-packages")
    own = ("pip", "setuptools", "pkg_resources", "_distutils_hack", "distutils-precedence")
    kept = [path for path in packages.iterdir() if not path.name.startswith(own)]
    files = [file for path in kept for file in ([path] if path.is_file() else path.rglob("*")) if file.suffix != ".pyc"]
    return sum(file.stat().st_size for file in files if file.is_file())


def are_alike(one: str, other: str, has_vectors: bool) -> bool:
    """Return whether two outputs are equal; compilers order sums differently, so last bits of vectors may differ."""
    if not has_vectors:
        return one == other
    rows, others = ([line.split("\t") for line in text.split("\n")[:-1]] for text in (one, other))
    if [text for text, _ in rows] != [text for text, _ in others]:
        return False
    vectors, more = (np.array([vector.split() for _, vector in item], float) for item in (rows, others))
    return vectors.shape == more.shape and np.allclose(vectors, more, rtol=0, atol=1e-5)


@pytest.mark.nightly
def test_a_wheel_answers_as_a_checkout_does_at_every_level_without_a_compiler(tmp_path: Path) -> None:
    pip: list[str | Path] = [sys.executable, "-m", "pip"]
    named = {"DIKKAT_RUNTIME_LEVELS": "avx2 avx512 amx"}
    ran([*pip, "wheel", "-q", "--no-deps", "-w", tmp_path, RUNTIME], named)
    (wheel,) = tmp_path.glob("dikkat_runtime-*.whl")
    # the newest glibc that gcc's OpenMP library asks for decides
    assert re.search(rf"-py3-none-manylinux_2_\d\d_{platform.machine()}\.whl$", wheel.name)
    with zipfile.ZipFile(wheel) as archive:
        kernels = sorted(name for name in archive.namelist() if name.endswith(".so"))
    assert [name.rpartition("/")[2].split("-")[1] for name in kernels] == ["amx", "avx2", "avx512"]
    home = tmp_path / "home"
    ran([sys.executable, "-m", "venv", home], {})
    ran([home / "bin" / "pip", "install", "-q", "-c", RUNTIME.parent / "constraints.txt", wheel], {})
    assert installed_bytes(home) <= 100e6
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"{sentence}\n" for sentence in SENTENCES), encoding="utf-8")
    translator, classifier = translator_run(tmp_path / "run"), classifier_run(tmp_path / "classifier")
    model = language_model_run(tmp_path / "lm")
    slim = {"PATH": str(home / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    commands: list[list[str | Path]] = [
        ["translate", translator, lines],
        ["translate", translator, lines, "--precision", "int8"],
        ["classify", classifier, lines],
        ["embed", translator, lines],
        ["generate", model, "The", "--max-tokens", "5", "--greedy"],
    ]
    for command in commands:
        here = ran([sys.executable, "-m", "dikkat_runtime", *command], {"PYTHONPATH": PYTHON_PATH})
        program: list[str | Path] = [home / "bin" / "dikkat-runtime", *command]
        texts = {level: ran(program, {**slim, "DIKKAT_NATIVE_LEVEL": level}) for level in levels()}
        assert texts.keys() == set(levels())
        assert all(are_alike(text, here, command[0] == "embed") for text in texts.values()), command
    assert not (tmp_path / "cache").exists(), "nothing was compiled"
    without = subprocess.run(
        [home / "bin" / "python", "-c", "import torch"], env=slim, capture_output=True, check=False
    )
    assert b"No module named 'torch'" in without.stderr
    lacking = [level for level in LEVELS if level not in ("native", *levels())]
    for level in lacking:
        chosen = {**slim, "DIKKAT_NATIVE_LEVEL": level}
        asked = [home / "bin" / "dikkat-runtime", *commands[0]]
        done = subprocess.run(asked, env=chosen, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert f"DIKKAT_NATIVE_LEVEL={level}: this processor can run native" in done.stderr
