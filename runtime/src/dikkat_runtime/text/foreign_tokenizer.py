"""Use a tokenizer of a foreign checkpoint: any `tokenizer.json` of the `tokenizers` library.

Its vocabulary and its special tokens stay its own. As with our own, special tokens are never read out of a user's
text: "[SEP]" typed by hand is five characters.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import tokenizers

from dikkat_runtime.errors import DataError
from dikkat_runtime.special_tokens import SPECIAL_TOKENS, SpecialTokens
from dikkat_runtime.text.tokenizer import Tokenizer, byte_label, read_tokenizer, whole_characters

PADDING = ("[PAD]", "<pad>")
BEGINNING = ("[CLS]", "<s>", "<bos>", "<|startoftext|>", "<|endoftext|>")
END = ("[SEP]", "</s>", "<eos>", "<|endoftext|>")
UNKNOWN = ("[UNK]", "<unk>")


class ForeignTokenizer:
    """A vocabulary with special tokens of any ids; else used like a `Tokenizer`.

    `pad_id` is 0 where there is no padding token: padding is masked, so that any id will do. `bos_id`, `eos_id` and
    `unk_id` are None where there is no such token.
    """

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self._inner = inner
        self._inner.encode_special_tokens = True
        self._inner.no_padding()
        self._inner.no_truncation()
        self.pad_id = _first_known(inner, PADDING) or 0
        self.bos_id = _first_known(inner, BEGINNING)
        self.eos_id = _first_known(inner, END)
        self.unk_id = _first_known(inner, UNKNOWN)
        self._is_bytes = '"ByteLevel"' in json.dumps(json.loads(inner.to_str())["pre_tokenizer"])
        self._special = {number: token for number, token in inner.get_added_tokens_decoder().items() if token.special}
        self._before, self._after = _frame(inner)

    @classmethod
    def load(cls, path: Path, vocab_size: int | None = None) -> "ForeignTokenizer":
        """Read a `tokenizer.json` of at most `vocab_size` entries.

        Raises `MissingInputError`, or `DataError` when it is damaged or larger.
        """
        return cls.checked(path, read_tokenizer(path)[1], vocab_size)

    @classmethod
    def checked(cls, path: Path, inner: tokenizers.Tokenizer, vocab_size: int | None) -> "ForeignTokenizer":
        """Return the tokenizer that `read_tokenizer` read at `path`.

        Raises `DataError` when it is larger than `vocab_size`.
        """
        tokenizer = cls(inner)
        if vocab_size is not None and tokenizer.vocab_size > vocab_size:
            raise DataError(
                "{path}: does not fit config.json: it has {size:,} entries, but model.vocab_size is {vocab_size:,}"
            ).fill(path, tokenizer.vocab_size, vocab_size)
        return tokenizer

    @property
    def vocab_size(self) -> int:
        """One more than the largest id."""
        return max(self._inner.get_vocab(with_added_tokens=True).values()) + 1

    @property
    def frame_size(self) -> int:
        """Number of ids that `framed` adds."""
        return len(self._before) + len(self._after)

    def encode(self, text: str, language: str = "") -> list[int]:
        """Return ids of `text` without special tokens; the language changes nothing.

        Raises `DataError` as `encode_batch`.
        """
        return self.encode_batch([text], language)[0]

    def encode_batch(self, texts: Sequence[str], language: str = "") -> list[list[int]]:
        return [encoding.ids for encoding in self.encodings(texts, placed=False)]

    def encodings(self, texts: Sequence[str], *, placed: bool = True) -> list[tokenizers.Encoding]:
        """Return ids of each text, with their spans in it where they are `placed`. Raises as `encode_batch`."""
        encode = self._inner.encode_batch if placed else self._inner.encode_batch_fast
        try:
            return list(encode(list(texts), add_special_tokens=False))
        except (TypeError, UnicodeEncodeError):
            raise DataError("a text holds half of a surrogate pair, which is not text") from None

    def encode_marked(self, parts: Sequence[str]) -> list[int]:
        """Return ids of all `parts` as one text; in the first one and every second after it special tokens are read."""
        known = {token.content: number for number, token in self._special.items()}
        tokens = sorted(self._special.values(), key=lambda token: -len(token.content))
        spelled = (r"\s*" * token.lstrip + re.escape(token.content) + r"\s*" * token.rstrip for token in tokens)
        mark = re.compile("|".join([*spelled, "(?!)"]))
        texts, ids = [""], list[int]()
        for number, part in enumerate(parts):
            marks = mark.findall(part) if number % 2 == 0 else []
            first, *rest = mark.split(part) if marks else [part]
            texts[-1:], ids = [texts[-1] + first, *rest], ids + [known[name.strip()] for name in marks]
        first_row, *rows = self.encode_batch(texts)
        return [*first_row, *(token for number, row in zip(ids, rows, strict=True) for token in (number, *row))]

    def framed(self, ids: Sequence[int]) -> list[int]:
        """Return `ids` between the special tokens of training, as in [CLS] … [SEP]."""
        return [*self._before, *ids, *self._after]

    def unframed(self, ids: Sequence[int]) -> list[int]:
        """Return `ids` without special tokens, but with the one for what is unknown."""
        return [number for number in ids if number == self.unk_id or number not in self._special]

    def decode(self, ids: Sequence[int]) -> str:
        return self.decode_batch([ids])[0]

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        kept = [[int(number) for number in ids if number not in self._special] for ids in batch]
        return list(self._inner.decode_batch(kept, skip_special_tokens=False))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return a readable label for each id. Raises `IndexError` for an id that is not in the vocabulary."""
        return [self._piece(int(number)) for number in ids]

    def labels(self, ids: Sequence[int]) -> list[str]:
        return whole_characters(self.pieces(ids)) if self._is_bytes else self.pieces(ids)

    def _piece(self, token_id: int) -> str:
        token = self._inner.id_to_token(token_id)
        if token is None:
            raise IndexError(f"there is no id {token_id} in a vocabulary of {self.vocab_size}")
        return byte_label(token) if self._is_bytes and token_id not in self._special else token


