"""Show attention maps of any model as a page to explore: in a cell of a notebook, or as one HTML file."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from dikkat.explain.attention_map import (
    END,
    AttentionMap,
    Kind,
    SentenceMaps,
    Stack,
    Words,
    attention_name,
    has_spaces,
    mean_of_heads,
    peak,
    with_written_rows,
    written_words,
)
from dikkat.explain.drawing.chart import MAP_STYLE, escaped, small_map
from dikkat.explain.explorer.document import (
    Beam,
    HeadOff,
    MapKind,
    Maps,
    Page,
    PageSentence,
    Saliency,
    TokenizedText,
    Weights,
    assemble,
)
from dikkat.explain.head_analysis.importance import attention_rollout
from dikkat.explain.pictures import PAGES, check_format
from dikkat.explain.report.html import framed
from dikkat_runtime.errors import DataError, UsageError, msg
from dikkat_runtime.files import write_atomically
from dikkat_runtime.localization import language as spoken_language
from dikkat_runtime.localization import localized, translated

PAGE_KINDS: dict[tuple[str, str], MapKind] = {
    ("encoder", "self"): "encoder-self",
    ("decoder", "self"): "decoder-self",
    ("decoder", "cross"): "cross",
}
NEXT = "…"
"""Stands for the token after a prompt, which nobody has written."""
MAX_DESCRIBED = 40
"""Tokens of one side, or words, up to which a map is also drawn without scripts, and written as a table."""
MAX_QUERIES = 200
"""Queries of a map that are described in words."""
HIDDEN_WEIGHTS = msg(
    'the model hides its attention weights; load it with attn_implementation="eager", and call it with '
    "output_attentions=True"
)


def page_sentence(
    maps: SentenceMaps,
    *,
    score: float | None = None,
    beam: Beam | None = None,
    heads_off: Sequence[HeadOff] = (),
    saliency: Saliency | None = None,
    is_given: bool = False,
) -> PageSentence:
    """Return a sentence as the page shows it. Raises `UsageError` unless every layer and head is there."""
    by_kind = _by_kind(maps)
    end = END if maps.source_tokens else NEXT
    written = (*maps.output_tokens, end) if maps.output_tokens else ()
    labels = maps.source_tokens or maps.output_tokens
    return PageSentence(
        source=_tokenized(maps.source if maps.source_tokens else "", maps.source_tokens, labels),
        target=_tokenized(maps.output if maps.source_tokens else maps.source, written, labels),
        score=score,
        maps=by_kind,
        rollout={
            kind: [weights.astype(np.float32)[None] for weights in attention_rollout(layers)]
            for kind, layers in by_kind.items()
            if kind != "cross"
        },
        beam=beam,
        heads_off=heads_off,
        saliency=saliency,
        is_given=is_given,
    )


def _by_kind(maps: SentenceMaps) -> Maps:
    layers: dict[MapKind, dict[int, dict[int | None, Weights]]] = {}
    for item in maps.maps:
        heads = layers.setdefault(PAGE_KINDS[item.stack, item.kind], {}).setdefault(item.layer, {})
        heads[item.head] = item.weights
    for kind, by_layer in layers.items():
        numbered = [*by_layer, *(head for heads in by_layer.values() for head in heads)]
        if sorted(by_layer) != list(range(len(by_layer))) or None in numbered:
            raise UsageError("a page shows every layer and head, but some of {kind} are missing; give all maps", kind)
    return {
        kind: [np.stack(list(by_layer[at].values())) for at in sorted(by_layer)] for kind, by_layer in layers.items()
    }


def _tokenized(text: str, tokens: tuple[str, ...], labels: tuple[str, ...]) -> TokenizedText:
    if not tokens:
        return TokenizedText(text, (), (), ())
    # the other side tells whether the vocabulary is of subwords, since a target may be empty
    words = Words.of(tokens, text, spaced=has_spaces(labels))
    numbers = words.members.argmax(axis=0)
    # a token may hold a rare separator and so be of two words: it becomes the one word of both
    firsts, ids = np.unique(numbers, return_inverse=True)
    ends = [*firsts[1:].tolist(), len(words.names)]
    names = (" ".join(words.names[first:end]) for first, end in zip(firsts.tolist(), ends, strict=True))
    return TokenizedText(text, tokens, tuple(ids.tolist()), tuple(names))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Shown:
    """Hold a page, which a notebook shows inside its cell."""

    name: str
    html: str
    """The whole file, which makes no request."""
    description: str = ""
    """HTML for whom scripts are off."""

    def write(self, path: str | Path) -> Path:
        """Write the page as one HTML file. Raises `UsageError` unless it ends in .html."""
        check_format(Path(path), PAGES)
        write_atomically(Path(path), self.html.encode("utf-8", "replace"))
        return Path(path)

    def _repr_html_(self) -> str:
        return framed(self.name, self.html, "width: 100%; height: 40rem; border: 0") + self.description

    def __repr__(self) -> str:
        return f'<page of {self.name}; .write("page.html") makes a file of it>'


def explorer_of(sentences: Sequence[SentenceMaps], name: str = "model") -> Shown:
    """Return the page of sentences whose maps were recorded. Raises `DataError` where there is none."""
    if not sentences:
        raise DataError("a page needs at least one sentence")
    return shown_page(Page(name, "", "", tuple(map(page_sentence, sentences))), sentences[0])


def shown_page(page: Page, maps: SentenceMaps) -> Shown:
    """Return a page for a notebook, with the `maps` of its first sentence in words."""
    return Shown(page.name, assemble(page, spoken_language()), described(maps))


def described(maps: SentenceMaps) -> str:
    """Return HTML without scripts: for each layer the mean of its heads as a drawing, as sentences and as a table.

    A long text is described word by word, and where it has over `MAX_DESCRIBED` words, in sentences alone.
    """
    if max(len(maps.source_tokens), len(maps.output_tokens)) > MAX_DESCRIBED:
        maps = written_words(maps)
    is_short = max(len(maps.source_tokens), len(maps.output_tokens)) <= MAX_DESCRIBED
    parts = [_described_map(mean_of_heads(heads), is_drawn=is_short) for heads in by_layer(maps)]
    note = f"<p>{escaped(localized(maps.note))}</p>" if maps.note else ""
    summary = escaped(translated("The same in words, without scripts: mean of the heads of each layer"))
    return f"{note}<details><summary>{summary}</summary><style>{MAP_STYLE}</style>{''.join(parts)}</details>"


def by_layer(maps: SentenceMaps) -> list[tuple[AttentionMap, ...]]:
    """Return the heads of each layer of each attention, in the order of the maps."""
    return [maps.select(*key) for key in dict.fromkeys((item.stack, item.kind, item.layer) for item in maps.maps)]


def sentences_of_map(attention_map: AttentionMap) -> list[str]:
    """Return one sentence a query, of at most `MAX_QUERIES`: "it looks at animal, 1.00"."""
    rows = with_written_rows(attention_map)
    peaks = ((query, *peak(rows, row)) for row, query in enumerate(rows.query_tokens[:MAX_QUERIES]))
    lines = [
        translated("{query} looks at {key}, {share:.2f}", _plain(query), _plain(key), share)
        for query, key, share in peaks
    ]
    return lines + ["…"] * (len(rows.query_tokens) > MAX_QUERIES)


def _plain(token: str) -> str:
    return token.removeprefix("▁") or token


def _title(attention_map: AttentionMap) -> str:
    """Return the name of a map for a heading, its layer and head counted from 1."""
    head = "" if attention_map.head is None else f", {translated('head {head}', attention_map.head + 1)}"
    name = attention_name(attention_map.stack, attention_map.kind)
    return translated("{attention_name}, layer {layer}", name, attention_map.layer + 1) + head


def _described_map(attention_map: AttentionMap, *, is_drawn: bool = True) -> str:
    rows = with_written_rows(attention_map)
    title = f"<h4>{escaped(_title(attention_map))}</h4>"
    description = "; ".join(map(escaped, sentences_of_map(attention_map)))
    if not is_drawn:
        return f"{title}<p>{description}.</p>"
    head = "".join(f'<th scope="col">{escaped(_plain(key))}</th>' for key in rows.key_tokens)
    body = "".join(
        f'<tr><th scope="row">{escaped(_plain(query))}</th>'
        + "".join(f"<td>{weight:.2f}</td>" for weight in weights)
        + "</tr>"
        for query, weights in zip(rows.query_tokens, rows.weights, strict=True)
    )
    table = f"<table><tr><td></td>{head}</tr>{body}</table>"
    # a notebook has no colours of a page
    drawing = f'<div style="--ink: currentColor; --line: #888; --c0: #0072b2">{small_map(attention_map)}</div>'
    summary = escaped(translated("as a table"))
    return f"{title}{drawing}<p>{description}.</p><details><summary>{summary}</summary>{table}</details>"


def html_of_map(attention_map: AttentionMap) -> str:
    """Return one map as a drawing, as sentences and as a table, for a cell of a notebook."""
    return f"<style>{MAP_STYLE}</style>{_described_map(attention_map)}"


def html_of_maps(maps: SentenceMaps) -> str:
    """Return the page of the maps, or, where some layers or heads are not among them, one after the other."""
    try:
        return explorer_of([maps])._repr_html_()
    except UsageError:
        return "".join(map(html_of_map, maps.maps))


# Read the maps of models that dikkat did not make.


def page(maps: Any, tokens: Sequence[str] = (), written: Sequence[str] = (), *, name: str = "model") -> Shown:
    """Return the page of attention maps of any model; see `attention_maps`."""
    return explorer_of([attention_maps(maps, tokens, written)], name)


def attention_maps(maps: Any, tokens: Sequence[str] = (), written: Sequence[str] = ()) -> SentenceMaps:
    """Return attention maps of one sentence under the names of their layers and heads.

    `maps` is what `dikkat.nn.record_attention` yields, the output of a model of Hugging Face that was called with
    `output_attentions=True`, a sequence of one array (B, H, T, S) or (H, T, S) a layer, or `AttentionMap`s. `tokens`
    are all that the model read, special ones included; `written` those that a decoder with a source was fed. Maps that
    look at no later token are those of a decoder. Raises `UsageError` without maps, where the model hides them, for
    more than one sentence, and for tokens that are missing or of another number.
    """
    if isinstance(maps, SentenceMaps):
        return maps
    if isinstance(maps, Sequence) and maps and isinstance(maps[0], AttentionMap):
        reads = next((item.key_tokens for item in maps if item.kind == "cross" or item.stack == "encoder"), ())
        writes = next((item.query_tokens for item in maps if item.stack == "decoder"), ())
        return SentenceMaps(_text(reads or writes), _text(writes) if reads else "", reads, writes, tuple(maps))
    layers = [(stack, kind, layer, _heads(weights)) for stack, kind, layer, weights in _layers(maps)]
    if not layers:
        raise UsageError("there is no attention map: {reason}", HIDDEN_WEIGHTS)
    if not len(tokens):
        raise UsageError("maps need the tokens that were read: page(maps, tokenizer.convert_ids_to_tokens(ids))")
    side, other = tuple(_marked(tokens)), tuple(_marked(written))
    stacks = {stack for stack, *_ in layers}
    has_source = bool(other) or "encoder" in stacks or any(kind == "cross" for _, kind, *_ in layers)
    reads, writes = (side, other) if has_source else ((), side)
    named: list[AttentionMap] = []
    for stack, kind, layer, heads in layers:
        queries = reads if stack == "encoder" else writes
        keys = queries if kind == "self" else reads
        if heads.shape[1:] != (len(queries), len(keys)):
            raise UsageError(
                "the maps are of {rows} and {columns} tokens, but {queries} and {keys} were given; give all that the "
                "model read, special ones included"
            ).fill(*heads.shape[1:], len(queries), len(keys))
        named += [AttentionMap(row, queries, keys, stack, layer, head, kind) for head, row in enumerate(heads)]
    return SentenceMaps(_text(side), _text(writes) if has_source else "", reads, writes, tuple(named))


def _layers(maps: Any) -> Iterable[tuple[Stack, Kind, int, Any]]:
    if isinstance(maps, Mapping) and all(hasattr(name, "kind") for name in maps):
        for name, (weights, *_) in maps.items():
            known = name.stack in get_args(Stack)
            yield cast(Stack, name.stack) if known else _stack_of(weights), name.kind, name.layer, weights
        return
    if not isinstance(maps, Mapping) and isinstance(maps, Sequence):
        maps = {"attentions": maps}
    kinds: dict[str, tuple[Stack | None, Kind]] = {
        "encoder_attentions": ("encoder", "self"),
        "decoder_attentions": ("decoder", "self"),
        "cross_attentions": ("decoder", "cross"),
        "attentions": (None, "self"),
    }
    for field, (stack, kind) in kinds.items():
        layers = maps.get(field) if isinstance(maps, Mapping) else getattr(maps, field, None)
        for layer, weights in enumerate(layers or ()):
            if weights is None:
                raise UsageError("there is no attention map: {reason}", HIDDEN_WEIGHTS)
            yield stack or _stack_of(weights), kind, layer, weights


def _stack_of(weights: Any) -> Stack:
    return "encoder" if np.triu(_heads(weights), 1).any() else "decoder"


def _heads(weights: Any) -> Weights:
    """(B, H, T, S) or (H, T, S) -> (H, T, S)"""
    array = np.asarray(weights.detach().cpu().float() if hasattr(weights, "detach") else weights, dtype=np.float32)
    if array.ndim == 4 and len(array) == 1:
        array = array[0]
    if array.ndim != 3:
        raise UsageError(
            "the maps of a layer have the axes (H, T, S), heads of one sentence, but the shape {shape}; pick one "
            "sentence"
        ).fill(str(array.shape))
    return array


def _marked(tokens: Sequence[str]) -> Iterable[str]:
    """Tokens with "▁" where a word begins, whichever mark the tokenizer has."""
    if any(token.startswith("Ġ") for token in tokens):
        return (token.replace("Ġ", "▁").replace("Ċ", "\\n") for token in tokens)
    if any(token.startswith("##") for token in tokens):
        return (token.removeprefix("##") if token.startswith("##") else f"▁{token}" for token in tokens)
    return tokens


def _text(tokens: Sequence[str]) -> str:
    joint = "" if any(token.startswith("▁") for token in tokens) else " "
    return joint.join(tokens).replace("▁", " ").strip()
