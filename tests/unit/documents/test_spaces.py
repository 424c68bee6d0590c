"""No space between words of a page is lost or added, whatever tags stand beside it; the standard library reads both."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.documents.stand_ins import ENGLISH_FRENCH, in_order, in_reverse, reversing, same, shouting

from dikkat_runtime.documents.documents import translate_document

ALONE = (
    '<img src="k.png">', "<!-- c -->", "<?pi x?>", "<br>", "<br/>", "<wbr>", "<input type=text>", "<a id=n></a>",
    "<span></span>", "<x-tip></x-tip>", "<i><!-- c --></i>", "<wbr><!-- c -->", "<code>x</code>", "<svg><g/></svg>",
)  # fmt: skip
FRAMES = (
    "<b>The dog sleeps.{}</b> <i>The cat</i> sees it.", "<b>{}The dog</b> <i>sleeps</i>.", "<b>The dog {}</b> sleeps.",
    "The dog <b>{} sleeps</b> here.", "The dog <b>{}</b> sleeps.", "The <b>dog</b>{} <i>sleeps</i> now.",
    "The <b>dog </b> {}<i> sleeps</i> now.", "The dog <u><b>sleeps {} </b></u> now.", "The dog{} <b>sleeps</b>.",
    "<b>The <i>dog {}</i></b>\n<u>sleeps</u> now.", "The dog sleeps <b>{}</b>", "{} <b>The</b> dog.", "The dog,{} now.",
)  # fmt: skip


class Text(HTMLParser):
    """The text of a page without what no reader sees as text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.parts: list[str] = []
        self.feed(page)
        self.close()

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def text_of(page: bytes) -> str:
    return "".join(Text(page.decode()).parts)


def assert_nothing_is_glued(page: str) -> None:
    data = page.encode()
    unchanged = translate_document(data, "a.html", same, align=in_order, options=ENGLISH_FRENCH).data
    assert text_of(unchanged) == text_of(data)
    loud = translate_document(data, "a.html", shouting, align=in_order, options=ENGLISH_FRENCH).data
    assert text_of(loud).upper() == text_of(data).upper()
    back = translate_document(data, "a.html", reversing, align=in_reverse, options=ENGLISH_FRENCH).data
    assert words(back) == words(data)


def words(page: bytes) -> list[str]:
    return sorted(text_of(page).replace(".", " ").replace(",", " ").split())


@pytest.mark.parametrize("frame", FRAMES)
def test_spaces_beside_a_tag_that_holds_no_text_stay(frame: str) -> None:
    for alone in ALONE:
        assert_nothing_is_glued(f"<p>{frame.format(alone)}</p>")


WORDS = st.sampled_from(("dog", "cat.", "house", "tree,", "bird"))
PIECES = st.recursive(
    st.one_of(WORDS, st.sampled_from(ALONE)),
    lambda inner: st.builds(
        lambda name, before, parts, after: f"<{name}>{before}{' '.join(parts)}{after}</{name}>",
        st.sampled_from(("b", "i", "u", "a", "span")),
        st.sampled_from(("", " ")),
        st.lists(inner, max_size=4),
        st.sampled_from(("", " ")),
    ),
    max_leaves=12,
)


@given(st.lists(PIECES, max_size=6))
def test_spaces_of_any_nesting_stay(pieces: list[str]) -> None:
    assert_nothing_is_glued(f"<p>{' '.join(pieces)}</p>")
