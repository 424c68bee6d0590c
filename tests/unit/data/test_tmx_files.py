"""Translation memories: which segments are pairs, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dikkat.data.readers import LanguageChoice, read_pairs
from dikkat_runtime.errors import DataError, DikkatError, UsageError

MEMORY = """<?xml version="1.0" encoding="{encoding}"?>
{doctype}
<tmx version="1.4"><header srclang="en-US" datatype="plaintext"/><body>
<tu><tuv xml:lang="tr"><seg>Işık &amp; gölge</seg></tuv>
<tuv xml:lang="en-US"><seg>Light
 &amp; <bpt i="1">&lt;b&gt;</bpt>shade<ept i="1">&lt;/b&gt;</ept></seg></tuv></tu>
<tu><tuv xml:lang="en-US"><seg>Only English</seg></tuv></tu>
<tu><tuv xml:lang="en-US"><seg>A <hi>second</hi> one</seg></tuv><tuv xml:lang="tr"><seg>İkinci</seg></tuv>{third}</tu>
</body></tmx>
"""
PAIRS = [("Light & shade", "Işık & gölge", 4), ("A second one", "İkinci", 8)]


def _write(folder: Path, encoding: str = "utf-8", doctype: str = "", third: str = "", text: str = MEMORY) -> str:
    path = folder / "memory.tmx"
    path.write_bytes(text.format(encoding=encoding, doctype=doctype, third=third).encode(encoding))
    return str(path)


def _complaint(path: str, kind: type[DikkatError] = DataError, source: str = "", target: str = "") -> str:
    with pytest.raises(kind) as caught:
        list(read_pairs([path], languages=LanguageChoice(source, target)))
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("doctype", ["", '<!DOCTYPE tmx SYSTEM "tmx14.dtd">'])
def test_segments_are_pairs_without_their_codes(tmp_path: Path, encoding: str, doctype: str) -> None:
    assert [pair[:3] for pair in read_pairs([_write(tmp_path, encoding, doctype)])] == PAIRS


def test_languages_are_chosen_by_name(tmp_path: Path) -> None:
    path = _write(tmp_path)
    turned = read_pairs([path], languages=LanguageChoice("tr", "en"))
    assert [pair[:2] for pair in turned] == [(pair[1], pair[0]) for pair in PAIRS]
    assert _complaint(path, UsageError, "de", "en") == ': has no language "de"; known: tr, en-US'
    with pytest.raises(UsageError, match="name the languages with --source-language"):
        read_pairs([path], 1, 2)


def _memory_of(*units: dict[str, str], srclang: str = "*all*") -> str:
    written = "".join(
        "<tu>" + "".join(f'<tuv xml:lang="{tag}"><seg>{text}</seg></tuv>' for tag, text in unit.items()) + "</tu>"
        for unit in units
    )
    return f'<tmx version="1.4"><header srclang="{srclang}"/><body>{written}</body></tmx>'


FIVE = ({"de": "Licht", "en-US": "Light", "fr": "Lumière"}, {"en-US": "Two", "tr": "İki", "fr": "Deux"}, {"cs": "Tři"})


@pytest.mark.parametrize(
    ("srclang", "wanted", "pairs"),
    [
        ("*all*", ("", ""), [("Light", "Lumière"), ("Two", "Deux")]),
        ("fr", ("", ""), [("Lumière", "Light"), ("Deux", "Two")]),
        ("fr", ("", "de"), [("Lumière", "Licht")]),
        ("*all*", ("en", "tr"), [("Two", "İki")]),
        ("*all*", ("", "en"), [("Lumière", "Light"), ("Deux", "Two")]),
    ],
)
def test_of_five_languages_two_are_chosen_by_a_rule_and_told(
    tmp_path: Path, srclang: str, wanted: tuple[str, str], pairs: list[tuple[str, str]]
) -> None:
    """Those asked for, else the header's as source, else the commonest, of which the first counts."""
    path, notes = _write(tmp_path, text=_memory_of(*FIVE, srclang=srclang)), list[str]()
    result = read_pairs([path], languages=LanguageChoice(*wanted), note=notes.append)
    assert [pair[:2] for pair in result] == pairs
    (note,) = notes
    assert "it holds en-US 2, fr 2, de 1, tr 1, cs 1; choose others with --source-language" in note
    assert f"{len(pairs)} pair" in note
    assert "skipped" in note


def test_the_languages_of_one_file_are_those_of_the_next(tmp_path: Path) -> None:
    one, two = tmp_path / "a.tmx", tmp_path / "b.tmx"
    one.write_text(_memory_of({"en": "Go", "tr": "Git"}))
    two.write_text(_memory_of({"de": "Komm", "en": "Come", "tr": "Gel"}, {"de": "Ja", "en": "Yes"}))
    choice = LanguageChoice()
    assert [pair[:2] for pair in read_pairs([str(one), str(two)], languages=choice)] == [("Go", "Git"), ("Come", "Gel")]
    assert choice.tags == ("en", "tr")


@pytest.mark.parametrize(
    "doctype",
    [
        '<!DOCTYPE tmx [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>',
        '<!DOCTYPE tmx [<!ENTITY a SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE tmx [<!ENTITY % a SYSTEM "http://localhost/x"> %a;]>',
    ],
)
def test_entities_are_refused(tmp_path: Path, doctype: str) -> None:
    assert _complaint(_write(tmp_path, doctype=doctype)) == (
        ': declares the entity "a", which no document needs; not read'
    )


def test_bad_xml_and_other_xml_are_named(tmp_path: Path) -> None:
    assert _complaint(_write(tmp_path, text=MEMORY.replace("</seg>", "", 1))).startswith(
        ":4: byte 161: not valid XML ("
    )
    assert _complaint(_write(tmp_path, text="<a/>")) == (
        ": holds no translation unit, so it is not a translation memory (.tmx)"
    )


def test_controls_that_xml_forbids_are_counted(tmp_path: Path) -> None:
    notes: list[str] = []
    path = _write(tmp_path, text=MEMORY.replace("shade", "sh\x02ade&#x1;"))
    assert len(list(read_pairs([path], note=notes.append))) == 2
    assert "control characters that XML forbids, kept where they are: 2" in notes[0]


def test_a_segment_without_end_is_not_held(tmp_path: Path) -> None:
    path = _write(tmp_path, third=f'<tuv xml:lang="de"><seg>{"x " * 600_000}</seg></tuv>')
    assert _complaint(path) == ":8: a segment of more than 1,000,000 characters"


def _peaks(size: int) -> tuple[int, int, float, float]:
    """Units, pairs, and the peak memory of a process of its own in MiB before and after it reads."""
    command = [sys.executable, "-m", "tests.unit.data.memory_of_size", str(size)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), *sys.path])}
    messages = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.split()
    return int(messages[0]), int(messages[1]), float(messages[2]), float(messages[3])


@pytest.mark.parametrize("size", [4, pytest.param(50, marks=pytest.mark.nightly)])
def test_a_memory_is_read_in_constant_memory(size: int) -> None:
    units, pairs, before, after = _peaks(size)
    assert pairs == units > 1_000 * size
    # the first thousand units are looked at together
    assert after - before < 24
