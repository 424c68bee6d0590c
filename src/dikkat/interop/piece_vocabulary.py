"""Turn the vocabulary of a foreign translator into ours: the order of its ids, and tokenizers that give them.

Ours begins with padding, begin, end and unknown; the others follow in their own order.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import tokenizers
import torch
from tokenizers import AddedToken, Regex, models, normalizers
from torch import Tensor

from dikkat.interop.sentencepiece_file import PieceKind, SentencePieceModel
from dikkat_runtime.errors import DataError
from dikkat_runtime.special_tokens import BOS_ID, SPECIAL_TOKENS, UNK_ID
from dikkat_runtime.text.foreign_json import shown
from dikkat_runtime.text.pieces import HIDDEN, REPEATED_SPACES, SPACE, hidden, piece_decoder, piece_pre_tokenizer
from dikkat_runtime.text.tokenizer import Tokenizer

NEVER = -1e4
"""Bias of an entry that is never written: its probability is zero in float32, and it stays finite."""
_LANGUAGE_MARK = re.compile(r">>[^<>\s]+<<")
"""The first token of a source that names the language to translate into, as in OPUS-MT."""
_UNKNOWN_PENALTY = 10.0
"""So much less probable than the least probable piece is what SentencePiece does not know."""
_NO_ROW = -1
_KINDS_IN_TEXTS = (PieceKind.NORMAL, PieceKind.USER_DEFINED, PieceKind.BYTE)


@dataclass(frozen=True)
class VocabularyOrder:
    """Map the ids of our vocabulary to those of a foreign one."""

    rows: tuple[int, ...]
    """For each of our ids that of theirs; -1 where they have none, and its vectors are zero."""
    read_as_unknown: int = 0
    """So many ids at the end have the vector of their unknown, and are never written."""

    @classmethod
    def of(cls, size: int, *, end: int, unknown: int, padding: int | None = None) -> "VocabularyOrder":
        """Return the order for a vocabulary of `size` entries, of which these have a meaning of their own.

        Decoding begins with the vector of `padding`, or with zeros where there is no such entry.
        """
        begin = _NO_ROW if padding is None else padding
        special = (begin, begin, end, unknown)
        return cls((*special, *(number for number in range(size) if number not in special)))

    @property
    def begins(self) -> bool:
        """Return whether they have an entry that decoding begins with."""
        return self.rows[BOS_ID] != _NO_ROW

    @cached_property
    def our_ids(self) -> dict[int, int]:
        """Return our id of each of theirs; where two of ours have one row, the first, which is the one written."""
        return {row: number for number, row in reversed(list(enumerate(self.rows))) if row != _NO_ROW}

    def with_unknown(self, count: int) -> "VocabularyOrder":
        """Return the order with `count` ids more, each of which is read as the unknown and never written."""
        return replace(self, rows=(*self.rows, *[self.rows[UNK_ID]] * count), read_as_unknown=count)

    def matrix(self, theirs: Tensor) -> Tensor:
        """Return the rows (V, D) of an embedding or an output matrix in our order."""
        return torch.cat((theirs, theirs.new_zeros(1, theirs.shape[1])))[list(self.rows)]

    def bias(self, theirs: Tensor) -> Tensor:
        """Return the bias (V,) of the output in our order; what they do not have is never written, nor the begin."""
        ours = torch.cat((theirs, theirs.new_full((1,), NEVER)))[list(self.rows)]
        ours[1] = NEVER
        ours[len(ours) - self.read_as_unknown :] = NEVER
        return ours

    def theirs(self, ours: Tensor) -> Tensor:
        """Return the rows of a matrix or a bias of ours in their order."""
        return ours[[self.our_ids[row] for row in range(len(self.our_ids))]]

    def entries(self, theirs: Sequence[str]) -> list[str]:
        """Return the entries of their vocabulary in our order, the special ones by our names."""
        last = len(self.rows) - self.read_as_unknown
        return [*SPECIAL_TOKENS, *(theirs[row] for row in self.rows[len(SPECIAL_TOKENS) : last])]


def unlisted(model: SentencePieceModel, entries: Sequence[str]) -> list[str]:
    """Return the pieces that `model` finds in texts and that `entries` lack, in its order."""
    known = {*entries, *SPECIAL_TOKENS}
    return [piece.text for piece in model.pieces if piece.kind in _KINDS_IN_TEXTS and piece.text not in known]


def piece_tokenizer(model: SentencePieceModel, entries: Sequence[str]) -> Tokenizer:
    """Return the tokenizer that cuts a text as `model` does and gives the ids of `entries`, which begin with ours.

    An entry that the model does not have, such as a piece of the other language, is never found in a text, and neither
    is a `hidden` one. Those that name a language are, wherever they stand, and so are single characters: Hugging Face
    looks up in the vocabulary what is unknown to the model. A piece that is not an entry is cut into shorter
    ones; see `unlisted`.
    """
    pieces = {piece.text: piece for piece in model.pieces}
    # 10 below the least probable piece the library scores what has no piece
    scores = [piece.score for piece in model.pieces if piece.kind == PieceKind.NORMAL]
    least, largest = min(scores), max(scores)
    vocabulary: list[tuple[str, float]] = [(token, least) for token in SPECIAL_TOKENS]
    for entry in entries[len(SPECIAL_TOKENS) :]:
        piece = pieces.get(entry)
        kind = None if piece is None or entry in SPECIAL_TOKENS else piece.kind
        if kind == PieceKind.NORMAL and piece is not None:
            vocabulary.append((entry, piece.score))
        elif kind == PieceKind.USER_DEFINED:
            # as the library scores them, so that they are never cut
            vocabulary.append((entry, len(entry.encode()) * largest - 0.1))
        elif kind == PieceKind.BYTE or _LANGUAGE_MARK.fullmatch(entry):
            vocabulary.append((entry, least))
        elif kind is None and len(entry) == 1 and entry != SPACE:
            vocabulary.append((entry, least - _UNKNOWN_PENALTY))
        else:
            vocabulary.append((hidden(entry.removeprefix(HIDDEN)), least))
    # a tokenizer gives no id to two entries
    if twice := [entry for entry, count in Counter(entry for entry, _ in vocabulary).items() if count > 1]:
        named = shown(twice[0].removeprefix(HIDDEN))
        raise DataError(
            "{path}: the vocabulary next to it has {entry} twice, once after a mark of dikkat's own", model.path, named
        )
    has_bytes = any(piece.kind == PieceKind.BYTE for piece in model.pieces)
    inner = tokenizers.Tokenizer(models.Unigram(vocabulary, UNK_ID, has_bytes))
    crosses_words = any(SPACE in entry[1:] for entry, _ in vocabulary)
    inner.normalizer = _normalizer(model)
    inner.pre_tokenizer = piece_pre_tokenizer(
        begins_with_space=model.begins_with_space and model.collapses_spaces, cuts_at_spaces=not crosses_words
    )
    inner.decoder = piece_decoder(begins_with_space=model.begins_with_space)
    inner.add_special_tokens(list(SPECIAL_TOKENS))
    marks = [entry for entry, _ in vocabulary if _LANGUAGE_MARK.fullmatch(entry)]
    inner.add_tokens([AddedToken(mark, normalized=False) for mark in marks])
    return Tokenizer(inner)


def side_tokenizers(
    models: Sequence[SentencePieceModel], orders: Sequence[VocabularyOrder], lists: Sequence[Sequence[str]]
) -> tuple[tuple[VocabularyOrder, ...], tuple[Tokenizer, ...]]:
    """Return the order of ids and the tokenizer of each side, or one of both where they are the same.

    `models`, `orders` and `lists`, the entries by their ids, are those of source and target, or one of both sides.

    A piece of the source that its vocabulary lacks is read as unknown, in the place where SentencePiece found it. Such
    a piece has an id of its own here, with the vector of the unknown, since a tokenizer gives no id to two entries. In
    a target it is never found, as nothing writes it. Raises `DataError` for more of them than there are entries.
    """
    source, target = models[0], models[-1]
    unknown = unlisted(source, lists[0])
    if len(unknown) > len(lists[0]):
        raise DataError(
            "{path}: {count:,} of its pieces are not in the vocabulary of the model", source.path, len(unknown)
        )
    first, entries = orders[0].with_unknown(len(unknown)), orders[0].entries(lists[0])
    cutter = piece_tokenizer(source, [*entries, *unknown])
    if len(orders) == 2:
        return (first, orders[1]), (cutter, piece_tokenizer(target, orders[1].entries(lists[1])))
    if not unknown and replace(target, path=source.path) == source:
        return (first,), (cutter,)
    return (first,), (cutter, piece_tokenizer(target, [*entries, *map(hidden, unknown)]))


def _normalizer(model: SentencePieceModel) -> normalizers.Normalizer:
    parts: list[normalizers.Normalizer] = [normalizers.Precompiled(model.charsmap)] if model.charsmap else []
    if model.collapses_spaces:
        parts += [normalizers.Strip(), normalizers.Replace(Regex(REPEATED_SPACES), " ")]
    elif model.begins_with_space:
        # one more before a text that begins with a space, where the cutter would put none
        parts.append(normalizers.Prepend(" "))
    return normalizers.Sequence(parts)
