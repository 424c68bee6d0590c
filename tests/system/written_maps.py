"""Read the maps that `dikkat attend` wrote, with the reader that docs show to other programs."""

from __future__ import annotations

from pathlib import Path

from examples.read_maps import read_maps

from dikkat.explain.attention_map import AttentionMap, SentenceMaps, axes_of


def written_maps(path: Path) -> tuple[SentenceMaps, ...]:
    """Return the sentences of a JSON or npz file as the objects that were written."""
    sentences = []
    for sentence in read_maps(path):
        reads, writes = tuple(sentence["source_tokens"]), tuple(sentence["output_tokens"])
        maps = tuple(
            AttentionMap(
                entry["weights"],
                *axes_of(entry["stack"], entry["kind"], reads, writes),
                stack=entry["stack"],
                layer=entry["layer"] - 1,
                head=None if entry["head"] is None else entry["head"] - 1,
                kind=entry["kind"],
            )
            for entry in sentence["maps"]
        )
        sentences.append(SentenceMaps(sentence["source"], sentence["output"], reads, writes, maps))
    return tuple(sentences)
