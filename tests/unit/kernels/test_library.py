"""What dikkat does where the kernels of dikkat-runtime cannot be had."""

from __future__ import annotations

import pytest

from dikkat.kernels import library
from dikkat_runtime import notices
from dikkat_runtime.errors import AbsentError
from dikkat_runtime.native import library as kernels


class Notes(list[str]):
    def compiling(self, done: int, total: int) -> None: ...

    def stopped_compiling(self) -> None: ...

    def note(self, text: str) -> None:
        self.append(text)


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Notes:
    def absent() -> None:
        raise AbsentError("no C compiler", "install one, for example gcc")

    notes = Notes()
    monkeypatch.setattr(notices, "_listeners", [notes])
    monkeypatch.setattr(kernels, "library", absent)
    return notes


def test_absent_kernels_are_told_in_one_line(notes: Notes) -> None:
    assert library._load.__wrapped__() == (None, "no C compiler")
    assert notes == [
        "PyTorch computes, more slowly than the native kernels would: no C compiler; install one, for example gcc"
    ]


def test_switched_off_is_not_told(notes: Notes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIKKAT_NATIVE", "0")
    assert library.why_absent.__wrapped__() == "DIKKAT_NATIVE=0"
    assert notes == []
