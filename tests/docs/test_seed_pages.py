"""The pages of the five documents are true: each snippet runs, prints what stands below it, and draws its picture."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.command_lines import names
from tests.docs.notebooks import FOLDER, LANGUAGES, PAGES, notebook_of, page_of
from tests.docs.pages import ROOT, Snippet, broken_links, commands, links, outputs, snippets

from dikkat.lessons.classroom.weights import LAYOUTS

TRAINING_PAGES = ("002", "004")
SAMPLED_PAGES = [pytest.param(name, marks=pytest.mark.nightly) if name in TRAINING_PAGES else name for name in PAGES]
"""Those that train for long run in the nightly."""
_PERCENT = re.compile(r"\d+%")


def agrees(printed: str, shown: str) -> bool:
    """Whether a page shows what was printed; a percentage that was measured may be two points off on other machines."""
    if _PERCENT.sub("%", printed).split() != _PERCENT.sub("%", shown).split():
        return False
    pairs = zip(_PERCENT.findall(printed), _PERCENT.findall(shown), strict=True)
    return all(abs(int(one[:-1]) - int(other[:-1])) <= 2 for one, other in pairs)


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLED_PAGES)
def test_every_snippet_runs_and_prints_what_stands_below_it(name: str, tmp_path: Path) -> None:
    english, turkish = (snippets(page_of(name, language), "python") for language in LANGUAGES)
    assert len(english) > 5
    assert [(item.text, item.printed) for item in english] == [(item.text, item.printed) for item in turkish]
    (tmp_path / "images").mkdir()
    for snippet, printed in zip(english, outputs(english, tmp_path), strict=True):
        assert agrees(printed, snippet.printed or ""), f"{snippet.page}:{snippet.line} printed\n{printed}"
    drawn = sorted(path.name for path in (tmp_path / "images").iterdir())
    assert drawn == sorted(path.name for path in (FOLDER / "images").glob(f"{name}-*"))


@pytest.mark.slow
# by day a page runs on this processor alone, and a few lines on one that rounds otherwise
@pytest.mark.nightly
@pytest.mark.parametrize("name", PAGES)
def test_a_page_prints_the_same_on_a_processor_that_rounds_otherwise(name: str, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    found = snippets(page_of(name, "en"), "python")
    for snippet, printed in zip(found, outputs(found, tmp_path, other_rounding=True), strict=True):
        assert agrees(printed, snippet.printed or ""), f"{snippet.page}:{snippet.line} printed\n{printed}"


def test_a_sum_that_is_one_but_for_its_rounding_is_found(tmp_path: Path) -> None:
    """Softmax weights add up to 1 on one processor, and to 1 - 6e-8 on another, which torch prints as 1.0000."""
    text = "import torch\ntorch.manual_seed(0)\nprint(torch.rand(40, 9).softmax(1).sum(1).eq(1).all().item())\n"
    digits = 'print({f"{total:.4f}" for total in torch.rand(40, 9).softmax(1).sum(1)})\n'
    exact = "print(torch.tensor([1.0, 2, 3]).sum().item(), torch.zeros(2, 2).softmax(1)[0].tolist())\n"
    found = [Snippet("page", "python", code, 1, None) for code in (text, digits, exact)]
    assert outputs(found, tmp_path, other_rounding=True) == ["False\n", "{'1.0000'}\n", "6.0 [0.5, 0.5]\n"]


def test_every_layout_that_a_page_names_is_one() -> None:
    text = "".join(page_of(name, language).read_text("utf-8") for name in PAGES for language in LANGUAGES)
    named = set(re.findall(r'load_weights\([^()]*, "([^"]+)"\)', text))
    assert named
    assert named <= set(LAYOUTS)


def test_a_number_that_is_off_is_found() -> None:
    assert agrees("layer 35% 0.5\n", "layer  36% 0.5\n")
    for printed in ("layer 39% 0.5", "layer 35% 0.6", "layer 35%", "35% layer 0.5"):
        assert not agrees(printed, "layer 36% 0.5"), printed


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", PAGES)
def test_the_notebook_is_made_from_the_page(name: str, language: str) -> None:
    page = page_of(name, language)
    kept = page.with_suffix(".ipynb").read_text(encoding="utf-8")
    assert kept == notebook_of(page), "write it anew with: python -m tests.docs.notebooks"
    code = ["".join(cell["source"]) + "\n" for cell in json.loads(kept)["cells"] if cell["cell_type"] == "code"]
    assert code == [item.text for item in snippets(page, "python")]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", [*PAGES, "README"])
def test_no_link_is_broken_and_every_command_exists(name: str, language: str) -> None:
    page = page_of(name, language)
    assert not [link for link in broken_links(page) if not link.startswith("http")]
    known = names()
    shown = [words for block in snippets(page, "console") for words in commands(block.text)]
    assert all(words[1] in known for words in shown if words[0] == "dikkat")


def test_every_picture_is_shown_and_small() -> None:
    shown = {link for name in PAGES for link in links(page_of(name, "en")) if link.startswith("images/")}
    kept = {f"images/{path.name}" for path in (FOLDER / "images").iterdir()}
    assert shown == kept
    assert all((FOLDER / picture).stat().st_size < 60_000 for picture in kept)


def test_the_contents_are_found_from_the_readme() -> None:
    for language, readme in (("en", "README.md"), ("tr", "README.tr.md")):
        assert str(page_of("README", language).relative_to(ROOT)) in links(ROOT / readme)
