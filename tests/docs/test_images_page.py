"""The page about images says what is so: its snippets run, learn the digits and print what stands below them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, broken_links, links, outputs, snippets

PAGE, TWIN = ROOT / "docs" / "images-as-sequences.md", ROOT / "docs" / "images-as-sequences.tr.md"


LESSON, SHARE = "updates = 800", "right >= 0.97"


@pytest.mark.seed("E24")
@pytest.mark.nightly
def test_the_encoder_reads_97_of_100_digits_that_were_held_out(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="needs scikit-learn, which the extra [test] brings")
    result = snippets(PAGE, "python")
    printed = outputs(result, tmp_path)
    for snippet, text in zip(result, printed, strict=True):
        assert text == (snippet.printed or ""), f"{PAGE.name}:{snippet.line}"
    assert any(
        SHARE in snippet.text and text.endswith(": True\n") for snippet, text in zip(result, printed, strict=True)
    )


@pytest.mark.seed("E24")
@pytest.mark.slow
def test_every_snippet_runs_and_an_eighth_of_the_lesson_reads_80_of_100(tmp_path: Path) -> None:
    """By day, in an eighth of the time: what does not depend on how much was learned is what the page shows."""
    pytest.importorskip("sklearn", reason="needs scikit-learn, which the extra [test] brings")
    result = snippets(PAGE, "python")
    assert "".join(item.text for item in result).count(LESSON) == 1
    shorter = [
        replace(item, text=item.text.replace(LESSON, "updates = 100").replace(SHARE, "right >= 0.8")) for item in result
    ]
    for snippet, text in zip(result, outputs(shorter, tmp_path), strict=True):
        assert text == (snippet.printed or ""), f"{PAGE.name}:{snippet.line}"


def test_the_twins_share_their_code_and_what_it_prints() -> None:
    english, turkish = (snippets(page, "python") for page in (PAGE, TWIN))
    assert [(item.text, item.printed) for item in english] == [(item.text, item.printed) for item in turkish]
    headings = [re.findall(r"^(#+) ", page.read_text("utf-8"), re.MULTILINE) for page in (PAGE, TWIN)]
    assert headings[0] == headings[1]


def test_no_link_is_broken_and_each_page_leads_to_its_twin() -> None:
    for page, twin in ((PAGE, TWIN), (TWIN, PAGE)):
        assert broken_links(page) == []
        assert twin.name in links(page)
