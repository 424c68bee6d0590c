"""Vocabularies of the kind unigram: lossless for any text, the same each time, and cut as by SentencePiece."""

from __future__ import annotations

import builtins
import random
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from tests.unit.interop.translators import phrases

from dikkat.config import TokenizerConfig
from dikkat.interop.sentencepiece_file import pieces_of, sentencepiece_file
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.special_tokens import SPECIAL_TOKENS
from dikkat_runtime.text.tokenizer import Tokenizer, read_tokenizer

sentencepiece = pytest.importorskip("sentencepiece", reason="needs sentencepiece, of the extra [test]")

TEXTS = [*phrases(600)[0], *phrases(600)[1]]
ODD_TEXTS = [
    "", " ", "  ", " a", "a ", "  leading,  inner and trailing   ", "tab\tline\nline\r\nnul\0 end \n",
    "<eos> <pad><bos></s><s> <unk><0x41>", "👩‍🚒🇹🇷 ﷽ e\u0301 \u0301 가각 日本語", "\u00a0\u202f\u2028\u200b\ufeff",
    "İstanbul’da 1.234,56 €", "\uffff hidden \uffff", "⁇ ▅", "x" * 5000, "ﬁne ½ Ⅷ",
]  # fmt: skip
TYPED_SPACES = ["▁", "▁▁ ▁dog", " ▁ ", "\ufdd0▁\ufdd0▁x", "The▁dog", "▁語▁"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXTS, TokenizerConfig(kind="unigram", vocab_size=600))


def hostile_texts(count: int) -> list[str]:
    """Random characters of all of Unicode, signs that a vocabulary has, and whole sentences, in any order."""
    draw = random.Random(46)
    every = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) != "Cs"]
    sources: list[Any] = [every, " ▁\ufdd0\uffff<>/0x\n\t\r\0", TEXTS, [*SPECIAL_TOKENS, "</s>", "<0x41>", "▅"]]
    return ["".join(draw.choice(draw.choice(sources)) for _ in range(draw.randrange(25))) for _ in range(count)]


def test_every_text_is_given_back_and_nothing_is_unknown(tokenizer: Tokenizer) -> None:
    texts = [*ODD_TEXTS, *TYPED_SPACES, *hostile_texts(1000)]
    batch = tokenizer.encode_batch(texts)
    assert tokenizer.decode_batch(batch) == texts
    for text, ids in zip(texts, batch, strict=True):
        assert min(ids, default=4) >= len(SPECIAL_TOKENS)
        assert tokenizer.encode(text) == ids
        written, spans = tokenizer.spans(text)
        assert written == text
        assert len(spans) == len(ids)
        assert all(0 <= start <= end <= len(text) for start, end in spans)


def test_a_loaded_vocabulary_gives_every_text_back(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json", tokenizer.vocab_size)
    texts = [*ODD_TEXTS, *TYPED_SPACES, *TEXTS[:50]]
    assert loaded.encode_batch(texts) == tokenizer.encode_batch(texts)
    assert loaded.decode_batch(loaded.encode_batch(texts)) == texts


def test_sentencepiece_cuts_and_joins_as_we_do(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    settings, _ = read_tokenizer(tmp_path / "tokenizer.json")
    model = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_file(pieces_of(settings), settings))
    # entries begin with our four special ones, and theirs with an end mark and the unknown
    assert len(model) == tokenizer.vocab_size - 2
    texts = [text for text in (*ODD_TEXTS, *TEXTS) if "<" not in text]
    for text in texts:
        ids = [number + 2 for number in model.encode(text)]
        assert ids == tokenizer.encode(text)
        assert model.decode([number - 2 for number in ids]) == text


def test_bytes_that_are_no_characters_are_told_as_by_sentencepiece(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "tokenizer.json")
    settings, _ = read_tokenizer(tmp_path / "tokenizer.json")
    model = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_file(pieces_of(settings), settings))
    # which no text is cut to, since a space is a piece; SentencePiece keeps it at the beginning
    never = tokenizer.entries.index("<0x20>")
    draw, every = random.Random(7), [number for number in range(4, tokenizer.vocab_size) if number != never]
    lead = [tokenizer.entries.index(f"<0x{byte:02X}>") for byte in (0xE2, 0x96, 0x81, 0xF0, 0x9F, 0x41, 0xC3, 0xA9)]
    rows = [[draw.choice(draw.choice([lead, every])) for _ in range(draw.randrange(1, 12))] for _ in range(300)]
    assert tokenizer.decode_batch(rows) == [model.decode([number - 2 for number in row]) for row in rows]


def test_a_vocabulary_has_all_bytes_and_stays_within_its_limit() -> None:
    chinese = "".join(map(chr, range(0x4E00, 0x5000))) * 3
    for texts, size in ((TEXTS, 301), ([chinese], 301), (["a"], 301), (TEXTS, 800)):
        learned = Tokenizer.train(texts, TokenizerConfig(kind="unigram", vocab_size=size))
        assert 4 + 256 < learned.vocab_size <= size
        assert {f"<0x{byte:02X}>" for byte in range(256)} < set(learned.entries)
        assert len(set(learned.entries)) == learned.vocab_size
    assert learned.vocab_size == 800


def test_frequent_words_are_one_piece_and_digits_stand_alone() -> None:
    learned = Tokenizer.train(["the lighthouse of 2024"] * 9 + TEXTS, TokenizerConfig(kind="unigram", vocab_size=700))
    assert learned.pieces(learned.encode("The dog")) == ["▁The", "▁dog"]
    assert [label for label in learned.labels(learned.encode("2024")) if label != "▁"] == ["2", "0", "2", "4"]


def test_what_cannot_be_learned_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="the text to learn a vocabulary from has no words"):
        Tokenizer.train(["", " \n"], TokenizerConfig(kind="unigram"))
    with pytest.raises(UsageError, match="cannot lower-case a text; choose bpe, or lowercase = false"):
        Tokenizer.train(TEXTS, TokenizerConfig(kind="unigram", lowercase=True))
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "sentencepiece":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r"pip install 'dikkat\[unigram\]', or choose bpe"):
        Tokenizer.train(TEXTS, TokenizerConfig(kind="unigram"))
