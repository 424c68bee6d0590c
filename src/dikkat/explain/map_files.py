"""Write attention maps to files for other programs: JSON, npz and Pharaoh word alignments.

The first two hold one document, in JSON or as the array `document` of the npz:

    {"format": "dikkat-attention", "version": 1, "sentences": [
      {"source": "…", "output": "…", "source_tokens": ["▁A", …, "<eos>"], "output_tokens": ["<bos>", …], "maps": [
        {"stack": "encoder" | "decoder", "kind": "self" | "cross", "layer": 1, "head": 1 | null, "weights": …}]}]}

Layers and heads count from 1; head null is the mean of heads. Row t of `weights`, over column s, is how much query
token t attends to key token s. The queries are `source_tokens` in the encoder, else `output_tokens`; the keys are
`output_tokens` in the decoder's self-attention, else `source_tokens`. A classifier and an encoder write nothing: their
"output" is "" without tokens. So is that of a language model, whose `output_tokens` are those of its prompt, the
"source", and which has no `source_tokens`. There is no padding. In JSON, `weights` are
rows of numbers; in an npz, the name of a float32 array (T, S), such as `1.decoder.cross.layer2.head3` for sentence 1.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dikkat.explain.attention_map import BEGIN, END, AttentionMap, SentenceMaps, mean_of_heads
from dikkat.explain.joined_words import Words, has_spaces, join_map
from dikkat_runtime.errors import DataError
from dikkat_runtime.files import write_atomically

Links = tuple[tuple[int, int], ...]
"""Pairs of source word and target word, both from 0, in order."""


def written_map(attention_map: AttentionMap) -> AttentionMap:
    """Return a cross-attention map with each row under the token that it wrote, not the one that it was fed.

    Row t, fed token t, wrote token t + 1; the last, which wrote the end mark, is left out.
    """
    return replace(attention_map, weights=attention_map.weights[:-1], query_tokens=attention_map.query_tokens[1:])


def word_links(sentence: SentenceMaps) -> Links:
    """Return for every target word the source word with the largest mean cross-attention.

    A word's weight is the mean over the steps that wrote its subwords, summed over the subwords of the source word;
    of equal weights the first counts. Special tokens are not words, and neither are those that are forced. Raises
    `UsageError` without cross-attention.
    """
    mean = written_map(mean_of_heads(sentence.select("decoder", "cross")))
    first = sentence.forced
    mean = replace(mean, weights=mean.weights[first:], query_tokens=mean.query_tokens[first:])
    spaced = has_spaces(sentence.source_tokens)
    writes = Words.of(mean.query_tokens, sentence.output, spaced=spaced)
    joined = join_map(mean, writes, Words.of(mean.key_tokens, sentence.source, spaced=spaced))
    sources = [index for index, name in enumerate(joined.key_tokens) if name not in (BEGIN, END)]
    best = joined.weights[:, sources].argmax(axis=1).tolist() if sources else []
    return tuple(sorted((source, target) for target, source in enumerate(best)))


def as_pharaoh(links: Links) -> str:
    """Return `0-0 1-2`: the form that alignment tools read, one line a sentence pair."""
    return " ".join(f"{source}-{target}" for source, target in links)


FORMAT, VERSION = "dikkat-attention", 1
MAX_JSON_WEIGHTS = 5_000_000
"""About 50 MB of text."""

_Weights = np.ndarray[Any, np.dtype[np.float32]]


def write_json(sentences: Iterable[SentenceMaps], path: Path) -> None:
    """Write all maps; the digits of every weight name its float32 exactly.

    Raises `DataError` for more weights than `MAX_JSON_WEIGHTS`, `DiskError` or `CannotCreateError`.
    """
    weights_so_far = 0

    def as_rows(number: int, attention_map: AttentionMap) -> list[list[float]]:
        nonlocal weights_so_far
        weights_so_far += attention_map.weights.size
        if weights_so_far > MAX_JSON_WEIGHTS:
            raise DataError(
                "{path}: these are more than the {max_json_weights:,} weights that JSON takes; choose one layer or "
                "head, or write .npz"
            ).fill(path, MAX_JSON_WEIGHTS)
        # the shortest digits that name the float32, not those of the float64 that it is widened to
        rows: list[list[float]] = attention_map.weights.astype(np.float32).astype(str).astype(np.float64).tolist()
        return rows

    document = _document(sentences, as_rows)
    write_atomically(path, (json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n").encode())


def write_npz(sentences: Iterable[SentenceMaps], path: Path) -> None:
    """Write all maps, compressed. Raises `DiskError` or `CannotCreateError`."""
    arrays: dict[str, _Weights] = {}

    def as_name(number: int, attention_map: AttentionMap) -> str:
        head = "mean" if attention_map.head is None else f"head{attention_map.head + 1}"
        name = f"{number}.{attention_map.stack}.{attention_map.kind}.layer{attention_map.layer + 1}.{head}"
        arrays[name] = attention_map.weights.astype(np.float32)
        return name

    document = json.dumps(_document(sentences, as_name), ensure_ascii=False)
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, document=np.array(document), **arrays)
    write_atomically(path, content.getvalue())


def write_alignment(sentences: Iterable[SentenceMaps], path: Path) -> None:
    """Write the `word_links` of each sentence as a Pharaoh line. Raises `DiskError` or `CannotCreateError`."""
    write_atomically(path, "".join(as_pharaoh(word_links(sentence)) + "\n" for sentence in sentences).encode())


def _document(sentences: Iterable[SentenceMaps], weights: Callable[[int, AttentionMap], object]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "sentences": [
            {
                "source": sentence.source,
                "output": sentence.output,
                "source_tokens": sentence.source_tokens,
                "output_tokens": sentence.output_tokens,
                "maps": [
                    {
                        "stack": attention_map.stack,
                        "kind": attention_map.kind,
                        "layer": attention_map.layer + 1,
                        "head": None if attention_map.head is None else attention_map.head + 1,
                        "weights": weights(number, attention_map),
                    }
                    for attention_map in sentence.maps
                ],
            }
            for number, sentence in enumerate(sentences, 1)
        ],
    }
