"""`dikkat translate --out` and `dikkat-runtime translate --out` on documents."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.command_lines import run_without_dikkat as run_runtime
from tests.runtime.runs import translator_run
from tests.system.toy import one_line
from tests.unit.documents import samples


@pytest.fixture(scope="module")
def random_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return translator_run(tmp_path_factory.mktemp("run") / "run")


def test_both_commands_translate_a_document(dikkat: object, random_run: Path, tmp_path: Path) -> None:
    source, ours, theirs = (tmp_path / name for name in ("a.html", "b.html", "c.html"))
    source.write_text(samples.HTML, encoding="utf-8")
    code, output, notes = dikkat("translate", random_run, source, "--out", ours)  # type: ignore[operator]
    assert (code, output) == (0, "")
    assert "HTML: translated 9 segments\n" in notes
    assert run_runtime(["translate", str(random_run), str(source), "--out", str(theirs)]) == 0
    for written in (ours.read_text(encoding="utf-8"), theirs.read_text(encoding="utf-8")):
        assert "<pre>The dog\n sleeps</pre>" in written
        assert written != samples.HTML
    assert source.read_text(encoding="utf-8") == samples.HTML


def test_out_needs_a_file_and_one_translation(dikkat: object, random_run: Path, tmp_path: Path) -> None:
    target = tmp_path / "b.po"
    for more, message in (((), "name the FILE"), ((tmp_path / "a.po", "--scores"), "leave out --scores")):
        code, _, complaint = dikkat("translate", random_run, *more, "--out", target)  # type: ignore[operator]
        assert message in one_line(code, complaint, 2)
    code, _, complaint = dikkat("translate", random_run, "--consistent")  # type: ignore[operator]
    assert "--consistent is for documents; name one and --out, or leave it out" in one_line(code, complaint, 2)
    code, _, complaint = dikkat("translate", random_run, tmp_path / "a.po", "--out", target)  # type: ignore[operator]
    assert "a.po: cannot be read: No such file" in one_line(code, complaint, 66)
    assert not target.exists()
