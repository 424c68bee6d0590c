"""Text that comes token by token."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dikkat.config import TokenizerConfig
from dikkat_runtime.text.text_stream import TextStream
from dikkat_runtime.text.tokenizer import Tokenizer

TEXTS = ["the cat sat on the mat, the cat sat\n", "çok güzel 漢字 😀"]
KINDS = {kind: Tokenizer.train(TEXTS, TokenizerConfig(kind=kind)) for kind in ("bytes", "characters", "bpe", "words")}


def told(stream: TextStream, ids: list[int]) -> list[str]:
    return [*(stream.feed(token) for token in ids), stream.end()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cut", [0, 1, 3])
def test_the_pieces_are_the_text(kind: str, cut: int) -> None:
    tokenizer = KINDS[kind]
    for text in TEXTS:
        ids = tokenizer.encode(text)
        whole, before = tokenizer.decode(ids), tokenizer.decode(ids[:cut])
        assert before + "".join(told(TextStream(tokenizer, ids[:cut]), ids[cut:])) == whole or "\ufffd" in before


def test_no_character_is_ever_split() -> None:
    tokenizer = KINDS["bytes"]
    pieces = told(TextStream(tokenizer), tokenizer.encode("é😀!"))
    assert pieces == ["", "é", "", "", "", "😀", "!", ""]
    half = told(TextStream(tokenizer), [*tokenizer.encode("a😀")[:-1]])
    assert half == ["a", "", "", "", "\ufffd"], "bytes that never become a character are not swallowed"


@given(st.text("abX", max_size=12), st.lists(st.text("abX", max_size=3), max_size=3))
def test_the_text_ends_before_the_first_stop_string(text: str, stop: list[str]) -> None:
    tokenizer = KINDS["bytes"]
    stream = TextStream(tokenizer, stop=stop)
    pieces = told(stream, tokenizer.encode(text))
    ends = [text.find(item) for item in stop if item and item in text]
    # a stop string ends the text as soon as it is there; one that begins before and ends behind it comes too late
    first = (
        min((text.find(item) + len(item), text.find(item)) for item in stop if item and item in text) if ends else None
    )
    assert "".join(pieces) == (text if first is None else text[: first[1]])
    assert stream.stopped == bool(ends)


def test_a_possible_stop_is_held_back_until_it_is_none() -> None:
    tokenizer = KINDS["bytes"]
    assert told(TextStream(tokenizer, stop=["abc"]), tokenizer.encode("xababd")) == ["x", "", "", "ab", "", "abd", ""]
    assert told(TextStream(tokenizer, stop=["abc"]), tokenizer.encode("xab")) == ["x", "", "", "ab"]
