"""Turn text into ids and back, over the `tokenizers` library: one vocabulary for both languages, or one for each.

`bpe` is byte-level BPE (Sennrich et al. 2016 on the bytes of UTF-8, as in GPT-2): every byte has an entry, so nothing
is unknown, and decoding gives back the text exactly, in Unicode form NFC. A space is put before the text and taken off
when decoding, so that a word has the same ids at the start and in the middle of a sentence.
`words` is a vocabulary of whole words with `<unk>` for the rest; decoding joins them with spaces.
`characters` has an entry for each character of the training text, `bytes` one for each byte of UTF-8: both leave the
text exactly as it is.

The special tokens are never read out of a user's text: "<eos>" typed by hand is five characters.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Literal, Protocol
from unicodedata import normalize

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from dikkat_runtime.errors import DataError, MissingInputError
from dikkat_runtime.files import read_regular, write_atomically
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID, SPECIAL_TOKENS, UNK_ID
from dikkat_runtime.text.casing import has_dotted_i, lower
from dikkat_runtime.text.labels import whole_characters
from dikkat_runtime.text.tokenizer_check import LARGEST_FILE, checked_tokenizer
from dikkat_runtime.text.vocabulary_bytes import EntryKind, VocabularyBytes

# Pieces that no merge may cross. A word keeps its inner apostrophes, so that the data decides whether the cut comes
# after it (French l'|eau), before it (Turkish İstanbul|'da) or not at all (English don't). A digit stands alone.
# Brackets never share a piece with letters, so no merge can ever spell "<eos>".
_PIECE = r" ?\p{L}[\p{L}\p{M}]*(?:['’]\p{L}[\p{L}\p{M}]*)*| ?\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
# Cuts a hand-typed "<eos>" in two, so that the word list cannot look it up as the special token.
_TYPED_SPECIAL = r"<(?=(?:pad|bos|eos|unk)>)"
_FEW = 8
_NO_BREAK_SPACES = "\u202f\u00a0"
_MARKS = "[,.!?]"
_CHARACTER = r"[\s\S]"
PATTERNS = (_PIECE, _TYPED_SPECIAL, _MARKS, _CHARACTER)
"""Every regular expression that a tokenizer of ours holds."""

# Rayon's threads do not survive a fork: parallel here, single in a forked child, and no warning about it.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
os.register_at_fork(after_in_child=lambda: os.environ.update(TOKENIZERS_PARALLELISM="false"))


class VocabularySettings(Protocol):
    """The settings by which a vocabulary is learned."""

    @property
    def kind(self) -> Literal["bpe", "words", "characters", "bytes"]: ...

    @property
    def vocab_size(self) -> int: ...

    @property
    def min_frequency(self) -> int: ...

    @property
    def lowercase(self) -> bool: ...


class Tokenizer:
    """A trained vocabulary with `pad_id` 0, `bos_id` 1, `eos_id` 2 and `unk_id` 3.

    Lower-casing is part of the saved tokenizer, but a joint vocabulary does not know which language a text is in:
    pass `language` when it is Turkish or Azeri and the tokenizer lower-cases, in any other case it changes nothing.
    Left out, it is the one that the tokenizer was loaded for.
    """

    pad_id = PAD_ID
    bos_id = BOS_ID
    eos_id = EOS_ID
    unk_id = UNK_ID

    def __init__(self, inner: tokenizers.Tokenizer, settings: dict[str, Any] | None = None, language: str = "") -> None:
        """`settings` is the JSON of `inner`, if known; `language` is the default language of texts."""
        self.language = language
        self._inner = inner
        self._inner.encode_special_tokens = True
        settings = settings or json.loads(inner.to_str())
        self._lowercases = '"Lowercase"' in json.dumps(settings["normalizer"])
        self._is_bytes = settings["model"]["type"] == "BPE"
        self._joins_with_spaces = settings["decoder"] is None
        self._leading_space = self._joins_with_spaces or '"Strip"' in json.dumps(settings["decoder"])
        self._labels: dict[int, str] = {}

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        config: VocabularySettings,
        languages: tuple[str, str] = ("", ""),
        target_texts: Iterable[str] = (),
    ) -> Tokenizer:
        """Learn a vocabulary; the same texts in any order give the same ids.

        `texts` is in `languages[0]` and `target_texts` in `languages[1]`. Where casing does not differ between the
        two (always, unless `config.lowercase` and one of them is Turkish or Azeri) both may come in `texts`.
        """
        if config.kind in ("characters", "bytes"):
            return cls(_all_bytes(config) if config.kind == "bytes" else _all_characters(config, texts))
        inner = _new_bytes(config) if config.kind == "bpe" else _new_words(config)
        cased = chain(
            _cased(texts, languages[0] if config.lowercase else ""),
            _cased(target_texts, languages[1] if config.lowercase else ""),
        )
        inner.train_from_iterator(cased, _trainer(config))
        return cls(inner)

    @classmethod
    def load(
        cls, path: Path, vocab_size: int | None = None, language: str = "", setting: str = "vocab_size"
    ) -> Tokenizer:
        """Read `tokenizer.json`, which must have `vocab_size` entries where that is given, for texts in `language`.

        `setting` is the name of the model's setting of that size. Raises `MissingInputError`, or `DataError` when the
        file is damaged, foreign or of another size.
        """
        return cls.checked(path, *read_tokenizer(path), vocab_size, language, setting)

    @classmethod
    def checked(
        cls,
        path: Path,
        settings: dict[str, Any],
        inner: tokenizers.Tokenizer,
        vocab_size: int | None,
        language: str = "",
        setting: str = "vocab_size",
    ) -> Tokenizer:
        """Return the tokenizer that `read_tokenizer` read at `path`, if it is ours. Raises `DataError`."""
        if tuple(inner.id_to_token(i) for i in range(len(SPECIAL_TOKENS))) != SPECIAL_TOKENS:
            raise DataError(f"{path}: not a tokenizer of dikkat: ids 0 to 3 must be {', '.join(SPECIAL_TOKENS)}")
        tokenizer = cls(inner, settings, language)
        if tokenizer._is_bytes and not _BYTE_OF.keys() >= set("".join(settings["model"]["vocab"])) - _TYPED:
            raise DataError(f"{path}: not a tokenizer of dikkat: an entry is not made of bytes")
        if vocab_size is not None and tokenizer.vocab_size != vocab_size:
            raise DataError(
                f"{path}: does not fit config.json: it has {tokenizer.vocab_size:,} entries, but model.{setting} is"
                f" {vocab_size:,}"
            )
        return tokenizer

    def save(self, path: Path) -> None:
        """Write `tokenizer.json`, whole or not at all. Raises `DiskError` or `CannotCreateError`."""
        write_atomically(path, self._inner.to_str(pretty=True).encode())

    @property
    def vocab_size(self) -> int:
        """V, entries of the vocabulary, special tokens included."""
        return int(self._inner.get_vocab_size())

    def encode(self, text: str, language: str | None = None) -> list[int]:
        """Return ids of `text`, without `<bos>` and `<eos>`. Raises `DataError` for half a surrogate pair."""
        return self.encode_batch([text], language)[0]

    def encode_batch(self, texts: Sequence[str], language: str | None = None) -> list[list[int]]:
        """Return ids of each text, in order. Raises `DataError` for half a surrogate pair."""
        cased = list(_cased(texts, self._casing(language)))
        try:
            encodings = self._inner.encode_batch_fast(cased, add_special_tokens=False)
        except (TypeError, UnicodeEncodeError):
            raise DataError(f"{_first_broken(texts)!r}: not text: it holds half of a surrogate pair") from None
        return [encoding.ids for encoding in encodings]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids`, without `<pad>`, `<bos>` and `<eos>`."""
        return self.decode_batch([ids])[0]

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each row of ids, in order."""
        kept = [[int(i) for i in ids if i not in (PAD_ID, BOS_ID, EOS_ID)] for ids in batch]
        if len(kept) <= _FEW:
            # waking the threads of the library would take longer
            return [self._inner.decode(ids, skip_special_tokens=False) for ids in kept]
        return list(self._inner.decode_batch(kept, skip_special_tokens=False))

    def spans(self, text: str, language: str | None = None) -> tuple[str, list[tuple[int, int]]]:
        """Return `text`, composed where the casing of `language` composes it, and its span of each id of `encode`.

        The tokens of one character all have its span; the space before a word may be in that of its token or not.
        """
        casing = self._casing(language)
        written = normalize("NFC", text) if has_dotted_i(casing) else text
        (cased,) = _cased([written], casing)
        return written, list(self._inner.encode(cased, add_special_tokens=False).offsets)

    def unknown(self, text: str) -> list[str]:
        """Return the pieces of `text` without an entry, which become `<unk>`, once each and in order."""
        encoding = self._inner.encode(text, add_special_tokens=False)
        spans = [span for i, span in zip(encoding.ids, encoding.offsets, strict=True) if i == UNK_ID]
        return list(dict.fromkeys(text[start:end] for start, end in spans))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return a readable label for each id.

        A space shows as "▁", so the label of a piece that starts a word starts with "▁" (`bpe`); with `words` a label
        is the whole word. Line breaks and tabs show as "\\n" and "\\t", a part of a character as its bytes ("\\xc4").
        Raises `IndexError` for an id that is not in the vocabulary.
        """
        labels = self._labels
        return [labels.get(i) or self._label(int(i)) for i in ids]

    @cached_property
    def token_bytes(self) -> VocabularyBytes:
        """The bytes that each id adds to a text."""
        entries = [str(self._inner.id_to_token(number)) for number in range(self.vocab_size)]
        kind: EntryKind = "bytes" if self._is_bytes else "words" if self._joins_with_spaces else "characters"
        return VocabularyBytes.of(entries, kind, _BYTE_OF, leading_space=self._leading_space)

    def labels(self, ids: Sequence[int]) -> list[str]:
        """Return `pieces` for people: a part of a character is shown as that character, as in "é(1/2)"."""
        return whole_characters(self.pieces(ids)) if self._is_bytes else self.pieces(ids)

    def _casing(self, language: str | None) -> str:
        if not self._lowercases:
            return ""
        return self.language if language is None else language

    def _label(self, token_id: int) -> str:
        """Return the label of an id, computed at the first call."""
        token = self._inner.id_to_token(token_id)
        if token is None:
            raise IndexError(f"there is no id {token_id} in a vocabulary of {self.vocab_size}")
        is_bytes = self._is_bytes and token_id >= len(SPECIAL_TOKENS)
        return self._labels.setdefault(token_id, byte_label(token) if is_bytes else token)


