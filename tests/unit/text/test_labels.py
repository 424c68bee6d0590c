"""Bytes never meet a person: what a token holds of a character is shown as that character."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dikkat.config import TokenizerConfig
from dikkat_runtime.text.tokenizer import Tokenizer, bytes_of, whole_characters


@pytest.mark.parametrize(
    ("pieces", "labels"),
    [
        (["▁très", "<eos>"], ["▁très", "<eos>"]),
        (["▁d", "\\xc3", "\\xa9", "\\xc3", "\\xa7", "u"], ["▁d", "é(1/2)", "é(2/2)", "ç(1/2)", "ç(2/2)", "u"]),
        (["▁k\\xc4", "\\xb1z"], ["▁kı(1/2)", "ı(2/2)z"]),
        (["▁\\xf0\\x9f", "\\x98", "\\x80!"], ["▁😀(1-2/4)", "😀(3/4)", "😀(4/4)!"]),
        (["▁\\xe8", "\\xaf\\xad\\xe8", "\\xa8\\x80"], ["▁语(1/3)", "语(2-3/3)言(1/3)", "言(2-3/3)"]),
        # no character, or not yet: another token in between, the end, a byte that no text has, half a surrogate pair
        (["\\xc3", "a", "\\xa9"], ["\ufffd", "a", "\ufffd"]),
        (["\\xf0\\x9f", "\\x98"], ["\ufffd", "\ufffd"]),
        (["\\xff\\xc3", "\\xa9"], ["\ufffdé(1/2)", "é(2/2)"]),
        (["\\xc3", "<eos>", "\\xa9"], ["\ufffd", "<eos>", "\ufffd"]),
        (["\\n", "\\t"], ["\\n", "\\t"]),
        ([], []),
    ],
)
def test_a_part_of_a_character_is_shown_as_the_character(pieces: list[str], labels: list[str]) -> None:
    assert whole_characters(pieces) == labels


BYTES = Tokenizer.train(["a"], TokenizerConfig(kind="bytes"))
FEW_MERGES = Tokenizer.train(
    ["the très the très 语 语 语言 güzel"] * 9, TokenizerConfig(vocab_size=301, min_frequency=1)
)


@settings(max_examples=300, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
@pytest.mark.parametrize("tokenizer", [BYTES, FEW_MERGES], ids=["bytes", "bpe"])
def test_labels_stand_for_the_bytes_of_the_tokens(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    labels, pieces = tokenizer.labels(ids), tokenizer.pieces(ids)
    assert not re.search(r"\\x[0-9a-f]{2}", "".join(labels))
    assert [bytes_of(label) for label in labels] == [bytes_of(piece) for piece in pieces]


def test_labels_of_whole_words_and_characters_are_their_pieces() -> None:
    words = Tokenizer.train([r"a \xc3 é(1/2)"], TokenizerConfig(kind="words", min_frequency=1))
    assert words.labels(words.encode(r"\xc3 é(1/2)")) == [r"\xc3", "é(1/2)"]
