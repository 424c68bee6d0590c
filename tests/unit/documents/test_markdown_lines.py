"""Marks of Markdown that go over a line break, alerts, quotations, front matter; a parser of CommonMark judges."""

from __future__ import annotations

import pytest
from markdown_it import MarkdownIt
from tests.unit.documents.stand_ins import ENGLISH_FRENCH, in_order, shouting, unchanged

from dikkat_runtime.documents.documents import translate_document

COMMONMARK = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def shouted(text: str) -> str:
    assert unchanged(text.encode(), "a.md").data.decode() == text
    return translate_document(text.encode(), "a.md", shouting, align=in_order, options=ENGLISH_FRENCH).data.decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The dog (see `git help\ntutorial`) sleeps.\n", "THE DOG (SEE `git help\ntutorial`) SLEEPS.\n"),
        ("> The `dog\n> cat` sleeps\n", "> THE `dog\n> cat` SLEEPS\n"),
        ("The **big\ndog** sleeps\n", "THE **BIG\nDOG** SLEEPS\n"),
        ('The [red\nhouse](http://x.y "a\nb") here\n', 'THE [RED\nHOUSE](http://x.y "a\nb") HERE\n'),
        ("The <b\nclass=x>dog</b> sleeps\n", "THE <b\nclass=x>DOG</b> SLEEPS\n"),
        ("**The dog.\nThe cat.***\n", "**THE DOG.\nTHE CAT.***\n"),
        ("The ***big* dog** and *the **cat***\n", "THE ***BIG* DOG** AND *THE **CAT***\n"),
        ("The __dog__ and snake_case_name *\n", "THE __DOG__ AND SNAKE_CASE_NAME *\n"),
        ("*args and **names sleep\n", "*ARGS AND **NAMES SLEEP\n"),
        ("The <b>*dog</b>* sleeps\n", "THE <b>*DOG</b>* SLEEPS\n"),
        ("> [!NOTE]\n> The dog.\n", "> [!NOTE]\n> THE DOG.\n"),
        ("> [!tip]- The cat\n> The dog.\n", "> [!tip]- THE CAT\n> THE DOG.\n"),
        ("> The dog\n> > the cat\n> >> a cow\n> lazy\n", "> THE DOG\n> > THE CAT\n> >> A COW\n> LAZY\n"),
        ("A dog.[^1]\n\n[^1]: The `cat\n    cow` is.\n\n    A bird.\n", None),
        ("!!! note\n    The dog\n", "!!! note\n    THE DOG\n"),
    ],
)
def test_marks_stay_whole(text: str, expected: str | None) -> None:
    written = shouted(text)
    assert written == (expected or "A DOG.[^1]\n\n[^1]: THE `cat\n    cow` IS.\n\n    A BIRD.\n")


@pytest.mark.parametrize(
    "line",
    [
        "# x", "###### x", "- x", "+ x", "* x", "1. x", "2) x", "> x", "~~~", "---", "===", "-", "=", "* * *", "___",
        "| a | b |", "--|--", "```js", "[x]: y", "<div> a", "    code", "<!-- x",
    ],
)  # fmt: skip
@pytest.mark.parametrize("text", ["The dog sleeps.\n", "Hello you.  \nThe dog sleeps.\n", "> A dog\\\n> sleeps.\n"])
def test_a_translated_line_begins_no_block(line: str, text: str) -> None:
    written = translate_document(
        text.encode(), "a.md", lambda texts: [line for _ in texts], options=ENGLISH_FRENCH
    ).data

    def blocks(document: str) -> list[str]:
        return [token.type for token in COMMONMARK.parse(document)]

    assert blocks(written.decode()) == blocks(text)


def test_values_of_the_front_matter_may_be_folded() -> None:
    text = (
        '---\ntitle: "The dog"\nlayout: post\ndescription: >\n  The cat\n  sleeps.\n\n  A cow.\nsummary: the dog\n'
        "  sleeps\nexcerpt: |-\n  A bird\n---\nThe house\n"
    )
    expected = (
        '---\ntitle: "THE DOG"\nlayout: post\ndescription: >\n  THE CAT\n  SLEEPS.\n\n  A COW.\nsummary: THE DOG\n'
    )
    assert shouted(text).startswith(expected)
    assert shouted(text).endswith("excerpt: |-\n  A BIRD\n---\nTHE HOUSE\n")


@pytest.mark.parametrize("value", ["yes", "a: b", "- a", "[a]", "# a", "'a", "12.5", "@a", "a #b"])
def test_a_value_of_the_front_matter_stays_text(value: str) -> None:
    data = b"---\ntitle: The dog\n---\n"
    written = translate_document(data, "a.md", lambda texts: [value for _ in texts]).data.decode()
    assert written == f'---\ntitle: "{value}"\n---\n'


@pytest.mark.parametrize(
    "kept",
    [
        "Words here:\n\n    1. code in a row\n    2. more code\n",
        "# A title\n\t* code behind a title\n",
        "   1. An item\n\n   APPENDIX of words\n\n      code behind the list\n",
        "- a\n-     code in an item\n",
    ],
)
def test_indented_lines_outside_of_a_list_are_code(kept: str) -> None:
    written = translate_document(kept.encode(), "a.md", shouting, align=in_order, options=ENGLISH_FRENCH).data.decode()
    assert [line for line in written.split("\n") if "code" in line] == [
        line for line in kept.split("\n") if "code" in line
    ]


def test_a_link_whose_name_goes_over_a_line_break_is_kept() -> None:
    text = "See [the big\ndog] and [a cat][of words].\n\n[the big dog]: a.html\n"
    written = translate_document(text.encode(), "a.md", shouting, align=in_order, options=ENGLISH_FRENCH).data.decode()
    assert written == text.replace("See", "SEE").replace("and [a cat][of words]", "AND [A CAT][OF WORDS]")
