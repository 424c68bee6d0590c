"""Texts in pieces on disk: together they are the text, cut between words."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dikkat.data import documents
from dikkat.data.disk_arrays import DiskFile
from dikkat.data.documents import StoredText

PARTS = st.lists(st.text("ab\u00e7\U0001f600 \n\t\u0301", max_size=30), max_size=20)


@settings(max_examples=60)
@given(PARTS, st.floats(0, 1))
def test_the_pieces_are_the_text(parts: list[str], share: float) -> None:
    text = "".join(parts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "PIECE", 16)
        file = DiskFile(None)
        stored, other = StoredText.store(parts, file), StoredText.store(["other text"], file)
    assert "".join(stored) == text
    assert "".join(other) == "other text"
    assert (stored.size, stored.num_bytes) == (len(text), len(text.encode()))
    for before, after in pairwise(stored):
        assert after[0] in " \n"
        assert not before[-1].isspace()
        assert not after[1].isspace()
    index = int(share * len(text))
    first, rest = stored.cut(index)
    assert ("".join(first), "".join(rest)) == (text[:index], text[index:])


def test_a_long_text_comes_in_pieces_and_one_without_spaces_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "PIECE", 100)
    assert max(map(len, StoredText.store(["word " * 10_000], DiskFile(None)))) <= 100
    assert len(StoredText.store(["w" * 1_000] * 3, DiskFile(None))) == 1
