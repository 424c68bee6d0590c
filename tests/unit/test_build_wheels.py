"""What is wrong with a wheel that was built for another system is told."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from tools.build_wheels import ELF_ARM, ELF_X86, TARGETS, problems

TARGET = TARGETS["manylinux-aarch64"]
NAME = "dikkat_runtime-0.1.0-py3-none-manylinux_2_17_aarch64.whl"


def wheel(path: Path, machine: bytes, levels: int = 1) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for level in range(levels):
            archive.writestr(
                f"dikkat_runtime/native/lib/kernels-{level}.so", b"\x7fELF" + bytes(14) + machine + bytes(9)
            )
    return path


def test_a_wheel_for_its_system_has_no_problem(tmp_path: Path) -> None:
    assert problems(wheel(tmp_path / NAME, ELF_ARM), TARGET) == []


@pytest.mark.parametrize(
    ("name", "machine", "levels", "said"),
    [
        (NAME, ELF_X86, 1, "is for another machine"),
        (NAME, ELF_ARM, 0, "0 libraries for the levels armv8"),
        ("dikkat_runtime-0.1.0-py3-none-any.whl", ELF_ARM, 1, "is not for manylinux_2_17_aarch64"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, name: str, machine: bytes, levels: int, said: str) -> None:
    (problem,) = problems(wheel(tmp_path / name, machine, levels), TARGET)
    assert said in problem
