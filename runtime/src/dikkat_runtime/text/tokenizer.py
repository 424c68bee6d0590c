"""Turn text into ids and back, over the `tokenizers` library: one vocabulary for both languages, or one for each.

`bpe` is byte-level BPE (Sennrich et al. 2016 on the bytes of UTF-8, as in GPT-2): every byte has an entry, so nothing
is unknown, and decoding gives back the text exactly, in Unicode form NFC. A space is put before the text and taken off
when decoding, so that a word has the same ids at the start and in the middle of a sentence.
`words` is a vocabulary of whole words with `<unk>` for the rest; decoding joins them with spaces.
`unigram` is that of SentencePiece (Kudo 2018): words begin with "▁", and bytes write what has no entry. One that was
learned here leaves the text exactly as it is; one of an imported translator normalises it as its makers wanted.
`characters` has an entry for each character of the training text, `bytes` one for each byte of UTF-8: both leave the
text exactly as it is.

The special tokens are never read out of a user's text: "<eos>" typed by hand is five characters.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, groupby
from pathlib import Path
from typing import Any
from unicodedata import normalize

import tokenizers

from dikkat_runtime.errors import DataError, MissingInputError, reason_of
from dikkat_runtime.files import read_regular, write_atomically
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID, SPECIAL_TOKENS, UNK_ID
from dikkat_runtime.text.casing import has_dotted_i, lower
from dikkat_runtime.text.normalizing import OPENING
from dikkat_runtime.text.pieces import (
    LLAMA_PIECE,
    QWEN_PIECE,
    SPACE,
    STAND_IN,
    TYPED_ENTRY,
    byte_ids,
    is_lossless,
    piece_label,
    text_of_bytes,
    with_typed_spaces,
)
from dikkat_runtime.text.tokenizer_check import MAX_FILE_SIZE, checked_tokenizer
from dikkat_runtime.text.vocabulary_bytes import EntryKind, VocabularyBytes
from dikkat_runtime.text.vocabulary_learning import LEARNED_PATTERNS, WORD_PIECE, VocabularySettings, learned_tokenizer

PATTERNS = (*LEARNED_PATTERNS, TYPED_ENTRY, LLAMA_PIECE, QWEN_PIECE)
"""Every regular expression that a tokenizer of ours or an imported one holds."""
_MAX_SINGLE = 8
_KEPT_WORDS, _MAX_KEPT = 1 << 18, 40
"""Words whose ids are remembered at most, and their characters."""

# Rayon's threads do not survive a fork: parallel here, single in a forked child, and no warning about it.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")
os.register_at_fork(after_in_child=lambda: os.environ.update(TOKENIZERS_PARALLELISM="false"))


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
    frame_size = 1
    """Number of marks at the end or start of a text."""

    def __init__(self, inner: tokenizers.Tokenizer, settings: dict[str, Any] | None = None, language: str = "") -> None:
        """`settings` is the JSON of `inner`, if known; `language` is the default language of texts."""
        self.language = language
        self._inner = inner
        self._inner.encode_special_tokens = True
        settings = settings or json.loads(inner.to_str())
        self._lowercases = '"Lowercase"' in json.dumps(settings["normalizer"])
        self._is_bytes = settings["model"]["type"] == "BPE"
        self._is_pieces = settings["model"]["type"] == "Unigram"
        self._joins_with_spaces = settings["decoder"] is None
        self._leading_space = self._joins_with_spaces or '"Strip"' in json.dumps(settings["decoder"])
        self._is_lossless = self._is_pieces and is_lossless(settings)
        self._byte_ids = byte_ids(settings) if self._is_pieces else frozenset()
        self._labels: dict[int, str] = {}
        # no piece of such a text goes on after a space
        is_cut_at_spaces = json.dumps(WORD_PIECE) in json.dumps(settings["pre_tokenizer"])
        self._cuts_at_spaces = self._is_bytes and self._leading_space and is_cut_at_spaces
        self._words: dict[str, tuple[int, ...]] = {}

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        config: VocabularySettings,
        languages: tuple[str, str] = ("", ""),
        target_texts: Iterable[str] = (),
    ) -> "Tokenizer":
        """Learn a vocabulary; the same texts in any order give the same ids.

        `texts` is in `languages[0]` and `target_texts` in `languages[1]`. Where casing does not differ between the
        two (always, unless `config.lowercase` and one of them is Turkish or Azeri) both may come in `texts`. Raises
        `UsageError` or `DataError` as `learn_unigram`, where the kind is unigram.
        """
        if config.kind in ("characters", "bytes"):
            return cls(learned_tokenizer(config, texts))
        casing = languages if config.lowercase else ("", "")
        return cls(learned_tokenizer(config, chain.from_iterable(map(_cased, (texts, target_texts), casing))))

    @classmethod
    def load(
        cls, path: Path, vocab_size: int | None = None, language: str = "", setting: str = "vocab_size"
    ) -> "Tokenizer":
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
    ) -> "Tokenizer":
        """Return the tokenizer that `read_tokenizer` read at `path`, if it is ours. Raises `DataError`."""
        if tuple(inner.id_to_token(i) for i in range(len(SPECIAL_TOKENS))) != SPECIAL_TOKENS:
            raise DataError("{path}: not a tokenizer of dikkat: ids 0 to 3 must be {special_tokens}").fill(
                path, ", ".join(SPECIAL_TOKENS)
            )
        tokenizer = cls(inner, settings, language)
        if tokenizer._is_bytes and not BYTE_OF.keys() >= set("".join(settings["model"]["vocab"])) - _TYPED:
            raise DataError("{path}: not a tokenizer of dikkat: an entry is not made of bytes", path)
        if vocab_size is not None and tokenizer.vocab_size != vocab_size:
            raise DataError(
                "{path}: does not fit config.json: it has {size:,} entries, but model.{setting} is {vocab_size:,}"
            ).fill(path, tokenizer.vocab_size, setting, vocab_size)
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
        try:
            cut = self._to_cut(texts, language)
            ids = self._ids_by_words(cut) if self._cuts_at_spaces else self._ids(cut)
        except (TypeError, UnicodeEncodeError):
            raise DataError("{text}: not text: it holds half of a surrogate pair", repr(_first_broken(texts))) from None
        if (marks := self._typed_space) is None:
            return ids
        return [
            with_typed_spaces(text, row, *marks) if SPACE in text else row for text, row in zip(texts, ids, strict=True)
        ]

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self._inner.encode_batch_fast(texts, add_special_tokens=False)]

    def _ids_by_words(self, texts: Sequence[str]) -> list[list[int]]:
        rows = [text.split(" ") for text in texts]
        # threads share the words: a dictionary that one has begun with is added to, but never emptied
        if len(self._words) > _KEPT_WORDS:
            self._words = {}
        known = self._words
        parts: list[list[Any]] = [list(map(known.get, row)) for row in rows]
        late = [index for index, part in enumerate(parts) if None in part]
        fresh = set(chain.from_iterable(rows[index] for index in late)).difference(known)
        # a space next to other white space is in one piece with it
        words = [word for word in fresh if len(word) <= _MAX_KEPT and word and word == word.strip()]
        if words:
            known.update(zip(words, map(tuple, self._ids(words)), strict=True))
        for index in late:
            parts[index] = list(map(known.get, rows[index]))
            if None in parts[index]:
                parts[index] = list(self._ids([texts[index]]))
        return [list(chain.from_iterable(part)) for part in parts]

    def unframed(self, ids: Sequence[int]) -> list[int]:
        """Return `ids` without `<pad>`, `<bos>` and `<eos>`."""
        return [int(i) for i in ids if i not in (PAD_ID, BOS_ID, EOS_ID)]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of `ids`, without `<pad>`, `<bos>` and `<eos>`."""
        return self.decode_batch([ids])[0]

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        """Return the text of each row of ids, in order."""
        kept = list(map(self.unframed, batch))
        if len(kept) <= _MAX_SINGLE:
            # waking the threads of the library would take longer
            texts = [self._inner.decode(ids, skip_special_tokens=False) for ids in kept]
        else:
            texts = list(self._inner.decode_batch(kept, skip_special_tokens=False))
        if not self._byte_ids:
            return texts
        # of bytes that are not all characters the library loses those that are
        return [
            text if self._byte_ids.isdisjoint(ids) else text_of_bytes(self.token_bytes.text(ids))
            for text, ids in zip(texts, kept, strict=True)
        ]

    def spans(self, text: str, language: str | None = None) -> tuple[str, list[tuple[int, int]]]:
        """Return `text`, composed where the casing of `language` composes it, and its span of each id of `encode`.

        The tokens of one character all have its span; the space before a word may be in that of its token or not.
        """
        return self.spans_batch([text], language)[0]

    def spans_batch(self, texts: Sequence[str], language: str | None = None) -> list[tuple[str, list[tuple[int, int]]]]:
        casing = self._casing(language)
        written = [normalize("NFC", text) for text in texts] if has_dotted_i(casing) else list(texts)
        cased = self._to_cut(written, casing)
        if len(cased) == 1:
            encodings = [self._inner.encode(cased[0], add_special_tokens=False)]
        else:
            encodings = self._inner.encode_batch(cased, add_special_tokens=False)
        return [(own, list(encoding.offsets)) for own, encoding in zip(written, encodings, strict=True)]

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

    @property
    def entries(self) -> list[str]:
        """Return the entries of the vocabulary by their ids, as tokenizer.json spells them."""
        return [str(self._inner.id_to_token(number)) for number in range(self.vocab_size)]

    @cached_property
    def token_bytes(self) -> VocabularyBytes:
        """The bytes that each id adds to a text."""
        return VocabularyBytes.of(self.entries, self._kind, BYTE_OF, leading_space=self._leading_space)

    @cached_property
    def characters(self) -> frozenset[str]:
        """The characters that whole entries hold: those that the text of the vocabulary had often enough."""
        texts = (token.decode("utf-8", "ignore") for token in self.token_bytes.tokens)
        return frozenset(character for text in texts for character in text)

    @cached_property
    def unmet_marks(self) -> frozenset[str]:
        """The marks of `OPENING` that no entry holds but the one of their byte: training showed them hardly ever.

        An apostrophe is one where no word begins with it: it has met no quotation in such marks.
        """
        texts = [token.decode("utf-8", "ignore") for token in self.token_bytes.tokens]
        longer = [text for text in texts if len(text) > 1]
        if self._is_bytes and not longer:
            return frozenset()
        met = set("".join(longer if self._is_bytes else texts)) - {"'"}
        if any(text.startswith(" '") for text in longer) or not self._is_bytes:
            met.add("'")
        return frozenset(OPENING) - met

    @property
    def _kind(self) -> EntryKind:
        if self._is_bytes or self._is_pieces:
            return "bytes" if self._is_bytes else "pieces"
        return "words" if self._joins_with_spaces else "characters"

    def labels(self, ids: Sequence[int]) -> list[str]:
        """Return `pieces` for people: a part of a character is shown as that character, as in "é(1/2)"."""
        return whole_characters(self.pieces(ids)) if self._is_bytes or self._is_pieces else self.pieces(ids)

    def _to_cut(self, texts: Sequence[str], language: str | None) -> list[str]:
        casing = self._casing(language)
        cased = list(_cased(texts, casing) if casing else texts)
        return cased if self._typed_space is None else [text.replace(SPACE, STAND_IN) for text in cased]

    @cached_property
    def _typed_space(self) -> tuple[list[int], list[int]] | None:
        """The ids of the bytes of `STAND_IN` and of "▁", where a text may hold the latter and be given back."""
        if not self._is_lossless or any(STAND_IN in entry for entry in self.entries):
            return None
        numbers = {entry: number for number, entry in enumerate(self.entries)}
        stand_in, typed = ([f"<0x{byte:02X}>" for byte in mark.encode()] for mark in (STAND_IN, SPACE))
        if not {*stand_in, *typed} <= numbers.keys():
            return None
        return [numbers[entry] for entry in stand_in], [numbers[entry] for entry in typed]

    def _casing(self, language: str | None) -> str:
        if not self._lowercases:
            return ""
        return self.language if language is None else language

    def _label(self, token_id: int) -> str:
        """Return the label of an id, computed at the first call."""
        token = self._inner.id_to_token(token_id)
        if token is None:
            raise IndexError(f"there is no id {token_id} in a vocabulary of {self.vocab_size}")
        label = byte_label if self._is_bytes else piece_label if self._is_pieces else str
        return self._labels.setdefault(token_id, token if token_id < len(SPECIAL_TOKENS) else label(token))