def read_tokenizer(path: Path) -> tuple[dict[str, Any], tokenizers.Tokenizer]:
    """Return the JSON in a `tokenizer.json` and the tokenizer that the library makes of it, after checking the JSON.

    Raises `MissingInputError`, or `DataError` when it is damaged or holds parts that no tokenizer of dikkat has.
    """
    try:
        content = read_regular(path, LARGEST_FILE)
    except OSError as error:
        raise MissingInputError(f"{path}: cannot read the tokenizer: {error.strerror}") from None
    try:
        return checked_tokenizer(content, PATTERNS), tokenizers.Tokenizer.from_str(content.decode())
    except Exception as error:  # the library raises bare Exception for a file that it cannot parse
        raise DataError(f"{path}: not a readable tokenizer ({error}); restore the file") from None


def _new_bytes(config: VocabularySettings) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(models.BPE())
    lowercase = [normalizers.Lowercase()] if config.lowercase else []
    inner.normalizer = normalizers.Sequence([normalizers.NFC(), *lowercase, normalizers.Prepend(" ")])
    split = pre_tokenizers.Split(Regex(_PIECE), behavior="isolated")
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
            pre_tokenizers.Split(Regex(_MARKS), behavior="isolated"),
            pre_tokenizers.Split(Regex(_TYPED_SPECIAL), behavior="isolated"),
        ]
    )
    return inner


