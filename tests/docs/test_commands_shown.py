"""Every command on the pages exists, with the options that it is shown with, and every link leads somewhere."""

from __future__ import annotations

import shlex

import pytest
from tests.command_lines import PROGRAM_OPTIONS, command_of, is_group
from tests.docs.pages import ROOT, blocks, broken_links

PAGES = (
    "README.md",
    "README.tr.md",
    "docs/train.md",
    "docs/train.tr.md",
    "docs/look-inside.md",
    "docs/look-inside.tr.md",
    "docs/seeing.md",
    "docs/seeing.tr.md",
    "docs/browser.md",
    "docs/browser.tr.md",
    "docs/scaling.md",
    "docs/gpu.md",
)
SHORT_PAGES = {"docs/browser.md": 5, "docs/browser.tr.md": 5, "docs/scaling.md": 5, "docs/gpu.md": 3}
"""Pages of few commands, with their number."""


def commands_of(page: str) -> list[list[str]]:
    """The words of each line that calls dikkat, without its comment."""
    console = [block.text for block in blocks(ROOT / page) if block.language == "console"]
    lines = [line.partition("dikkat ")[2] for text in console for line in text.split("\n") if "dikkat " in line]
    return [shlex.split(line, comments=True) for line in lines]


def unknown_words(words: list[str]) -> list[str]:
    """The words of a command that there is not, or the options that a command does not have."""
    found = command_of(words)
    if found is None:
        is_part_of_program = words[0] in PROGRAM_OPTIONS or is_group(words[0])
        return [] if is_part_of_program and words[1:2] in ([], ["--help"]) else words[:2]
    command, rest = found
    known = PROGRAM_OPTIONS | set(command.words())
    return [word for word in rest if word.startswith("--") and word.partition("=")[0] not in known]


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_exist(page: str) -> None:
    result = commands_of(page)
    assert len(result) == SHORT_PAGES[page] if page in SHORT_PAGES else len(result) >= 5
    assert {" ".join(words): unknown_words(words) for words in result if unknown_words(words)} == {}


def test_an_unknown_command_or_option_is_seen() -> None:
    assert unknown_words(["attendd", "x"]) == ["attendd", "x"]
    assert unknown_words(["train", "translater", "x"]) == ["train", "translater"]
    assert unknown_words(["attend", "run", "text", "--outt", "a.png"]) == ["--outt"]


@pytest.mark.parametrize("page", PAGES[2:])
def test_links_lead_somewhere(page: str) -> None:
    assert broken_links(ROOT / page) == []
