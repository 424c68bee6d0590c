"""Where cues are joined and where tags without words go: by seconds, and never against the order of lines."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.unit.documents.stand_ins import ENGLISH_FRENCH, in_order, in_reverse, reversing

from dikkat_runtime.documents.alignment import Alignment
from dikkat_runtime.documents.documents import translate_document
from dikkat_runtime.documents.placement import Mark, Placement, Words
from dikkat_runtime.documents.segments import Tag, render
from dikkat_runtime.tasks.aligner import word_spans


def sent(first: str, second: str) -> list[str]:
    """What a translator is sent of two cues, the first of which ends in the middle of a sentence."""
    texts: list[str] = []

    def translate(given: list[str]) -> list[str]:
        texts.extend(given)
        return given

    data = f"1\n{first}\nThe old man who lives\n\n2\n{second}\nby the river sleeps.\n"
    translate_document(data.encode(), "a.srt", translate, align=in_order, options=ENGLISH_FRENCH)  # type: ignore[arg-type]
    return texts


@pytest.mark.parametrize(
    ("end", "begin", "joined"),
    [
        ("00:00:02,000", "00:00:02,000", True),
        ("00:00:02,000", "00:00:04,000", True),
        ("00:00:02,000", "00:00:04,500", False),
        ("00:00:02,000", "00:00:10,000", False),
        ("00:00:59,500", "00:01:00,500", True),
        ("00:01:02,000", "00:02:02,000", False),
        ("00:59:59,500", "01:00:00,500", True),
        ("01:00:02,000", "02:00:02,000", False),
        # a cue that begins before the end of the other one stands beside it
        ("00:00:05,000", "00:00:03,000", False),
        ("01:00:00,000", "00:00:59,000", False),
    ],
)
def test_cues_within_two_seconds_are_one_sentence(end: str, begin: str, joined: bool) -> None:
    texts = sent(f"00:00:00,000 --> {end}", f"{begin} --> 09:00:00,000")
    assert len(texts) == (1 if joined else 2)


def placed(source: str, target: str, weights: NDArray[np.float32], tag: Tag, position: int) -> str:
    alignment = Alignment()
    alignment.add(0, 0, weights)
    words = [Words(spans, [False] * len(spans)) for spans in map(word_spans, (source, target))]
    return render(Placement(words[0], target, words[1], alignment).insert([Mark(position, tag)]), str)


def test_a_lone_tag_goes_with_its_words_into_the_reverse_order_and_a_line_break_does_not() -> None:
    """In the language of the target all words stand the other way about: what was first is last."""
    source, target = "one two three four", "dört üç iki bir"
    turned = np.eye(4, dtype=np.float32)[::-1].copy()
    for position, before in ((4, 3), (8, 2), (14, 1)):
        with_image = placed(source, target, turned, Tag("void", "<img/>"), position)
        assert len(with_image.split("<img/>")[0].split()) == before
    # a break would set the second line before the first one: it goes to an end
    for line_break in (Tag("void", "\n"), Tag("void", "<br/>", ends_sentence=True)):
        with_break = placed(source, target, turned, line_break, 8)
        assert with_break.replace(line_break.markup, "|").strip() in (f"|{target}", f"{target}|")


def test_attention_counts_for_a_border_by_its_nearness_and_for_a_pair_by_inside_less_outside() -> None:
    rows = np.random.default_rng(2).dirichlet(np.ones(5), 3).astype(np.float32)
    alignment = Alignment()
    alignment.add(10, 20, rows)
    for border in range(10, 16):
        expected = [
            sum(
                weight / (border - word) if word < border else -weight / (1 + word - border)
                for word, weight in enumerate(row.tolist(), start=10)
            )
            for row in rows
        ]
        np.testing.assert_allclose(alignment.balance(border), expected, atol=1e-5)
        assert alignment.targets(border, border) == (20, 23)
    for first, last in ((10, 12), (12, 15), (11, 14)):
        inside = rows[:, first - 10 : last - 10].sum(1)
        np.testing.assert_allclose(alignment.gains(first, last), 2 * inside - rows.sum(1), atol=1e-5)


def test_lines_of_a_message_stay_in_order_though_its_words_do_not() -> None:
    data = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "one two:\\nthree four"\nmsgstr ""\n'
    written = translate_document(data.encode(), "a.po", reversing, align=in_reverse, options=ENGLISH_FRENCH)
    assert written.data.decode().endswith('"two: one\\n"\n"four three"\n')
