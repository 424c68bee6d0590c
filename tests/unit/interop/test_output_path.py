"""Where an export may be written: the folder that one is in, names of any length, and what is told before the work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dikkat.interop.parity import whole_folder
from dikkat_runtime.cli.main import run
from dikkat_runtime.errors import CannotCreateError

MAX_LENGTH = "n" * 255


@pytest.mark.parametrize("name", [".", "new", "above/new", MAX_LENGTH])
def test_the_folder_holds_all_and_nothing_else(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    before = os.stat(".").st_ino
    with whole_folder(Path(name)) as draft:
        (draft / "inner").mkdir()
        (draft / "inner" / "file").write_text("content")
        (draft / "readme").write_text("more")
    assert (Path(name) / "inner" / "file").read_text() == "content"
    assert sorted(path.name for path in Path(name).iterdir()) == ["inner", "readme"]
    # a shell that is in it sees what was written
    assert here.stat().st_ino == before
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


def test_a_folder_that_was_filled_meanwhile_keeps_what_it_holds(tmp_path: Path) -> None:
    def fill() -> None:
        with whole_folder(tmp_path) as draft:
            (draft / "file").write_text("ours")
            (tmp_path / "file").write_text("theirs")

    with pytest.raises(CannotCreateError, match="is not an empty folder"):
        fill()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("file", "theirs")]


@pytest.mark.parametrize("to", ["web", "huggingface", "ctranslate2", "argos", "onnx", "marian"])
def test_a_place_that_cannot_be_is_told_before_the_work(
    to: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    (tmp_path / "file").write_text("content")
    places = {
        tmp_path / (MAX_LENGTH + ".argosmodel"): "File name too long",
        tmp_path / "file" / "out": "Not a directory",
        tmp_path / "file": "exists already" if to == "argos" else "is not an empty folder",
    }
    for out, told in places.items():
        assert run(["export", str(tmp_path / "no-run"), "--to", to, "--out", str(out)]) == 73
        complaint = capsys.readouterr().err
        assert complaint.count("\n") == 1
        assert complaint.startswith(f"dikkat: {out}: ")
        assert told in complaint