def read_tokenizer(path: Path) -> tuple[dict[str, Any], tokenizers.Tokenizer]:
    """Return the JSON in a `tokenizer.json` and the tokenizer that the library makes of it, after checking the JSON.

    Raises `MissingInputError`, or `DataError` when it is damaged or holds parts that no tokenizer of dikkat has.
    """
    return parse_tokenizer(tokenizer_content(path), path)


def tokenizer_content(path: Path) -> bytes:
    """Return the bytes of a `tokenizer.json`. Raises `MissingInputError`, or `DataError` for one too large."""
    try:
        return read_regular(path, MAX_FILE_SIZE)
    except OSError as error:
        raise MissingInputError("{path}: cannot read the tokenizer: {reason}", path, reason_of(error)) from None


def parse_tokenizer(content: bytes, path: Path) -> tuple[dict[str, Any], tokenizers.Tokenizer]:
    """Return the JSON `content` of a tokenizer, read at `path`, and the tokenizer; see `read_tokenizer`."""
    try:
        return checked_tokenizer(content, PATTERNS), tokenizers.Tokenizer.from_str(content.decode())
    except Exception as error:  # the library raises bare Exception for a file that it cannot parse
        raise DataError("{path}: not a readable tokenizer ({error}); restore the file", path, error) from None


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


