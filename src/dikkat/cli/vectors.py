"""Write vectors to a file, rank neighbours and draw them: --out, --nearest and --picture of `dikkat embed`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dikkat_runtime.cli.streams import print_note, print_written
from dikkat_runtime.errors import DataError, UsageError, msg

if TYPE_CHECKING:
    from dikkat_runtime.tasks.embedder import Vector


def check(out: Path | None, nearest: int | None, picture: Path | None) -> None:
    """Raise an error of the user for options that cannot be obeyed, before any work."""
    if nearest is not None and nearest < 1:
        raise UsageError("--nearest must be at least 1, not {nearest}", nearest)
    if out is not None:
        from dikkat.tasks.embedding.vector_files import check_suffix

        check_suffix(out)
    if picture is not None:
        from dikkat.explain.pictures import check_format

        check_format(picture)


def show(
    vectors: list[Vector], tokens: bool, title: str, *, out: Path | None, nearest: int | None, picture: Path | None
) -> None:
    """Write vectors to `out`, print the `nearest` of each, and draw them in `picture`, where these are given."""
    if out is not None:
        from dikkat.tasks.embedding.vector_files import write_vectors

        write_vectors(out, vectors, tokens)
    if nearest is not None:
        _print_nearest(vectors, nearest)
    if picture is not None:
        _draw(vectors, picture, title)
    print_written(out, picture)


def _print_nearest(vectors: list[Vector], count: int) -> None:
    """`line<TAB>text<TAB>cosine<TAB>its line<TAB>its text`, the best first."""
    import numpy as np

    from dikkat.explain.vector_space import nearest_neighbours

    _require_two([vector for vector in vectors if vector.values.any()], "--nearest")
    texts = [vector.text.replace("\t", " ") for vector in vectors]
    ranked = nearest_neighbours(np.stack([vector.values for vector in vectors]), count)
    for vector, text, neighbours in zip(vectors, texts, ranked, strict=True):
        for neighbour, cosine in neighbours:
            sys.stdout.write(f"{vector.line}\t{text}\t{cosine:.4f}\t{vectors[neighbour].line}\t{texts[neighbour]}\n")
    sys.stdout.flush()


def _draw(vectors: list[Vector], picture: Path, title: str) -> None:
    import numpy as np

    from dikkat.explain.plots import plot_points
    from dikkat.explain.vector_space import principal_plane, unit_rows

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
