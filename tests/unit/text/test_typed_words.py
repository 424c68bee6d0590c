"""Words are shown as they were typed, whatever the vocabulary makes of them."""

from __future__ import annotations

from typing import Any

import pytest

from dikkat.config import TokenizerConfig
from dikkat_runtime.tasks.decisive_words import typed_words
from dikkat_runtime.text.tokenizer import Tokenizer

KINDS = ("bpe", "words", "characters", "bytes")


def tokenizer(kind: Any, lowercase: bool = True, language: str = "") -> Tokenizer:
    settings = TokenizerConfig(kind=kind, vocab_size=320, lowercase=lowercase)
    return Tokenizer.train(["the food was good, and the plot too"] * 3, settings, (language, language))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize(
    "text",
    [
        "the food was très déçu 😀 and Çok güzel",
        "  The   GOOD\tplot , too. ",
        "👩‍👩‍👧 🇹🇷 İstanbul'da",
        "e\u0301te\u0301 don't",
        "",
        "   ",
    ],
)
def test_words_are_those_between_spaces_and_every_token_is_in_one(kind: str, lowercase: bool, text: str) -> None:
    created = tokenizer(kind, lowercase)
    words = typed_words(created, text)
    assert [word.text for word in words] == text.split()
    tokens = [token for word in words for token in word.tokens]
    assert tokens == list(range(len(created.encode(text) if words else [])))
    assert all(word.tokens for word in words)


def test_turkish_letters_keep_their_case() -> None:
    created = tokenizer("bpe", language="tr")
    assert [word.text for word in typed_words(created, "IŞIK İyi I\u0307yi", "tr")] == ["IŞIK", "İyi", "İyi"]


@pytest.mark.parametrize("kind", ["bpe", "bytes", "characters"])
def test_a_script_without_spaces_is_parted_between_characters(kind: str) -> None:
    created = tokenizer(kind)
    words = typed_words(created, "the 好吃的 กิ plot")
    assert [word.text for word in words] == ["the", "好", "吃", "的", "กิ", "plot"]
    assert sorted(token for word in words for token in word.tokens) == list(
        range(len(created.encode("the 好吃的 กิ plot")))
    )
