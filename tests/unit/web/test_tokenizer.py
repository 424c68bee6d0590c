"""The tokenizer in JavaScript gives the ids, the text, the labels and the words of the one in Python."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any, Literal

import pytest
import tokenizers
from tests.browser_engine import in_node
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers

from dikkat.config import build_config
from dikkat.explain.attention_map import Words
from dikkat_runtime.text.foreign_tokenizer import ForeignTokenizer
from dikkat_runtime.text.pieces import LLAMA_PIECE, QWEN_PIECE
from dikkat_runtime.text.tokenizer import Tokenizer

CORPUS = [
    "The old man's dog isn't tired.",
    "L'eau de l'été à Noël, c'est 42 fois.",
    "İstanbul'da IŞIK ılık, değil mi?",
    "A zoo",
]
PARTS = [
    "The ", "old", "man's", " isn’t", "tired", ".", "  ", "\t", "\n", "\r\n", "\u0085", "\ufeff",
    "\u00a0", "\u202f", "\u2028", "<eos>", "<pad>", "<b>", "&amp;", "İ", "I", "ı", "i\u0307",
    "I\u0307", "Σ", "ΟΔΥΣΣΕΥΣ", "ß", "é", "e\u0301", "ﬁ", "漢字", "日本語", "👩‍👩‍👧‍👦", "🇹🇷", "שלום",
    "مرحبا", "\u202e", "\u200d", "\u0000", "\u0001", "123", "٣", "½", "a\u0308b", "'", "''", "’",
    "-", "—", "...", "x" * 30, "o" * 3, "o" * 5,
]  # fmt: skip
CODE = """
const tokenizer = new engine.Tokenizer(input.tokenizer, input.language);
return input.texts.map((text) => {
  const ids = tokenizer.encode(text);
  const { wordNumbers, words } = engine.wordsOf(tokenizer, [...ids, 2], text);
  return { ids, text: tokenizer.decode(ids), labels: engine.labelsOf(tokenizer, ids), wordNumbers, words };
});
"""
Kind = Literal["bpe", "words", "characters", "bytes"]


def texts() -> list[str]:
    generator = random.Random(5)
    mixed = ["".join(generator.choices(PARTS, k=generator.randint(1, 8))) for _ in range(300)]
    return [*CORPUS, *PARTS, *mixed, ""]


@pytest.mark.parametrize(
    ("kind", "lowercase", "language"),
    # by day Turkish in lower case and English as it is: lower case is where the languages differ
    [
        pytest.param(kind, lowercase, language, marks=() if lowercase == (language == "tr") else pytest.mark.nightly)
        for kind in ("bpe", "words", "characters", "bytes")
        for lowercase in (False, True)
        for language in ("en", "tr")
    ],
)
def test_every_kind_of_vocabulary(tmp_path: Path, kind: Kind, lowercase: bool, language: str) -> None:
    config = build_config({"tokenizer": {"kind": kind, "vocab_size": 420, "min_frequency": 1, "lowercase": lowercase}})
    trained = Tokenizer.train(CORPUS * 4, config.tokenizer, (language, language))
    trained.save(tmp_path / "tokenizer.json")
    tokenizer = Tokenizer.load(tmp_path / "tokenizer.json", language=language)
    given = {
        "tokenizer": json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8")),
        "language": language,
        "texts": texts(),
    }
    found: list[dict[str, Any]] = in_node(tmp_path / "node", CODE, given)
    for text, answer in zip(texts(), found, strict=True):
        ids = tokenizer.encode(text)
        assert answer["ids"] == ids, repr(text)
        assert answer["text"] == tokenizer.decode(ids), repr(text)
        assert answer["labels"] == tokenizer.labels(ids), repr(text)
        if kind == "bpe":
            words = Words.of((*tokenizer.labels(ids), "<eos>"), text, spaced=True)
            assert answer["wordNumbers"] == words.members.argmax(axis=0).tolist(), repr(text)
            assert answer["words"] == list(words.names), repr(text)


def test_half_a_surrogate_pair_is_a_replacement_character(tmp_path: Path) -> None:
    config = build_config({"tokenizer": {"vocab_size": 400, "min_frequency": 1}})
    tokenizer = Tokenizer.train(CORPUS, config.tokenizer)
    tokenizer.save(tmp_path / "tokenizer.json")
    given = {"tokenizer": json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8")), "language": ""}
    body = CODE.replace("input.texts", '["a\\ud800b"]')
    ((answer),) = in_node(tmp_path / "node", body, given)
    assert answer["ids"] == tokenizer.encode("a\ufffdb")


def test_no_text_is_read_in_part(tmp_path: Path) -> None:
    """A classifier reads the end of a long text, so that the end of a cut one would be another text."""
    config = build_config({"tokenizer": {"kind": "words", "vocab_size": 420, "min_frequency": 1}})
    Tokenizer.train(CORPUS * 4, config.tokenizer).save(tmp_path / "tokenizer.json")
    given = {
        "tokenizer": json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8")),
        "texts": ["dog " * 24_999 + "tired", "x" * 100_001, "dog " * 24_999],
    }
    code = """
    const tokenizer = new engine.Tokenizer(input.tokenizer);
    const read = input.texts.map((text) => engine.readText(tokenizer, text, 25000));
    return read.map(({ ids, ...others }) => others);
    """
    *long, last = in_node(tmp_path / "node", code, given)
    assert [each["isCut"] for each in long] == [True, True]
    assert last == {"text": "dog " * 24_999}


def byte_level(*cutters: Any, **settings: Any) -> tokenizers.Tokenizer:
    """Byte-level BPE as imported models have it, with two special tokens first."""
    inner = tokenizers.Tokenizer(models.BPE(**settings))
    inner.pre_tokenizer = pre_tokenizers.Sequence(list(cutters))
    inner.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=["<|endoftext|>", "<b>"], initial_alphabet=alphabet)
    inner.train_from_iterator(CORPUS * 4, trainer)
    return inner


def qwen() -> tokenizers.Tokenizer:
    split = pre_tokenizers.Split(Regex(QWEN_PIECE), behavior="isolated")
    inner = byte_level(split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    inner.normalizer = normalizers.NFC()
    return inner


def llama3() -> tokenizers.Tokenizer:
    """One of its entries is no result of merges."""
    split = pre_tokenizers.Split(Regex(LLAMA_PIECE), behavior="isolated")
    inner = byte_level(split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False), ignore_merges=True)
    settings = json.loads(inner.to_str())
    settings["model"]["vocab"]["x" * 30] = len(settings["model"]["vocab"])
    settings["model"]["vocab"]["tired"] = len(settings["model"]["vocab"])
    return tokenizers.Tokenizer.from_str(json.dumps(settings))


def neox() -> tokenizers.Tokenizer:
    """Runs of spaces, and what stands alone, are entries that were added; special ones are not read."""
    inner = byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False))
    inner.normalizer = normalizers.NFC()
    inner.add_tokens([AddedToken("  ", normalized=True), AddedToken("    ", normalized=True)])
    inner.add_tokens([AddedToken("old", single_word=True, normalized=False), AddedToken("&amp;", lstrip=True)])
    inner.add_tokens([AddedToken("\u00e9", normalized=True)])
    return inner


def gemma() -> tokenizers.Tokenizer:
    """Characters are merged across spaces, and what has no entry is spelled in bytes."""
    characters = sorted(set("".join(CORPUS).replace(" ", "\u2581")))
    entries = ["<pad>", "<eos>", "<bos>", "<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *characters]
    merges = [("t", "h"), ("\u2581", "o"), ("\u2581o", "l"), ("n", "'"), ("e", "s"), ("T", "h")]
    vocabulary = {entry: number for number, entry in enumerate([*entries, *map("".join, merges)])}
    inner = tokenizers.Tokenizer(models.BPE(vocabulary, merges, byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    inner.normalizer = normalizers.Replace(" ", "\u2581")
    inner.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    inner.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    inner.add_special_tokens(entries[:4])
    return inner


IMPORTED = {
    "gpt2": lambda: byte_level(pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "prefix": lambda: byte_level(pre_tokenizers.ByteLevel(add_prefix_space=True)),
    "smollm": lambda: byte_level(pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)),
    "qwen": qwen,
    "llama3": llama3,
    "neox": neox,
    "gemma": gemma,
}
TYPED = ["I'LL", "we'\u017f 12345", "x<b>y", "    a  b   ", "oldest old &amp;", "<|endoftext|>", "tired\n\n  so"]


@pytest.mark.parametrize("name", IMPORTED)
def test_vocabularies_of_imported_models(tmp_path: Path, name: str) -> None:
    inner = IMPORTED[name]()
    given = {"tokenizer": json.loads(inner.to_str()), "language": "", "texts": [*texts(), *TYPED]}
    tokenizer = ForeignTokenizer(inner)
    found: list[dict[str, Any]] = in_node(tmp_path, CODE, given)
    for text, answer in zip(given["texts"], found, strict=True):
        ids = tokenizer.encode(text)
        assert answer["ids"] == ids, repr(text)
        assert answer["text"] == tokenizer.decode(ids), repr(text)