BYTE_OF = _byte_characters()
"""The byte of each character of a byte-level vocabulary."""
_TYPED = set("".join(SPECIAL_TOKENS))
_VISIBLE = str.maketrans({" ": "▁", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"})


def byte_label(token: str) -> str:
    """Return a readable label for an entry of a byte-level vocabulary; see `Tokenizer.pieces`."""
    raw = bytes(BYTE_OF[character] for character in token)
    return raw.decode("utf-8", errors="backslashreplace").translate(_VISIBLE)


_BYTE = re.compile(r"\\x([0-9a-f]{2})")
_PART = re.compile(
    r"\\x(?P<byte>[0-9a-f]{2})|(?P<character>.)\((?P<first>[1-4])(?:-(?P<last>[1-4]))?/(?P<size>[2-4])\)", re.DOTALL
)
_UNKNOWN = "\ufffd"


def whole_characters(labels: Sequence[str]) -> list[str]:
    """Return the labels of a sequence of tokens with the bytes of `Tokenizer.pieces` ("\\xc3") as characters."""
    if not any("\\x" in label for label in labels):
        return list(labels)
    # text or one byte, and the index of its label
    parts: list[tuple[str | int, int]] = []
    for number, label in enumerate(labels):
        for index, part in enumerate(_BYTE.split(label)):
            if part:
                parts.append((int(part, 16) if index % 2 else part, number))
    shown = [""] * len(labels)
    start = 0
    while start < len(parts):
        first, number = parts[start]
        if isinstance(first, str):
            shown[number] += first
            start += 1
            continue
        character, end = _next_character(parts, start)
        owners = [owner for _, owner in parts[start:end]]
        for owner, group in groupby(range(len(owners)), key=owners.__getitem__):
            own = [index + 1 for index in group]
            span = f"{own[0]}" if len(own) == 1 else f"{own[0]}-{own[-1]}"
            shown[owner] += character if character == _UNKNOWN else f"{character}({span}/{len(owners)})"
        start = end
    return shown


def bytes_of(label: str) -> bytes:
    """Return the bytes that a label of `whole_characters`, or one of `Tokenizer.pieces`, stands for."""
    raw, end = b"", 0
    for match in _PART.finditer(label):
        raw += label[end : match.start()].encode("utf-8", "surrogatepass") + _part(match)
        end = match.end()
    return raw + label[end:].encode("utf-8", "surrogatepass")


def _part(match: re.Match[str]) -> bytes:
    if match["byte"]:
        return bytes.fromhex(match["byte"])
    whole = match["character"].encode("utf-8", "surrogatepass")
    if len(whole) != int(match["size"]):
        return match[0].encode("utf-8", "surrogatepass")
    return whole[int(match["first"]) - 1 : int(match["last"] or match["first"])]


def _next_character(parts: Sequence[tuple[str | int, int]], start: int) -> tuple[str, int]:
    """Return the character whose first byte is the part at `start`, and the end of its bytes."""
    raw = b""
    for byte, _ in parts[start : start + 4]:
        if not isinstance(byte, int) or (raw and byte & 0xC0 != 0x80):
            break
        raw += bytes([byte])
        try:
            return raw.decode("utf-8"), start + len(raw)
        except UnicodeDecodeError:
            continue
    return _UNKNOWN, start + len(raw)
