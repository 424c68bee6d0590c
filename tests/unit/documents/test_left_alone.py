"""What a document keeps untranslated is counted and named, and what no translation may touch stays."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.unit.documents.stand_ins import ENGLISH_FRENCH, in_order, shouting, unchanged

from dikkat_runtime.documents.documents import translate_document


def shouted(text: str, name: str) -> tuple[str, dict[str, int]]:
    assert unchanged(text.encode(), name).data.decode() == text
    done = translate_document(text.encode(), name, shouting, align=in_order, options=ENGLISH_FRENCH)
    return done.data.decode(), {str(reason): count for reason, count in done.remarks.items() if count}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("An [Array][1]&lt;[object][2]&gt; &amp; a cat\n", "AN [ARRAY][1]&lt;[OBJECT][2]&gt; &amp; A CAT\n"),
        ("See https://a.org/x*y*z_w_ here.\n", "SEE https://a.org/x*y*z_w_ HERE.\n"),
        ("A [dog](<a b> (a cat)) and [cow](x(y(z)) 'a\\'s')\n", "A [DOG](<a b> (a cat)) AND [COW](x(y(z)) 'a\\'s')\n"),
        ("A dog\n<div id=x\n  x=y>\ncat\n</div>\n\nA cow\n", "A DOG\n<div id=x\n  x=y>\ncat\n</div>\n\nA COW\n"),
        ("A cat <!DOCTYPE x> <?php echo?> here\n", "A CAT <!DOCTYPE x> <?php echo?> HERE\n"),
        ("> -     a cat\n\na dog\n", "> -     a cat\n\nA DOG\n"),
        (">     a cat\n\n> a dog\n", ">     a cat\n\n> A DOG\n"),
        ("```\na\n    ```\ncat\n```\ndog\n", "```\na\n    ```\ncat\n```\nDOG\n"),
        ("C\\# has a dog\\!\n", "C\\# HAS A DOG\\!\n"),
        ("| a | b |\n|---|---|\n| c | d |\n    | e | f |\n", "| A | B |\n|---|---|\n| C | D |\n    | e | f |\n"),
    ],
)  # fmt: skip
def test_marks_of_markdown_stay(text: str, expected: str) -> None:
    assert shouted(text, "a.md")[0] == expected


def test_what_markdown_keeps_is_counted_by_its_reason() -> None:
    text = (
        "---\ntitle: A dog\ntags: a cat\n---\n\n```\ncode\n```\n\n    more\n    code\n\ndog\n\n<p>\na cat\n</p>\n\n"
        '<!-- a cow -->\n\n[a]: b "A title"\n\n![x](y.png "A cat") and [dog](z "A cow")\n\n::: tip\nA bird\n:::\n'
    )
    assert shouted(text, "a.md")[1] == {
        "other values of the front matter, left as they are": 1,
        "blocks of code, left as they are": 2,
        "blocks of HTML, left as they are": 1,
        "titles of links, left as they are": 3,
        "lines for programs that make pages, left as they are": 1,
    }


def test_what_subtitles_keep_is_counted_by_its_reason() -> None:
    text = (
        "WEBVTT - a title\n\nNOTE by a person\n\nSTYLE\n::cue(b) { color: red }\n\n00:01.000 --> 00:02.000\n"
        "A <lang fr>chien</lang> and <ruby>cat<rt>cow</rt></ruby>\n"
    )
    assert shouted(text, "a.vtt")[1] == {
        "notes and other blocks without times, left as they are": 2,
        "spans in another language than the model reads, left as they are": 1,
        "readings of ruby, left as they are": 1,
    }
    lines = "1\n00:00:01,000 --> 00:00:02,000\nA dog\n\nby a person\n"
    assert shouted(lines, "a.srt")[1] == {"notes and other blocks without times, left as they are": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("? [the dog, the cat]\n: a bird sings\n", "? [the dog, the cat]\n: A BIRD SINGS\n"),
        ("? {the dog: a cat}\n: [a bird sings]\n", "? {the dog: a cat}\n: [A BIRD SINGS]\n"),
        ("x: &a the dog\n*a : a bird sings\ny: the cow\n", "x: &a THE DOG\n*a : A BIRD SINGS\ny: THE COW\n"),
    ],
)
def test_keys_of_yaml_stay_whatever_they_are(text: str, expected: str) -> None:
    assert shouted(text, "a.yaml")[0] == expected


def test_formats_of_subtitles_over_two_cues_stand_for_no_word() -> None:
    lines = "1\n00:00:01,000 --> 00:00:02,000\n<i>A dog.\n\n2\n00:00:03,000 --> 00:00:04,000\nA cat.</i>\n"
    read = list[str]()

    def noted(texts: Sequence[str]) -> list[str]:
        read.extend(texts)
        return shouting(texts)

    translate_document(lines.encode(), "a.srt", noted, align=in_order)
    assert read == ["A dog.", "A cat."]


def test_a_text_with_a_hidden_direction_is_counted() -> None:
    assert shouted("A \u202edog\u202c sleeps.\n\nA cat.\n", "a.md")[1] == {
        "texts with direction controls, which may show them in another order than they are read": 1
    }
