"""Text to ids and back, over the `tokenizers` library, with a vocabulary that dikkat trained."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from unicodedata import normalize

# a command of one sentence is faster without threads of its own; set before the library is loaded
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import tokenizers

from dikkat_runtime.errors import DataError, MissingInputError
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID, SPECIAL_TOKENS

_DOTTED_I_LANGUAGES = frozenset({"tr", "tur", "az", "aze"})
_SMALL_I_WITH_DOT = re.compile("İ|I\u0307")


class Tokenizer:
    """A trained vocabulary; `language` decides how I and İ are lower-cased where the vocabulary lower-cases."""

    def __init__(self, inner: tokenizers.Tokenizer, language: str = "") -> None:
        self._inner = inner
        self._inner.encode_special_tokens = True
        dotted = re.split("[-_.@]", language.lower(), maxsplit=1)[0] in _DOTTED_I_LANGUAGES
        self._lowers_by_itself = dotted and '"Lowercase"' in inner.to_str()

    @classmethod
    def load(cls, path: Path, language: str = "") -> Tokenizer:
        """Read `tokenizer.json`. Raises `MissingInputError`, or `DataError` when it is damaged or foreign."""
        try:
            content = path.read_text(encoding="utf-8")
        except OSError as error:
            raise MissingInputError(f"{path}: cannot read the tokenizer: {error.strerror}") from None
        except UnicodeDecodeError as error:
            raise DataError(f"{path}: not a readable tokenizer ({error}); restore it from a copy of the run") from None
        try:
            tokenizer = cls(tokenizers.Tokenizer.from_str(content), language)
        except Exception as error:  # the library raises bare Exception for a file that it cannot parse
            raise DataError(f"{path}: not a readable tokenizer ({error}); restore it from a copy of the run") from None
        if tuple(map(tokenizer._inner.id_to_token, range(len(SPECIAL_TOKENS)))) != SPECIAL_TOKENS:
            raise DataError(f"{path}: not a tokenizer of dikkat: ids 0 to 3 must be {', '.join(SPECIAL_TOKENS)}")
        return tokenizer

    @property
    def vocab_size(self) -> int:
        """V, entries of the vocabulary, special tokens included."""
        return int(self._inner.get_vocab_size())

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, in order, without begin and end marks."""
        if self._lowers_by_itself:
            texts = [_lower_dotted(normalize("NFC", text)) for text in texts]
        return [encoding.ids for encoding in self._inner.encode_batch_fast(list(texts), add_special_tokens=False)]

    def encode_with_offsets(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Ids of a text, and for each the characters that it was made of; a space before a word is none of its own."""
        if self._lowers_by_itself:
            text = _lower_dotted(normalize("NFC", text))
        encoding = self._inner.encode(text, add_special_tokens=False)
        spans = [
            (end - len(text[start:end].lstrip()), end) if start < end else (start, end)
            for start, end in encoding.offsets
        ]
        return encoding.ids, spans

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        """Text of each row of ids, in order."""
        kept = [[i for i in ids if i not in (PAD_ID, BOS_ID, EOS_ID)] for ids in batch]
        return list(self._inner.decode_batch(kept, skip_special_tokens=False))


def _lower_dotted(text: str) -> str:
    """Lower-case by the rules of Turkish and Azeri (Unicode, SpecialCasing.txt, conditions `tr` and `az`)."""
    return _SMALL_I_WITH_DOT.sub("i", text).replace("I", "ı").lower()
