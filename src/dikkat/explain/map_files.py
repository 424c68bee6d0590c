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
from pathlib import Path
from typing import Any

import numpy as np

from dikkat.explain.attention_map import AttentionMap
from dikkat.explain.sentence_maps import SentenceMaps, axes_of
from dikkat.explain.word_alignment import as_pharaoh, word_links
from dikkat_runtime.errors import DataError, DikkatError, MissingInputError
from dikkat_runtime.files import write_atomically
from dikkat_runtime.text.foreign_json import require_regular, shown

FORMAT, VERSION = "dikkat-attention", 1
MOST_JSON_WEIGHTS = 5_000_000
"""About 50 MB of text."""

_Weights = np.ndarray[Any, np.dtype[np.float32]]


def write_json(sentences: Iterable[SentenceMaps], path: Path) -> None:
    """Write all maps; every weight is read back bit for bit.

    Raises `DataError` for more weights than `MOST_JSON_WEIGHTS`, `DiskError` or `CannotCreateError`.
    """
    weights_so_far = 0

    def as_rows(number: int, attention_map: AttentionMap) -> list[list[float]]:
        nonlocal weights_so_far
        weights_so_far += attention_map.weights.size
        if weights_so_far > MOST_JSON_WEIGHTS:
            raise DataError(
                f"{path}: these are more than the {MOST_JSON_WEIGHTS:,} weights that JSON takes;"
                " choose one layer or head, or write .npz"
            )
        # the shortest digits that name the float32, not those of the float64 that it is widened to
        rows: list[list[float]] = attention_map.weights.astype(np.float32).astype(str).astype(np.float64).tolist()
        return rows

    document = _document(sentences, as_rows)
    write_atomically(path, (json.dumps(document, ensure_ascii=False, allow_nan=False) + "\n").encode())


def read_json(path: Path) -> tuple[SentenceMaps, ...]:
    """Read what `write_json` wrote. Raises `MissingInputError`, or `DataError` for a damaged or foreign file."""
    try:
        document = json.loads(_content(path))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: is not JSON: {shown(str(error))}; write it anew with dikkat attend") from None
    return _sentences(path, document, _from_rows)


def _from_rows(rows: Any) -> _Weights:
    with np.errstate(over="ignore"):  # what becomes infinite is refused
        return np.array(rows, dtype=np.float32)


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


def read_npz(path: Path) -> tuple[SentenceMaps, ...]:
    """Read what `write_npz` wrote. Raises `MissingInputError`, or `DataError` for a damaged or foreign file."""
    try:
        with np.load(io.BytesIO(_content(path)), allow_pickle=False) as arrays:
            document = json.loads(str(arrays["document"]))
            return _sentences(path, document, arrays.__getitem__)
    except DikkatError:
        raise
    except Exception as error:  # of zip, its three compressions and the header of an array, each raises its own kinds
        reason = shown(str(error))
        raise DataError(f"{path}: not a readable file of attention maps ({reason}); write it anew") from None


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


def _sentences(path: Path, document: Any, weights: Callable[[Any], _Weights]) -> tuple[SentenceMaps, ...]:
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DataError(f'{path}: is no file of attention maps: its "format" is not "{FORMAT}"')
    if document.get("version") != VERSION:
        version = shown(repr(document.get("version")))
        raise DataError(f"{path}: has version {version}, this dikkat reads {VERSION}; update dikkat")
    try:
        return tuple(_sentence(entry, weights) for entry in document["sentences"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = shown(str(error))
        raise DataError(f"{path}: not a readable file of attention maps ({reason}); write it anew") from None


def _sentence(entry: dict[str, Any], weights: Callable[[Any], _Weights]) -> SentenceMaps:
    reads, writes = tuple(entry["source_tokens"]), tuple(entry["output_tokens"])
    maps = tuple(
        AttentionMap(
            _finite(weights(map_entry["weights"])),
            *axes_of(map_entry["stack"], map_entry["kind"], reads, writes),
            stack=map_entry["stack"],
            layer=map_entry["layer"] - 1,
            head=None if map_entry["head"] is None else map_entry["head"] - 1,
            kind=map_entry["kind"],
        )
        for map_entry in entry["maps"]
    )
    return SentenceMaps(entry["source"], entry["output"], reads, writes, maps)


def _finite(weights: _Weights) -> _Weights:
    if not np.isfinite(weights).all():
        raise ValueError("a weight is not finite")
    return weights


def _content(path: Path) -> bytes:
    require_regular(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise MissingInputError(f"{path}: cannot be read: {error.strerror}") from None