AnyTokenizer = Tokenizer | ForeignTokenizer


def load_tokenizer(path: Path, vocab_size: int | None = None, language: str = "") -> AnyTokenizer:
    """Return the tokenizer of a run, our own for texts in `language`, or foreign.

    Raises `MissingInputError`, or `DataError` when it is damaged.
    """
    settings, inner = read_tokenizer(path)
    if tuple(inner.id_to_token(number) for number in range(len(SPECIAL_TOKENS))) == SPECIAL_TOKENS:
        return Tokenizer.checked(path, settings, inner, vocab_size, language)
    return ForeignTokenizer.checked(path, inner, vocab_size)


def special_tokens_of(tokenizer: AnyTokenizer, chat: Mapping[str, str] | None = None) -> SpecialTokens:
    """Return the special tokens that a language model begins and ends a text with; see `Generator` for `chat`."""
    if isinstance(tokenizer, Tokenizer):
        return SpecialTokens()
    # an answer ends with the first mark behind it
    after = tokenizer.encode_marked([(chat or {}).get("assistant user", "")])
    end = next((number for number in after if number in tokenizer._special), tokenizer.eos_id)
    # of a foreign vocabulary every entry may be text
    return SpecialTokens(begin=tokenizer.bos_id, end=end, never_written=())


def _first_known(inner: tokenizers.Tokenizer, names: Sequence[str]) -> int | None:
    ids = (inner.token_to_id(name) for name in names)
    return next((number for number in ids if number is not None), None)


def _frame(inner: tokenizers.Tokenizer) -> tuple[list[int], list[int]]:
    """Return the special tokens before and after a text, taken from an encoded text."""
    plain = inner.encode("a", add_special_tokens=False).ids
    full = inner.encode("a", add_special_tokens=True).ids
    start = next((index for index in range(len(full)) if full[index : index + len(plain)] == plain), 0)
    return full[:start], full[start + len(plain) :]
