"""Strings that become SVG: escaped, measured, well-formed."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from tests.unit.explain.drawing.drawings import real_width

from dikkat.explain.drawing.chart import clipped, document, element, escaped, path, text, text_width

HOSTILE = [
    "</svg><script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "a&amp;b",
    "\0\x07\x1b[31m",
    "\ud800",
    "\ufffe",
]


@pytest.mark.parametrize("content", HOSTILE)
def test_a_text_is_text_in_an_element_and_in_an_attribute(content: str) -> None:
    drawing = document((0.0, 0.0, 9.0, 9.0), [text(0, 0, content, data_x=content)], content)
    root = ElementTree.fromstring(drawing)
    shown = "".join("·" if mark in "\0\x07\x1b\ud800\ufffe" else mark for mark in content)
    assert [item.tag.rpartition("}")[2] for item in root.iter()] == ["svg", "title", "text"]
    written = root[1]
    assert written.text == root[0].text == written.attrib["data-x"] == shown


def test_marks_that_xml_knows_by_name_and_white_space() -> None:
    assert escaped("<a & 'b'>\t\"c\"\n") == "&lt;a &amp; &#x27;b&#x27;&gt; &quot;c&quot; "
    assert escaped("çğıİöşü 中 👩‍👧 שלום") == "çğıİöşü 中 👩‍👧 שלום"


def test_an_element_writes_numbers_short_and_names_with_hyphens() -> None:
    assert (
        element("rect", x=1.0, y=2.125, class_="a b", stroke_width=2)
        == '<rect x="1" y="2.12" class="a b" stroke-width="2"/>'
    )
    assert path([(0.0, 1.0), (2.5, 3.0)], class_="curve") == '<path d="M0 1L2.5 3" class="curve"/>'


@pytest.mark.parametrize("bold", [False, True])
@pytest.mark.parametrize(
    "content",
    [
        "4 heads × K = 4 × 64, 2 of keys and values",
        "softmax(0.125 × v · tanh(q + k))",
        "score − slope × distance (ALiBi)",
        "D → F → D: 1,024 → 16,384 → 1,024",
        "Masked self-attention",
        "probabilities (B, T, V)",
        "10,000,000 parameters",
        "WWWWW MMMMM @@@",
        "illlli",
        "The quick brown fox jumps over the lazy dog",
        "Kayıp, güncelleme, doğrulama",
    ],
)
def test_a_text_is_never_wider_than_it_is_taken_for(content: str, bold: bool) -> None:
    real = real_width(content, 12.0, bold=bold)
    assert real <= text_width(content, 12.0, bold=bold) <= 2 * real


def test_a_long_text_is_clipped() -> None:
    assert clipped("abcdef", 6) == "abcdef"
    assert clipped("abcdefg", 6) == "abcde…"
