"""The page on which a person corrects translations, and the table that it saves."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.runtime.runs import translator_run

from dikkat_runtime.cli.main import run as run_dikkat
from dikkat_runtime.cli.review import write_review
from dikkat_runtime.errors import UsageError
from dikkat_runtime.tasks.confidence import Confidence, WordConfidence
from dikkat_runtime.tasks.corrections import Corrections
from dikkat_runtime.tasks.translations import Translation, copied


def rows_of(page: Path) -> list[dict[str, object]]:
    content = re.search(r'id="rows">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert content is not None
    source, target, rows = json.loads(content[1])
    assert (source, target) == ("en", "tr")
    return list(rows)


def test_the_least_sure_come_first_and_no_text_leaves_its_place(tmp_path: Path) -> None:
    page, sources = tmp_path / "page.html", ["one", "</script><b>", "{{TITLE}}", "4"]
    probabilities = (0.9, 0.2, 0.5)
    translations = [
        Translation(f"t {source}", 0.0, (), confidence=Confidence(value, (WordConfidence("t", value),), ("empty",)))
        for source, value in zip(sources, probabilities, strict=False)
    ]
    write_review(page, tmp_path / "a<b", ("en", "tr"), sources, [*translations, copied("4")])
    text = page.read_text(encoding="utf-8")
    assert text.count("</script>") == 2
    assert "<b>" not in text
    assert "a&lt;b" in text
    rows = rows_of(page)
    assert [row["source"] for row in rows] == ["</script><b>", "{{TITLE}}", "one", "4"]
    assert [row["line"] for row in rows] == [2, 3, 1, 4]
    assert [row["confidence"] for row in rows] == [0.2, 0.5, 0.9, 1.0]
    assert rows[0]["words"] == [["t", 0.2]]
    assert rows[0]["flags"] == ["empty"]


def test_the_command_writes_the_page_and_keeps_what_it_saves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = translator_run(tmp_path / "run", languages=("en", "tr"))
    (run / "held_out").mkdir()
    for side, texts in (("source", ["go now", "a cat"]), ("target", ["git", "bir kedi"])):
        (run / "held_out" / f"validation.{side}.txt").write_text("\n".join([*texts * 12, ""]), encoding="utf-8")
    lines, page = tmp_path / "lines.txt", tmp_path / "page.html"
    lines.write_text("The small cat.\n\nGo on!\n", encoding="utf-8")
    assert run_dikkat(["translate", str(run), str(lines), "--review", str(page)]) == 0
    written = capsys.readouterr().out.splitlines()
    rows = rows_of(page)
    assert sorted((row["line"], row["target"]) for row in rows) == list(enumerate(written, start=1))
    assert [row["confidence"] for row in rows] == sorted(row["confidence"] for row in rows)  # type: ignore[type-var]

    saved = tmp_path / "corrections.tsv"
    saved.write_text("source\ttarget\nThe small cat.\tKüçük kedi.\nGo on!\tDevam!\n", encoding="utf-8")
    assert run_dikkat(["correct", str(run), "--file", str(saved)]) == 0
    assert Corrections(run).pairs() == [("The small cat.", "Küçük kedi."), ("Go on!", "Devam!")]
    for wrong in (["--file", str(saved), "--list"], ["Go on!", "--file", str(saved)]):
        assert run_dikkat(["correct", str(run), *wrong]) == UsageError.exit_code
    for wrong in (["--review", "page.txt"], ["--review", str(page), "--n-best", "2", "--beam", "2"]):
        assert run_dikkat(["translate", str(run), str(lines), *wrong]) == UsageError.exit_code
