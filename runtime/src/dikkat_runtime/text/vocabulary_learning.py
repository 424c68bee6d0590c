"""Make the tokenizers that learn a vocabulary from text, one function a kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal, Protocol

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from dikkat_runtime.errors import UsageError
from dikkat_runtime.special_tokens import SPECIAL_TOKENS, UNK_ID
from dikkat_runtime.text.unigram_learning import learn_unigram

# Pieces that no merge may cross. A word keeps its inner apostrophes, so that the data decides whether the cut comes
# after it (French l'|eau), before it (Turkish İstanbul|'da) or not at all (English don't). A digit stands alone.
# Brackets never share a piece with letters, so no merge can ever spell "<eos>".
WORD_PIECE = r" ?\p{L}[\p{L}\p{M}]*(?:['’]\p{L}[\p{L}\p{M}]*)*| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# Cuts a hand-typed "<eos>" in two, so that the word list cannot look it up as the special token.
TYPED_SPECIAL = r"<(?=(?:pad|bos|eos|unk)>)"
MARKS = "[,.!?]"
CHARACTER = r"[\s\S]"
_NO_BREAK_SPACES = "\u202f\u00a0"


class VocabularySettings(Protocol):
    """Hold what a vocabulary is learned by."""

    @property
    def kind(self) -> Literal["bpe", "unigram", "words", "characters", "bytes"]: ...

    @property
    def vocab_size(self) -> int: ...

    @property
    def min_frequency(self) -> int: ...

    @property
    def lowercase(self) -> bool: ...


def learned_tokenizer(config: VocabularySettings, texts: Iterable[str]) -> tokenizers.Tokenizer:
    """Learn the vocabulary of `config` from texts whose casing is already done.

    The kind unigram is learned by SentencePiece, since the trainer of `tokenizers` gives other ids each time; see
    `learn_unigram` for what it raises.
    """
    if config.kind == "unigram":
        if config.lowercase:
            raise UsageError("tokenizer.kind = unigram leaves a text as it is; choose bpe, or lowercase = false")
        return learn_unigram(texts, config.vocab_size)
    if config.kind == "bytes":
        return _all_bytes(config)
    if config.kind == "characters":
        return _all_characters(config, texts)
    inner = {"bpe": _new_bytes, "words": _new_words}[config.kind](config)
    inner.train_from_iterator(texts, _trainer(config))
    return inner


def _new_bytes(config: VocabularySettings) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(models.BPE())
    lowercase = [normalizers.Lowercase()] if config.lowercase else []
    inner.normalizer = normalizers.Sequence([normalizers.NFC(), *lowercase, normalizers.Prepend(" ")])
    split = pre_tokenizers.Split(Regex(WORD_PIECE), behavior="isolated")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.pre_tokenizer = pre_tokenizers.Sequence([split, to_bytes])
    inner.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", left=1, right=0)])
    return inner


def _new_words(config: VocabularySettings) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(models.WordLevel(unk_token=SPECIAL_TOKENS[UNK_ID]))
    lowercase = [normalizers.Lowercase()] if config.lowercase else []
    plain_spaces = normalizers.Replace(Regex(f"[{_NO_BREAK_SPACES}]"), " ")
    inner.normalizer = normalizers.Sequence([normalizers.NFC(), plain_spaces, *lowercase])
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.WhitespaceSplit(),
            pre_tokenizers.Split(Regex(MARKS), behavior="isolated"),
            pre_tokenizers.Split(Regex(TYPED_SPECIAL), behavior="isolated"),
        ]
    )
    return inner


def _all_characters(config: VocabularySettings, texts: Iterable[str]) -> tokenizers.Tokenizer:
    """The most frequent characters, however rare; of equally frequent ones the lower code point comes first."""
    lowercase = normalizers.Lowercase() if config.lowercase else None
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text if lowercase is None else lowercase.normalize_str(text))
    entries = [*SPECIAL_TOKENS, *sorted(counts, key=lambda character: (-counts[character], character))]
    numbers = {entry: number for number, entry in enumerate(entries[: config.vocab_size])}
    inner = tokenizers.Tokenizer(models.WordLevel(numbers, unk_token=SPECIAL_TOKENS[UNK_ID]))
    inner.add_special_tokens(list(SPECIAL_TOKENS))
    if lowercase is not None:
        inner.normalizer = lowercase
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(CHARACTER), behavior="isolated")
    inner.decoder = decoders.Fuse()
    return inner


def _all_bytes(config: VocabularySettings) -> tokenizers.Tokenizer:
    """Nothing is learned: a byte-level BPE without merges."""
    entries = [*SPECIAL_TOKENS, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    inner = tokenizers.Tokenizer(models.BPE({entry: number for number, entry in enumerate(entries)}, []))
    inner.add_special_tokens(list(SPECIAL_TOKENS))
    if config.lowercase:
        inner.normalizer = normalizers.Lowercase()
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    return inner


def _trainer(config: VocabularySettings) -> trainers.Trainer:
    common: dict[str, Any] = {
        "vocab_size": config.vocab_size,
        "min_frequency": config.min_frequency,
        "special_tokens": list(SPECIAL_TOKENS),
        "show_progress": False,
    }
    if config.kind == "words":
        return trainers.WordLevelTrainer(**common)
    return trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **common)
