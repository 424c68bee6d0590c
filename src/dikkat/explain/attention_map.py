"""The attention weights of one head on one sentence, with the labels of their rows and columns."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from typing import Any, Literal, TypeVar, overload

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

from dikkat_runtime.errors import UsageError, joined, msg
from dikkat_runtime.localization import localized, translated
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, SPECIAL_TOKENS
from dikkat_runtime.text.tokenizer import bytes_of

Stack = Literal["encoder", "decoder"]
Kind = Literal["self", "cross"]
NOTEBOOK = "dikkat.explain.notebook"
"""The module that shows maps in a notebook; it is made of maps, so they know it by name alone."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AttentionMap:
    """Hold the weights (T, S) of one head; row t is how query token t spreads its attention over the keys.

    Raises `ValueError` when the weights do not have one row a query token and one column a key token.
    """

    # Not "T S": the run-time shape checks of tests would hide the constructor's own message.
    weights: Float[np.ndarray, "..."]
    """(T, S): queries are rows, keys are columns."""
    query_tokens: tuple[str, ...]
    """Labels of the T queries."""
    key_tokens: tuple[str, ...]
    """Labels of the S keys."""
    stack: Stack
    layer: int
    """Layer, from 0."""
    head: int | None
    """Head, from 0; None for the mean of all heads."""
    kind: Kind

    def __post_init__(self) -> None:
        if self.weights.ndim != 2:
            raise ValueError(
                f"attention weights have the axes (T, S), but {self.weights.ndim} axes {self.weights.shape} were given;"
                " pick one sentence and one head"
            )
        for axis, tokens, length in (
            (msg("query axis T"), self.query_tokens, self.weights.shape[0]),
            (msg("key axis S"), self.key_tokens, self.weights.shape[1]),
        ):
            if len(tokens) != length:
                raise ValueError(f"{axis}: the weights have {length} positions, but {len(tokens)} tokens were given")
        if self.stack == "encoder" and self.kind == "cross":
            raise ValueError('an encoder has no cross-attention; stack "decoder" has')

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, np.dtype[Any]]:
        """Return the weights, for `numpy.asarray` and what builds on it."""
        return np.array(self.weights, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        head = "mean of heads" if self.head is None else f"head {self.head + 1}"
        queries, keys = self.weights.shape
        return f"<{self.stack} {self.kind}-attention, layer {self.layer + 1}, {head}: {queries} × {keys} tokens>"

    def _repr_html_(self) -> str:
        return str(import_module(NOTEBOOK).html_of_map(self))


# The attention maps of one sentence that a model read, and of what it wrote.

BEGIN, END = SPECIAL_TOKENS[BOS_ID], SPECIAL_TOKENS[EOS_ID]
"""The first token that a decoder is fed, and the last that is read."""

ATTENTIONS: dict[str, tuple[Stack, Kind]] = {
    "encoder": ("encoder", "self"),
    "decoder": ("decoder", "self"),
    "cross": ("decoder", "cross"),
}
"""Stack and kind of each attention, by the name that users type."""
Side = TypeVar("Side")
MapKey = tuple[Stack, Kind, int, int | None]
"""Stack, kind, layer and head (None for the mean of heads), both from 0."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SentenceMaps(Sequence[AttentionMap]):
    """Hold one sentence, one output, and the maps that were recorded of them; a notebook shows them as a page.

    `maps["cross", 2, 1]` is the cross-attention of layer 2, head 1; `maps["encoder", 2]` are all heads of that layer.
    """

    source: str
    """Text that was read."""
    output: str
    """Text that was written; "" for a model that only reads."""
    source_tokens: tuple[str, ...]
    """S tokens that an encoder reads: the pieces of `source` with its special tokens, of a translator mostly `<eos>`
    at the end; none without an encoder."""
    output_tokens: tuple[str, ...]
    """T tokens that a decoder is fed: `<bos>`, then the pieces of `output`; of a language model those of `source`; none
    without a decoder."""
    maps: tuple[AttentionMap, ...]
    occluded: NDArray[np.float64] | None = None
    """(T, S), what the log-probability of each written token loses when a source token is hidden; None if not asked
    for."""
    forced: int = 0
    """Tokens that a decoder is fed after `<bos>` whatever the source is, and that `output` does not show."""
    written: str = ""
    """The translation in the manner of the text, as in capitals; `output` is what the tokens spell."""
    note: str = ""
    """Which part of a longer text was read; empty for all of it."""

    def __len__(self) -> int:
        return len(self.maps)

    @overload
    def __getitem__(self, key: int | tuple[str, int, int]) -> AttentionMap: ...

    @overload
    def __getitem__(self, key: slice | tuple[str, int]) -> tuple[AttentionMap, ...]: ...

    def __getitem__(self, key: Any) -> AttentionMap | tuple[AttentionMap, ...]:
        """Return a map by its number from 0, or by the name of its attention, its layer and its head, both from 1.

        Without a head, return all heads. Raises `UsageError`, which lists the choices, for a name there is not.
        """
        if isinstance(key, int | slice):
            return self.maps[key]
        name, layer, head = (*key, None, None)[:3]
        if name not in ATTENTIONS:
            raise UsageError('there is no attention "{name}"; choose from {known}', name, ", ".join(ATTENTIONS))
        stack, kind = ATTENTIONS[name]
        chosen = self.select(stack, kind, None if layer is None else layer - 1, None if head is None else head - 1)
        return chosen if head is None else chosen[0]

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield each weight with its names, as `pandas.DataFrame` and others take them; layers and heads from 1."""
        for item in self.maps:
            names: dict[str, Any] = {"stack": item.stack, "kind": item.kind, "layer": item.layer + 1}
            names |= {"head": None if item.head is None else item.head + 1}
            for (query, key), weight in np.ndenumerate(item.weights):
                tokens = {"query": item.query_tokens[query], "key": item.key_tokens[key]}
                yield {**names, "query_index": query, "key_index": key, **tokens, "weight": float(weight)}

    def __repr__(self) -> str:
        return f"<{len(self.maps)} attention maps of {self.source!r}>"

    def _repr_html_(self) -> str:
        return str(import_module(NOTEBOOK).html_of_maps(self))

    def select(
        self, stack: Stack, kind: Kind, layer: int | None = None, head: int | None = None
    ) -> tuple[AttentionMap, ...]:
        """Return the maps of one attention, in order of layer and head, both counted from 0; None is every one.

        Raises `UsageError`, which counts from 1 and lists the choices.
        """
        require_known_map(map(map_key, self.maps), stack, kind, layer, head)
        wanted = (stack, kind, layer, head)
        selected = [
            one
            for one in self.maps
            if all(asked in (None, its) for asked, its in zip(wanted, map_key(one), strict=True))
        ]
        return tuple(sorted(selected, key=lambda one: (one.layer, -1 if one.head is None else one.head)))


def map_key(attention_map: AttentionMap) -> MapKey:
    return attention_map.stack, attention_map.kind, attention_map.layer, attention_map.head


def axes_of(stack: Stack, kind: Kind, source: Side, output: Side) -> tuple[Side, Side]:
    """Return what stands at the query axis and at the key axis of a map, of source and output."""
    return source if stack == "encoder" else output, output if (stack, kind) == ("decoder", "self") else source


def with_written_rows(attention_map: AttentionMap) -> AttentionMap:
    """Return the map with the rows of cross-attention labelled by the tokens that they wrote.

    Row t, fed token t, wrote token t + 1, and the last row wrote the end mark. Any other map comes back as it is.
    """
    if attention_map.kind != "cross" or attention_map.query_tokens[:1] != (BEGIN,):
        return attention_map
    return replace(attention_map, query_tokens=(*attention_map.query_tokens[1:], END))


def attention_name(stack: str, kind: str) -> str:
    """Return the name in a sentence: "encoder self-attention", "decoder self-attention", "cross-attention"."""
    return msg("cross-attention") if kind == "cross" else msg("{stack} {kind}-attention", msg(stack), kind)


def mean_of_heads(maps: Sequence[AttentionMap]) -> AttentionMap:
    """Return the mean of maps with the same tokens, as one map of the layer of the first.

    Raises `ValueError` without maps.
    """
    if not maps:
        raise ValueError("there is no attention map to take the mean of")
    first = maps[0]
    weights = np.mean([attention_map.weights for attention_map in maps], axis=0)
    return AttentionMap(weights, first.query_tokens, first.key_tokens, first.stack, first.layer, None, first.kind)


def require_known_map(keys: Iterable[MapKey], stack: Stack, kind: Kind, layer: int | None, head: int | None) -> None:
    """Raise `UsageError`, listing the choices, unless one of `keys` fits; None fits every one."""
    there = list(keys)
    name = attention_name(stack, kind)
    matching = [key for key in there if key[:2] == (stack, kind)]
    if not matching:
        known = dict.fromkeys(attention_name(*key[:2]) for key in there)
        raise UsageError("there is no {name} here; choose from {known}").fill(
            name, joined(", ", known) if known else msg("nothing: no map was recorded")
        )
    heads = {key[3] for key in matching if key[3] is not None}
    for what, number, numbers in (("layer", layer, {key[2] for key in matching}), ("head", head, heads)):
        if number is not None and number not in numbers:
            raise UsageError("there is no {axis} {number} in the {name}: choose from {known}").fill(
                msg(what), number + 1, name, _listed(numbers)
            )


def _listed(numbers: Iterable[int]) -> str:
    listed = [number + 1 for number in sorted(numbers)]
    if len(listed) > 2 and listed[-1] - listed[0] + 1 == len(listed):
        return msg("{first} to {last}", listed[0], listed[-1])
    return ", ".join(map(str, listed)) or msg("none: only the mean of heads is here")


# Join subwords to the words that the user wrote: columns are summed, rows averaged.


_SPACE = "▁"
_ESCAPED = re.compile(r"\\([ntr0])")
_CONTROL = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0"}


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """Hold the words that T tokens spell; a special token is a word of its own, under its own name."""

    names: tuple[str, ...]
    members: Bool[np.ndarray, "W T"]
    """Which tokens each word is made of; every token is in one word."""

    @classmethod
    def of(cls, tokens: Sequence[str], text: str, *, spaced: bool) -> "Words":
        """Return the words of `tokens`, spelled as in `text`.

        `spaced` tokens tell by a "▁" where a word starts; without it each is a word (a vocabulary of words).
        """
        names: list[str] = []
        numbers: list[int] = []
        for special, group in groupby(tokens, SPECIAL_TOKENS.__contains__):
            run = list(group)
            words, word_indices = _spell(run) if spaced and not special else (run, range(len(run)))
            numbers += [len(names) + word_index for word_index in word_indices]
            names += words
        if spaced:
            names = _as_written(names, text.split())
        return cls(tuple(names), np.arange(len(names))[:, None] == np.array(numbers, dtype=np.int64))


def has_spaces(tokens: Sequence[str]) -> bool:
    """Return whether tokens mark where a word starts, as the first one of a text does with subwords."""
    return next((token for token in tokens if token not in SPECIAL_TOKENS), "").startswith(_SPACE)


def join_words(sentence: SentenceMaps) -> SentenceMaps:
    """Return the same maps between words; every row still sums to 1.

    The rows of a map whose queries are named by what they wrote are joined to the words that were written.
    """
    if sentence.source_tokens:
        spaced, fed = has_spaces(sentence.source_tokens), sentence.output
    else:
        # a prompt may begin without a space, which only its other words tell; that of a character is itself
        fed = sentence.source
        spaced = len(fed.split()) < 2 or any(token.startswith((_SPACE, " ")) for token in sentence.output_tokens)
    reads = Words.of(sentence.source_tokens, sentence.source, spaced=spaced)
    writes = Words.of(sentence.output_tokens, fed, spaced=spaced)

    def joined(attention_map: AttentionMap) -> AttentionMap:
        queries, keys = axes_of(attention_map.stack, attention_map.kind, reads, writes)
        if attention_map.query_tokens not in (sentence.source_tokens, sentence.output_tokens):
            queries = Words.of(attention_map.query_tokens, fed, spaced=spaced)
        return join_map(attention_map, queries, keys)

    maps = tuple(map(joined, sentence.maps))
    return replace(sentence, source_tokens=reads.names, output_tokens=writes.names, maps=maps)


def written_words(sentence: SentenceMaps) -> SentenceMaps:
    """Return the same maps between words, where a row of cross-attention carries the word that was written."""
    return join_words(replace(sentence, maps=tuple(map(with_written_rows, sentence.maps))))


def join_map(attention_map: AttentionMap, queries: Words, keys: Words) -> AttentionMap:
    """Return one map between words: (T, S) -> (words of T, words of S)."""
    rows = queries.members / queries.members.sum(axis=1, keepdims=True)
    weights = (rows @ attention_map.weights @ keys.members.T).astype(attention_map.weights.dtype)
    return replace(attention_map, weights=weights, query_tokens=queries.names, key_tokens=keys.names)


def _spell(labels: Sequence[str]) -> tuple[list[str], list[int]]:
    """The words between the white space of `labels`, and the number of each label's word: a space is of the next."""
    raw = [_bytes(label) for label in labels]
    # a character may be spread over labels; whatever is not UTF-8 keeps its place too
    text = b"".join(raw).decode("utf-8", "surrogateescape")
    word_of_byte: list[int] = []
    words = 0
    for before, character in zip(" " + text, text, strict=False):
        blank = character.isspace()
        words += before.isspace() and not blank
        word_of_byte += [words if blank else words - 1] * len(character.encode("utf-8", "surrogateescape"))
    starts = accumulate((len(part) for part in raw[:-1]), initial=0)
    # the last spaces have no next word; a word that begins inside a label belongs to the one before
    numbers = [min(word_of_byte[start], words - 1) for start in starts]
    spelled = [
        b"".join(part for _, part in group).decode("utf-8", "replace")
        for _, group in groupby(zip(numbers, raw, strict=True), key=itemgetter(0))
    ]
    word_indices = accumulate((after > before for before, after in pairwise(numbers)), initial=0)
    return [" ".join(part.split()) or _SPACE for part in spelled], list(word_indices)


def _bytes(label: str) -> bytes:
    """What a tokenizer's `labels` stand for. It never joins a typed backslash with the letter after it."""
    parts = _ESCAPED.split(label.replace(_SPACE, " "))
    # text, control letter, text, …
    return b"".join(bytes_of(part) if index % 2 == 0 else _CONTROL[part] for index, part in enumerate(parts))


def _as_written(names: list[str], written: list[str]) -> list[str]:
    """Lower-casing and composed accents are the tokenizer's, not the user's."""
    plain = [index for index, name in enumerate(names) if name not in SPECIAL_TOKENS]
    if len(plain) == len(written):
        for index, word in zip(plain, written, strict=True):
            names[index] = word
    return names


# Show which word each word attends to most, head by head, as lines for a terminal.


def peak(attention_map: AttentionMap, row: int) -> tuple[str, float]:
    """Return the token that a row of a map attends to most, the first of equals, and its share of the row."""
    index = int(attention_map.weights[row].argmax())
    return attention_map.key_tokens[index], float(attention_map.weights[row, index])


def peak_lines(sentence: SentenceMaps) -> list[str]:
    """Return a table for each attention and layer: a line for each word, a column for each head.

    A cell holds the most attended word and its share.

    A word of cross-attention is one that was written.
    """
    lines: list[str] = []
    for (stack, kind, layer), group in groupby(written_words(sentence).maps, key=lambda one: map_key(one)[:3]):
        heads = list(group)
        lines += [""] if lines else []
        lines.append(translated("{attention_name}, layer {layer}", attention_name(stack, kind), layer + 1))
        lines += _columns(list(_rows(heads)))
    return lines


def _rows(heads: Sequence[AttentionMap]) -> Iterator[list[str]]:
    names = (msg("mean of heads") if one.head is None else msg("head {head}", one.head + 1) for one in heads)
    yield ["", *map(localized, names)]
    for row, word in enumerate(heads[0].query_tokens):
        peaks = (peak(attention_map, row) for attention_map in heads)
        yield [word, *(f"{looked_at} {share:.2f}" for looked_at, share in peaks)]


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


# Link words by the heads of cross-attention.

Links = tuple[tuple[int, int], ...]
"""Pairs of source word and target word, both from 0, in order."""


def word_links(sentence: SentenceMaps) -> Links:
    """Return for every target word the source word with the largest mean cross-attention.

    A word's weight is the mean over the steps that wrote its subwords, summed over the subwords of the source word;
    of equal weights the first counts. Special tokens are not words, and neither are those that are forced. Raises
    `UsageError` without cross-attention.
    """
    mean, first = mean_of_heads(sentence.select("decoder", "cross")), sentence.forced
    # row t, fed token t, wrote token t + 1; the last one wrote the end mark
    mean = replace(mean, weights=mean.weights[first:-1], query_tokens=mean.query_tokens[first + 1 :])
    spaced = has_spaces(sentence.source_tokens)
    writes = Words.of(mean.query_tokens, sentence.output, spaced=spaced)
    joined = join_map(mean, writes, Words.of(mean.key_tokens, sentence.source, spaced=spaced))
    sources = [index for index, name in enumerate(joined.key_tokens) if name not in (BEGIN, END)]
    best = joined.weights[:, sources].argmax(axis=1).tolist() if sources else []
    return tuple(sorted((source, target) for target, source in enumerate(best)))


def as_pharaoh(links: Links) -> str:
    """Return `0-0 1-2`: the form that alignment tools read, one line a sentence pair."""
    return " ".join(f"{source}-{target}" for source, target in links)
