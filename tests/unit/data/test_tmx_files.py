"""Translation memories: which segments are pairs, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from dikkat.data.readers import Column, read_pairs
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


def _complaint(path: str, kind: type[DikkatError] = DataError, source: Column = None, target: Column = None) -> str:
    with pytest.raises(kind) as caught:
        list(read_pairs([path], source, target))
    assert "\n" not in str(caught.value)
    return str(caught.value).removeprefix(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("doctype", ["", '<!DOCTYPE tmx SYSTEM "tmx14.dtd">'])
def test_segments_are_pairs_without_their_codes(tmp_path: Path, encoding: str, doctype: str) -> None:
    assert list(read_pairs([_write(tmp_path, encoding, doctype)])) == PAIRS


def test_languages_are_chosen_by_name(tmp_path: Path) -> None:
    path = _write(tmp_path)
    assert [pair[:2] for pair in read_pairs([path], "tr", "en")] == [(pair[1], pair[0]) for pair in PAIRS]
    assert _complaint(path, UsageError, "de", "en") == ': has no language "de"; known: tr, en-US'
    assert "name the two languages" in _complaint(path, UsageError, 1, 2)


def test_of_three_languages_two_have_to_be_named(tmp_path: Path) -> None:
    text = MEMORY.replace(
        '</seg></tuv></tu>\n<tu><tuv xml:lang="en-US"><seg>Only',
        '</seg></tuv>{third}</tu>\n<tu><tuv xml:lang="en-US"><seg>Only',
    )
    path = _write(tmp_path, third='<tuv xml:lang="de"><seg>Licht</seg></tuv>', text=text)
    assert _complaint(path, UsageError) == (
        ": holds the languages tr, en-US, de; choose two, as with --source-column en-US --target-column tr"
    )
    assert next(pair[:2] for pair in read_pairs([path], "en", "de")) == ("Light & shade", "Licht")


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
        ': declares the entity "a", as no translation memory needs to; not read'
    )


def test_bad_xml_and_other_xml_are_named(tmp_path: Path) -> None:
    assert _complaint(_write(tmp_path, text=MEMORY.replace("</seg>", "", 1))).startswith(":4: not valid XML (")
    assert _complaint(_write(tmp_path, text="<a/>")) == (
        ": holds no translation unit, so it is no translation memory (.tmx)"
    )


def test_a_segment_without_end_is_not_held(tmp_path: Path) -> None:
    path = _write(tmp_path, third=f'<tuv xml:lang="de"><seg>{"x " * 600_000}</seg></tuv>')
    assert _complaint(path) == ":8: a segment of more than 1,000,000 characters"
