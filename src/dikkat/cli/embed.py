"""`dikkat embed`: lines in, vectors out, and what lies near what."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from dikkat.cli.engine_option import DEVICE_HELP, ENGINE_HELP, PRECISION_HELP, print_engine
from dikkat.cli.input_lines import InputLines
from dikkat.cli.streams import print_written
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import Device
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.messages import msg

if TYPE_CHECKING:
    from dikkat.tasks.embedding.embedder import Embedder
    from dikkat_runtime.tasks.cross_embedder import CrossEmbedder
    from dikkat_runtime.tasks.embedder import Vector

Of = Literal["text", "cross"]
"""Whose vectors: those of what is read, or those of what a translator writes."""


def embed(
    run: Annotated[Path, typer.Argument(help="Run directory of any kind of model.", show_default=False)],
    file: Annotated[Path | None, typer.Argument(help="Text, one line each; standard input if absent.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write .npz, .tsv or .jsonl instead of TSV to the output.")] = None,
    tokens: Annotated[bool, typer.Option("--tokens", help="A vector for each token instead of each line.")] = False,
    nearest: Annotated[int | None, typer.Option(help="Print so many nearest neighbours of each by cosine.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw all on a plane as .png or .svg.")] = None,
    of: Annotated[
        Of,
        typer.Option(help="text: what is read; cross: what cross-attention gives each token that a translator writes."),
    ] = "text",
    precision: Annotated[PrecisionName, typer.Option(help=PRECISION_HELP)] = "auto",
    device: Annotated[Device, typer.Option(help=DEVICE_HELP)] = "cpu",
    engine: Annotated[EngineName, typer.Option(help=ENGINE_HELP)] = "auto",
) -> None:
    """Turn each line of FILE or standard input into a vector, in order; that of an empty line is zero.

    A line of the output is the text, a tab and its numbers. With --of cross, lines are translated, and the text is the
    translation, or with --tokens each of its tokens.
    """
    _check(out, nearest, picture)
    from dikkat_runtime.tasks.embedder import WINDOW

    embedder = _open(run, of, precision, device, engine)
    print_engine(embedder.info)
    window = 1 if file is None and sys.stdin.isatty() else WINDOW
    reading = embedder.tokens if tokens else embedder.sentences
    lines = InputLines(file)
    stream = _noting_cuts(reading(lines, window=window))
    if out is None and nearest is None and picture is None:
        _print_all(stream, tokens, every=window == 1)
        return lines.finish()
    vectors = list(stream)
    lines.finish()
    if out is not None:
        from dikkat.tasks.embedding.vector_files import write_vectors

        write_vectors(out, vectors, tokens)
    if nearest is not None:
        _print_nearest(vectors, nearest)
    if picture is not None:
        source = file.name if file else msg("standard input")
        _draw(vectors, picture, f"{run.name}: {'tokens' if tokens else 'lines'} of {source}")
    print_written(out, picture)
    return None


def _open(run: Path, of: Of, precision: PrecisionName, device: Device, engine: EngineName) -> Embedder | CrossEmbedder:
    if of == "cross":
        from dikkat.tasks.translation.cross_embedder import open_cross_embedder

        return open_cross_embedder(run, precision, device, engine)
    from dikkat.tasks.embedding.embedder import Embedder

    return Embedder.load(run, precision, device, engine)


def _check(out: Path | None, nearest: int | None, picture: Path | None) -> None:
    """Before any work."""
    if nearest is not None and nearest < 1:
        raise UsageError("--nearest must be at least 1, not {nearest}").fill(nearest)
    if out is not None:
        from dikkat.tasks.embedding.vector_files import check_suffix

        check_suffix(out)
    if picture is not None:
        from dikkat.explain.pictures import check_format

        check_format(picture)


def _print_all(vectors: Iterable[Vector], tokens: bool, every: bool) -> None:
    from dikkat_runtime.tasks.embedder import tsv_line

    for vector in vectors:
        sys.stdout.write(tsv_line(vector, tokens) + "\n")
        if every:
            sys.stdout.flush()
    sys.stdout.flush()


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

    from dikkat.explain.scatter import plot_points
    from dikkat.explain.vector_space import principal_plane, unit_rows

    real = [vector for vector in vectors if vector.values.any()]
    _require_two(real, "--picture")
    points, share = principal_plane(unit_rows(np.stack([vector.values for vector in real])))
    caption = msg("directions of the vectors on the plane where they differ most: {share:.0%} of the variance").fill(
        share
    )
    shown = plot_points(points, [vector.text for vector in real], picture, title, caption)
    if shown < len(real):
        print(
            msg("{picture}: {count} points, room for {shown} labels").fill(picture, len(real), shown), file=sys.stderr
        )


def _require_two(vectors: list[Vector], option: str) -> None:
    if len(vectors) < 2:
        raise DataError("{option} needs at least two texts that are not empty, not {count}").fill(option, len(vectors))


def _noting_cuts(vectors: Iterator[Vector]) -> Iterator[Vector]:
    """Passes all on, and says at the end how many lines were too long for the model."""
    cut: dict[int, int] = {}
    for vector in vectors:
        if vector.left_out:
            cut[vector.line] = vector.left_out
        yield vector
    if cut:
        line, tokens = next(iter(cut.items()))
        lines = msg("1 line is") if len(cut) == 1 else msg("{count:,} lines are").fill(len(cut))
        print(
            msg("{lines} longer than the model reads and cut; the first, line {line}, by {tokens:,} tokens").fill(
                lines, line, tokens
            ),
            file=sys.stderr,
        )
