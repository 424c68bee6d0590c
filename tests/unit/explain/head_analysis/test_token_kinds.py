"""What is a word and what is none."""

from __future__ import annotations

import pytest

from dikkat.explain.head_analysis.head_stats import is_punctuation, is_special


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (".", (False, True)), ("▁...", (False, True)), ("▁«", (False, True)), ("▁dog", (False, False)),
        ("7", (False, False)), ("▁don't", (False, False)), ("▁", (False, False)), ("水", (False, False)),
        ("<eos>", (True, False)), ("<bos>", (True, False)), ("<unk>", (False, False)), ("\\xc4", (False, False)),
    ],
)  # fmt: skip
def test_tokens(token: str, expected: tuple[bool, bool]) -> None:
    assert (is_special(token), is_punctuation(token)) == expected
