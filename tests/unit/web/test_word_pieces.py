"""Word pieces in JavaScript: the ids, words and places in the text that the `tokenizers` library gives."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from tests.browser_engine import in_node
from tests.unit.interop.checkpoints import bert_tokenizer, word_piece_tokenizer
from tests.unit.web.test_tokenizer import texts

CORPUS = [
    "The quick brown fox isn't tired, is it?",
    "Küçük kedi İstanbul'da uyuyor.",
    "ein längeres Wort: Überraschung",
]
CODE = """
const tokenizer = new engine.WordPieceTokenizer(input.tokenizer);
const characters = (text, end) => Array.from(text.slice(0, end)).length;
return input.texts.map((text) => {
  const places = (at) => characters(text, at);
  return tokenizer.placed(text).map(({ id, word, start, end }) => [id, word, places(start), places(end)]);
});
"""


def both(tmp_path: Path, settings: dict[str, Any], given: list[str]) -> tuple[list[Any], list[Any]]:
    """What the engine in JavaScript and the library say of texts: id, word, start and end of each token."""
    inner = tokenizers.Tokenizer.from_str(json.dumps(settings))
    inner.encode_special_tokens = True
    inner.no_truncation()
    inner.no_padding()
    encoded = inner.encode_batch(given, add_special_tokens=False)
    theirs = [
        [[number, word, *span] for number, word, span in zip(one.ids, one.word_ids, one.offsets, strict=True)]
        for one in encoded
    ]
    return in_node(tmp_path, CODE, {"tokenizer": settings, "texts": given}), theirs


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"lowercase": False},
        {"strip_accents": False, "handle_chinese_chars": False},
        {"lowercase": False, "strip_accents": True, "clean_text": False},
    ],
)
def test_texts_have_the_tokens_of_the_library(tmp_path: Path, changes: dict[str, bool]) -> None:
    settings = json.loads(word_piece_tokenizer(CORPUS).to_str())
    settings["normalizer"] |= changes
    ours, theirs = both(
        tmp_path, settings, [*CORPUS, *texts(), "fox" * 34, "fox" * 33, "[CLS] fox [SEP]", "日本語 fox"]
    )
    assert ours == theirs


def test_whole_words_are_looked_up(tmp_path: Path) -> None:
    ours, theirs = both(tmp_path, json.loads(bert_tokenizer().to_str()), ["the dog sees a cat.", "The dog", ""])
    assert ours == theirs


LARGE_BLOCKS = 0x3400
"""From here on stand ideographs, syllables and private characters by the ten thousand: by day one in sixteen."""


@pytest.mark.parametrize(("step", "max_others"), [pytest.param(1, 700, marks=pytest.mark.nightly), (16, 150)])
def test_every_character_is_read_as_the_library_reads_it(tmp_path: Path, step: int, max_others: int) -> None:
    """The tables of the library are those of Unicode 8; characters that came later may have another category here."""
    settings = json.loads(word_piece_tokenizer(CORPUS).to_str())
    codes = [*range(1, LARGE_BLOCKS), *range(LARGE_BLOCKS, 0x110000, step)]
    letters = [chr(code) for code in codes if unicodedata.category(chr(code)) not in ("Cn", "Cs")]
    ours, theirs = both(tmp_path, settings, [f"a{letter}b c" for letter in letters])
    others = [letter for letter, own, wanted in zip(letters, ours, theirs, strict=True) if own != wanted]
    assert len(letters) > LARGE_BLOCKS / 2 + 200_000 / step
    assert len(others) < max_others
    assert min(others) > "\u0600"


def test_words_on_the_page_are_those_between_white_space(tmp_path: Path) -> None:
    settings = json.loads(word_piece_tokenizer(CORPUS).to_str())
    body = """
    const tokenizer = new engine.WordPieceTokenizer(input.tokenizer);
    return input.texts.map((text) => {
      const ids = [2, ...tokenizer.encode(text), 3];
      return engine.placedWords(tokenizer, ids, text, tokenizer.placed(text), [1, 1]).words;
    });
    """
    given = {"tokenizer": settings, "texts": ["The fox isn't  tired?!", "a 日本 b", "e\u0301a c"]}
    assert in_node(tmp_path, body, given) == [
        ["[CLS]", "The", "fox", "isn't", "tired?!", "[SEP]"],
        ["[CLS]", "a", "日", "本", "b", "[SEP]"],
        ["[CLS]", "e\u0301a", "c", "[SEP]"],
    ]
