"""Write attention maps to files for other programs: JSON, npz and Pharaoh word alignments."""

import io
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from dikkat.explain.attention_map import AttentionMap, SentenceMaps, as_pharaoh, word_links
from dikkat_runtime.errors import DataError
from dikkat_runtime.files import write_atomically

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
                "{path}: JSON takes at most {max_json_weights:,} weights; choose one layer or head, or write .npz"
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
