"""What is no translation stays: over mutated files, the output without its translations is the input."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable

import pytest
from tests.unit.documents import app_samples, samples
from tests.unit.documents.mutations import broken, mutated
from tests.unit.documents.stand_ins import in_order, same

from dikkat_runtime.documents.documents import translate_document
from dikkat_runtime.documents.segments import Options
from dikkat_runtime.errors import DikkatError

BY_DAY, BY_NIGHT = 100, 2_000


def _comments(match: re.Match[str]) -> str:
    return "".join(re.findall(r"^[ \t]*#.*\n", match[0], flags=re.MULTILINE))


def _without_strings(po: str) -> str:
    """A catalog without any msgstr and without flags."""
    lines = r"(?:[ \t]*#(?!~).*\n|[ \t\r]*\n)*"
    po = re.sub(r"^([ \t]*msgstr(?:\[\d+\])?)", r"\1\n", po, flags=re.MULTILINE)
    po = re.sub(rf'^[ \t]*msgstr(?:\[\d+\])?\n(?:{lines}[ \t]*".*"[ \t]*\r?$\n?)*', _comments, po, flags=re.MULTILINE)
    po = re.sub(r"^#, fuzzy\r?\n|^[ \t]*#,(?: fuzzy,)?.*$", "", po, flags=re.MULTILINE)
    return re.sub(r"\s+", "\n", po)


def _without_targets(xliff: str) -> str:
    xliff = re.sub(r"\s*<target(?=[\s/>])[^>]*?(?:/>|>.*?</target>)", "", xliff, flags=re.DOTALL)
    return re.sub(r"<segment[^>]*>", "<segment>", xliff)


def _without_added(tmx: str) -> str:
    return re.sub(r'\s*<tuv [^>]*creationid="dikkat">.*?</tuv>', "", tmx, flags=re.DOTALL)


def _without_cues(subtitles: str) -> list[str]:
    """The times of the cues."""
    return re.findall(
        r"(?:\d\d:)?\d\d:\d\d[.,]\d{3} --> (?:\d\d:)?\d\d:\d\d[.,]\d{3}",
        subtitles,
        flags=re.MULTILINE,
    )


def _language_aside(page: str) -> str:
    return re.sub(r'lang="[^"]*"', "", page)


def _without_texts(lines: str) -> list[str]:
    """The lines with an empty text, and what each text says, however its letters are escaped."""
    texts = [json.loads(line)["text"] for line in lines.split("\n") if line.strip()]
    return [re.sub(r'"text":\s*"(?:[^"\\]|\\.)*"', '"text":""', lines), *texts]


def _without_singular(strings: str) -> str:
    """Android's strings without the plural form that English and French need, which is added where it is missing."""
    return re.sub(r'\s*<item quantity="one">[^<]*</item>', "", strings)


def _without_braces(tex: str) -> str:
    """LaTeX without braces, which go to the edge of a word, and with its letters and spaces in one spelling."""
    for command, letter in (("\\'e", "é"), ('\\"u', "ü"), ("\\ss", "ß"), ("LaTeX\\ ", "LaTeX ")):
        tex = tex.replace(command, letter)
    return re.sub(r"[{}]", "", tex)


def _all(text: str) -> str:
    return text


Skeleton = Callable[[str], object]
CASES: dict[str, tuple[str, str, Skeleton, str]] = {
    "po": ("a.po", samples.PO, _without_strings, ""),
    "xliff 1.2": ("a.xlf", samples.XLIFF_1, _without_targets, ""),
    "xliff 2": ("b.xlf", samples.XLIFF_2, _without_targets, ""),
    "tmx": ("a.tmx", samples.TMX, _without_added, ""),
    "srt": ("a.srt", samples.SRT, _without_cues, ""),
    "vtt": ("a.vtt", samples.VTT, _without_cues, ""),
    "markdown": ("a.md", samples.MARKDOWN, _all, ""),
    "html": ("a.html", samples.HTML, _language_aside, ""),
    "csv": ("a.csv", samples.CSV, _all, "source:source"),
    "tsv": ("a.tsv", samples.TSV, _all, "1:1"),
    "json lines": ("a.jsonl", samples.JSON_LINES, _without_texts, "text:text"),
    "json": ("a.json", app_samples.JSON, _all, ""),
    "yaml": ("a.yaml", app_samples.YAML, lambda text: re.sub(r"^fr:", "en:", text, flags=re.MULTILINE), ""),
    "properties": ("a.properties", app_samples.PROPERTIES, _all, ""),
    "strings": ("a.strings", app_samples.STRINGS, _all, ""),
    "stringsdict": ("a.stringsdict", app_samples.STRINGSDICT, _all, ""),
    "android": ("strings.xml", app_samples.ANDROID, _without_singular, ""),
    "latex": ("a.tex", app_samples.LATEX, _without_braces, ""),
}
"""For each format a file, what of it must stay, and the columns of a table that is translated in its place."""


def check(case: str, count: int) -> None:
    name, text, skeleton, columns = CASES[case]
    source, _, target = columns.partition(":")
    options = Options("en", "fr", source or None, target or None)
    outcomes: Counter[str] = Counter()
    for seed in range(count):
        changed = mutated(text, seed)
        try:
            document = translate_document(changed.encode(), name, same, align=in_order, options=options)
        except DikkatError:
            outcomes["refused"] += 1
            continue
        assert skeleton(document.data.decode()) == skeleton(changed), f"seed {seed}"
        outcomes["translated"] += document.num_segments > 0
    # the mutations must not be so wild that hardly any file is read
    assert outcomes["translated"] > 0.2 * count, outcomes


@pytest.mark.parametrize("case", CASES)
def test_what_is_no_translation_stays(case: str) -> None:
    check(case, BY_DAY)


@pytest.mark.nightly
@pytest.mark.parametrize("case", CASES)
def test_what_is_no_translation_stays_in_thousands(case: str) -> None:
    check(case, BY_NIGHT)


@pytest.mark.parametrize("case", [*CASES, "docx", "mo"])
def test_a_broken_file_is_refused_in_one_line_or_read(case: str) -> None:
    """No exception of ours but those that a user is told of."""
    if case == "docx":
        name, data = "a.docx", samples.word_document()
    elif case == "mo":
        name, data = "a.mo", samples.compiled_catalog()
    else:
        name, data = CASES[case][0], CASES[case][1].encode()
    for seed in range(BY_DAY):
        message = name
        try:
            translate_document(broken(data, seed), name, same, align=in_order, options=Options("en", "fr"))
        except DikkatError as error:
            message = str(error)
        assert "\n" not in message
        assert message.startswith(name)
