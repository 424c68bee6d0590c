"""Make the tokenizers that learn a vocabulary from text, one function a kind.

Learn the pieces of a unigram vocabulary by SentencePiece (Kudo 2018), and make a lossless tokenizer of them.

SentencePiece is given each word once, with the number of times that it stands in the text, in one order: the same
texts in any order give the same pieces, and memory grows with the number of different words.
"""

import io
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.files import write_errors
from dikkat_runtime.special_tokens import SPECIAL_TOKENS, UNK_ID
from dikkat_runtime.text.pieces import HIDDEN, SPACE, STAND_IN, piece_decoder, piece_pre_tokenizer

_SEED = 1
_BYTES = 256
_COVERAGE = 0.9995
"""Share of the characters of a text that have an entry, as SentencePiece itself takes; bytes write the others."""
_CHARACTERS = 0.75
"""Largest share of the entries beyond bytes that single characters take."""
_MAX_WORD_LENGTH = 1000
"""Characters; a longer word is learned from in parts of so many."""
_NEVER_A_PIECE = re.compile(f"[\0-\x1f\x7f-\x9f{SPACE}\u2585{HIDDEN}{STAND_IN}]")
"""What no piece holds: control characters, what stands for a space or an unknown, and what marks an entry."""
_MARK = re.compile(r"<(?=(?:pad|bos|eos|unk|blank|/?s|0x[0-9A-F]{2})>)")
"""Begins what would be an entry of its own in the vocabulary of some program."""


def learn_unigram(texts: Iterable[str], vocab_size: int) -> tokenizers.Tokenizer:
    """Learn a vocabulary of at most `vocab_size` entries, special tokens and the 256 bytes among them.

    Raises `UsageError` where sentencepiece is not installed, and `DataError` where the texts hold no word.
    """
    words = _words(texts)
    if not words:
        raise DataError("the text to learn a vocabulary from has no words")
    # one entry of SentencePiece, the unknown, stands for our four
    size = vocab_size - len(SPECIAL_TOKENS) + 1
    model = _trained(_of_frequent_characters(words, size - 1 - _BYTES), size)
    pieces = [(model.id_to_piece(number), float(model.get_score(number))) for number in range(1, len(model))]
    least = min(score for piece, score in pieces[_BYTES:])
    vocabulary = [(token, least) for token in SPECIAL_TOKENS]
    vocabulary += [(piece, least) for piece, _ in pieces[:_BYTES]] + pieces[_BYTES:]
    return lossless_tokenizer(vocabulary)


def lossless_tokenizer(vocabulary: Sequence[tuple[str, float]]) -> tokenizers.Tokenizer:
    """Return the tokenizer of a vocabulary with bytes, which leaves a text exactly as it is.

    A space is put before the text and taken off when decoding, as with byte-level BPE.
    """
    inner = tokenizers.Tokenizer(models.Unigram(list(vocabulary), UNK_ID, True))
    inner.normalizer = normalizers.Sequence([normalizers.Prepend(" ")])
    inner.pre_tokenizer = piece_pre_tokenizer(begins_with_space=False)
    inner.decoder = piece_decoder()
    inner.add_special_tokens(list(SPECIAL_TOKENS))
    return inner


def _words(texts: Iterable[str]) -> Counter[str]:
    """Count the words between spaces; what no piece may hold is a space as well."""
    words: Counter[str] = Counter()
    for text in texts:
        for word in _MARK.sub("< ", _NEVER_A_PIECE.sub(" ", text)).split(" "):
            if word:
                words.update(word[start : start + _MAX_WORD_LENGTH] for start in range(0, len(word), _MAX_WORD_LENGTH))
    return words


def _trained(words: Counter[str], size: int) -> Any:
    """Return the processor of the model that SentencePiece learns from these words."""
    try:
        import sentencepiece
    except ImportError:
        raise UsageError(
            "tokenizer.kind = unigram needs sentencepiece; pip install 'dikkat[unigram]', or choose bpe"
        ) from None
    written = io.BytesIO()
    with tempfile.TemporaryDirectory(prefix="dikkat-words-") as folder, write_errors(Path(folder)):
        file = Path(folder) / "words.tsv"
        file.write_text("".join(f"{word}\t{words[word]}\n" for word in sorted(words)), encoding="utf-8")
        sentencepiece.set_random_generator_seed(_SEED)
        sentencepiece.SentencePieceTrainer.train(
            input=os.fspath(file), input_format="tsv", model_writer=written, model_type="unigram", vocab_size=size,
            hard_vocab_limit=False, byte_fallback=True, split_digits=True, normalization_rule_name="identity",
            remove_extra_whitespaces=False, character_coverage=1.0,
            max_sentence_length=8 * _MAX_WORD_LENGTH, num_threads=1, minloglevel=2,
            unk_id=0, bos_id=-1, eos_id=-1, pad_id=-1,
        )  # fmt: skip
    return sentencepiece.SentencePieceProcessor(model_proto=written.getvalue())


def _of_frequent_characters(words: Counter[str], entries: int) -> Counter[str]:
    """Return the words cut at characters too rare for a vocabulary of so many entries beyond bytes."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    ranked = sorted(counts, key=lambda character: (-counts[character], character))
    covered, rare = 0, list[str]()
    for rank, character in enumerate(ranked):
        if covered >= _COVERAGE * counts.total() or rank >= max(1, int(_CHARACTERS * entries)):
            rare = ranked[rank:]
            break
        covered += counts[character]
    spaces = dict.fromkeys(map(ord, rare), " ")
    kept: Counter[str] = Counter()
    for word, count in words.items():
        for part in word.translate(spaces).split(" "):
            if part:
                kept[part] += count
    return kept


# Pieces that no merge may cross. A word keeps its inner apostrophes, so that the data decides whether the cut comes
# after it (French l'|eau), before it (Turkish İstanbul|'da) or not at all (English don't). A digit stands alone.
# Brackets never share a piece with letters, so no merge can ever spell "<eos>".
WORD_PIECE = r" ?\p{L}[\p{L}\p{M}]*(?:['’]\p{L}[\p{L}\p{M}]*)*| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# Cuts a hand-typed "<eos>" in two, so that the word list cannot look it up as the special token.
TYPED_SPECIAL = r"<(?=(?:pad|bos|eos|unk)>)"
MARKS = "[,.!?]"
CHARACTER = r"[\s\S]"
LEARNED_PATTERNS = (WORD_PIECE, TYPED_SPECIAL, MARKS, CHARACTER)
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
            raise UsageError("tokenizer.kind = unigram cannot lower-case a text; choose bpe, or lowercase = false")
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