def _all_characters(config: VocabularySettings, texts: Iterable[str]) -> tokenizers.Tokenizer:
    """Return a vocabulary of the most frequent characters.

    Of equally frequent ones the lower code point comes first.
    """
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
    inner.pre_tokenizer = pre_tokenizers.Split(Regex(_CHARACTER), behavior="isolated")
    inner.decoder = decoders.Fuse()
    return inner


def _all_bytes(config: VocabularySettings) -> tokenizers.Tokenizer:
    """Return a byte-level BPE without merges, for which nothing is learned."""
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


def _cased(texts: Iterable[str], language: str) -> Iterator[str]:
    """Yield texts in lower case where the library's own lower-casing is wrong."""
    if not has_dotted_i(language):
        return iter(texts)
    # Composed first: a decomposed Î must become î, not a dotless ı with a circumflex.
    return (lower(normalize("NFC", text), language) for text in texts)


def _first_broken(texts: Iterable[str]) -> str:
    return next((text for text in texts if any("\ud800" <= character <= "\udfff" for character in text)), "")


def _byte_characters() -> dict[str, int]:
    """Return the byte of each character of a byte-level vocabulary: itself if printable, else one from U+0100 on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(0x100) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(hidden)}


_BYTE_OF = _byte_characters()
_TYPED = set("".join(SPECIAL_TOKENS))
_VISIBLE = str.maketrans({" ": "▁", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"})


def byte_label(token: str) -> str:
    """Return a readable label for an entry of a byte-level vocabulary; see `Tokenizer.pieces`."""
    raw = bytes(_BYTE_OF[character] for character in token)
    return raw.decode("utf-8", errors="backslashreplace").translate(_VISIBLE)
