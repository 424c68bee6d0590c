"""A wheel for several kinds of processors, in an environment of its own where there is no compiler."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.runtime.runs import SENTENCES, translator_run

from dikkat_runtime.native.cpu import levels

RUNTIME = Path(__file__).resolve().parents[2] / "runtime"


def ran(command: list[str | Path], variables: dict[str, str]) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    done = subprocess.run(
        list(map(str, command)), env=environment, capture_output=True, text=True, check=False, cwd=RUNTIME.parent
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.nightly
def test_a_wheel_translates_the_same_at_every_level_without_a_compiler(tmp_path: Path) -> None:
    pip: list[str | Path] = [sys.executable, "-m", "pip"]
    named = {"DIKKAT_RUNTIME_LEVELS": "avx2 avx512 amx"}
    ran([*pip, "wheel", "-q", "--no-deps", "-w", tmp_path, RUNTIME], named)
    (wheel,) = tmp_path.glob("dikkat_runtime-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        kernels = sorted(name for name in archive.namelist() if name.endswith(".so"))
    assert [name.rpartition("/")[2].split("-")[1] for name in kernels] == ["amx", "avx2", "avx512"]
    home, run = tmp_path / "home", translator_run(tmp_path / "run")
    ran([sys.executable, "-m", "venv", home], {})
    ran([home / "bin" / "pip", "install", "-q", "-c", RUNTIME.parent / "constraints.txt", wheel], {})
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"{sentence}\n" for sentence in SENTENCES), encoding="utf-8")
    slim = {"PATH": str(home / "bin"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for precision in ("float32", "int8"):
        command: list[str | Path] = [home / "bin" / "dikkat-runtime", "translate", run, lines, "--precision", precision]
        texts = {level: ran(command, {**slim, "DIKKAT_NATIVE_LEVEL": level}) for level in levels()}
        assert texts["avx2"].count("\n") == len(SENTENCES)
        assert len(set(texts.values())) == 1, precision
    assert not (tmp_path / "cache").exists(), "nothing was compiled"
