"""Write vectors to a file, rank neighbours and draw them: --out, --nearest and --picture of `dikkat embed`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dikkat_runtime.cli.streams import print_note, print_written
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.text.text_files import read_lines

if TYPE_CHECKING:
    from dikkat_runtime.tasks.embedder import Vector


def check(out: Path | None, picture: Path | None) -> None:
    """Raise an error of the user for options that cannot be obeyed, before any work."""
    from dikkat.explain.pictures import check_format

    if out is not None:
        from dikkat.tasks.embedding import WRITERS

        check_format(out, WRITERS)
    if picture is not None:
        check_format(picture)


def show(
    vectors: list[Vector], tokens: bool, title: str, *, out: Path | None, nearest: int | None, picture: Path | None
) -> None:
    """Write vectors to `out`, print the `nearest` of each, and draw them in `picture`, where these are given."""
    if out is not None:
        from dikkat.tasks.embedding import write_vectors

        write_vectors(out, vectors, tokens)
    if nearest is not None:
        _print_nearest(vectors, nearest)
    if picture is not None:
        _draw(vectors, picture, title)
    print_written(out, picture)


def _print_nearest(vectors: list[Vector], count: int) -> None:
    """`line<TAB>text<TAB>cosine<TAB>its line<TAB>its text`, the best first."""
    import numpy as np

    from dikkat.explain.word_vectors import nearest_neighbours

    _require_two([vector for vector in vectors if vector.values.any()], "--nearest")
    texts = [vector.text.replace("\t", " ") for vector in vectors]
    ranked = nearest_neighbours(np.stack([vector.values for vector in vectors]), count)
    for vector, text, neighbours in zip(vectors, texts, ranked, strict=True):
        for neighbour, cosine in neighbours:
            sys.stdout.write(f"{vector.line}\t{text}\t{cosine:.4f}\t{vectors[neighbour].line}\t{texts[neighbour]}\n")
    sys.stdout.flush()


def compare(vectors: list[Vector], count: int, path: Path) -> None:
    """Tell on standard error how often neighbours have the same label, next to those that BM25 finds by words.

    Raises `DataError` where `path` does not hold one label a line.
    """
    import numpy as np

    from dikkat.evaluation.bm25 import bm25_neighbours
    from dikkat.explain.word_vectors import nearest_neighbours

    labels = np.array(list(read_lines(path)))
    if len(labels) < (last := max(vector.line for vector in vectors)):
        raise DataError(
            "{path}: has {labels:,} labels, but there are {lines:,} lines; give one per line", path, len(labels), last
        )
    real = [vector for vector in vectors if vector.values.any()]
    own = labels[[vector.line - 1 for vector in real]]
    ranked = nearest_neighbours(np.stack([vector.values for vector in real]), count)
    by_words = bm25_neighbours([vector.text for vector in real], count)

    def shared(neighbours: Sequence[Sequence[int]]) -> float:
        return 100 * float(
            np.mean([(own[row] == label).mean() for row, label in zip(map(list, neighbours), own, strict=True)])
        )

    by_vectors, by_text = shared([[index for index, _ in row] for row in ranked]), shared(by_words.tolist())
    print_note(
        "neighbours with the same label: {share:.2f} % of {count}; by words alone (BM25) {by_words:.2f} %",
        by_vectors,
        count,
        by_text,
    )
    if by_text > by_vectors:
        print_note("words alone find better neighbours here; use a search engine, or train on such texts")


def _draw(vectors: list[Vector], picture: Path, title: str) -> None:
    import numpy as np

    from dikkat.explain.plots import plot_points
    from dikkat.explain.word_vectors import principal_plane, unit_rows

    real = [vector for vector in vectors if vector.values.any()]
    _require_two(real, "--picture")
    points, share = principal_plane(unit_rows(np.stack([vector.values for vector in real])))
    caption = msg("directions of the vectors on the plane where they differ most: {share:.0%} of the variance", share)
    shown = plot_points(points, [vector.text for vector in real], picture, title, caption)
    if shown < len(real):
        print_note("{picture}: {count} points, room for {labels} labels", picture, len(real), shown)


def _require_two(vectors: list[Vector], option: str) -> None:
    if len(vectors) < 2:
        raise DataError("{option} needs at least two texts that are not empty, not {count}", option, len(vectors))
