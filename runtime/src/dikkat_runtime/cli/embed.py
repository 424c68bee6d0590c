"""`dikkat embed`: lines in, vectors out, and what lies near what."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from dikkat_runtime.cli.opening import ENGINE, EngineOptions, open_model, print_engine, toolkit_module
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.streams import InputLines, is_interactive, print_note
from dikkat_runtime.errors import UsageError, msg

if TYPE_CHECKING:
    from dikkat_runtime.tasks.embedder import Vector

Of = Literal["text", "cross"]
"""Whose vectors: those of what is read, or those of what a translator writes."""


def embed(
    run: Annotated[Path, Argument(help="Run directory of any kind of model.")],
    file: Annotated[Path | None, Argument(help="Text, one per line; standard input if absent.")] = None,
    out: Annotated[Path | None, Option(help="Write .npz, .tsv or .jsonl instead of TSV to the output.")] = None,
    tokens: Annotated[bool, Option("--tokens", help="A vector for each token instead of each line.")] = False,
    nearest: Annotated[
        int | None, Option(min=1, help="Print this many nearest neighbours of each line, by cosine.")
    ] = None,
    labels: Annotated[
        Path | None,
        Option(help="With --nearest: the label of each line, to show how often neighbours share it, next to BM25."),
    ] = None,
    picture: Annotated[Path | None, Option(help="Draw all lines on a plane, as .png or .svg.")] = None,
    of: Annotated[
        Of, Option(help="text: what is read; cross: what cross-attention gives each token that a translator writes.")
    ] = "text",
    prompt: Annotated[
        str | None, Option(help="Name of the prompt of an imported encoder that is put before each line, as query.")
    ] = None,
    choice: EngineOptions = ENGINE,
) -> None:
    """Turn each line of FILE or standard input into a vector, in order; that of an empty line is zero.

    A line of the output is the text, a tab and its numbers. With --of cross, lines are translated, and the text is the
    translation, or with --tokens each of its tokens.
    """
    wanted = {"--out": out, "--nearest": nearest, "--picture": picture}
    option = next((name for name, value in wanted.items() if value is not None), None)
    whole = None if option is None else toolkit_module("vectors", option)
    if whole is not None:
        whole.check(out, picture)
    if prompt is not None and of == "cross":
        raise UsageError("--prompt is put before a text that is read; leave out --of cross")
    if labels is not None and (nearest is None or tokens):
        raise UsageError("--labels is for the neighbours of lines; give --nearest N, without --tokens")
    from dikkat_runtime.tasks.embedder import WINDOW

    embedder = open_model("CrossEmbedder" if of == "cross" else "Embedder", run, choice)
    print_engine(embedder.info)
    window = 1 if is_interactive(file) else WINDOW
    reading = embedder.tokens if tokens else embedder.sentences
    lines, asked = InputLines(file), {} if prompt is None else {"prompt": prompt}
    stream = _noting_cuts(reading(lines, window=window, **asked))
    if whole is None:
        _print_all(stream, tokens, every=window == 1)
        return lines.finish()
    vectors = list(stream)
    lines.finish()
    title = f"{run.name}: {'tokens' if tokens else 'lines'} of {file.name if file else 'standard input'}"
    whole.show(vectors, tokens, title, out=out, nearest=nearest, picture=picture)
    if labels is not None:
        whole.compare(vectors, nearest, labels)
    return None


def _print_all(vectors: "Iterable[Vector]", tokens: bool, every: bool) -> None:
    from dikkat_runtime.tasks.embedder import tsv_line

    for vector in vectors:
        sys.stdout.write(tsv_line(vector, tokens) + "\n")
        if every:
            sys.stdout.flush()
    sys.stdout.flush()


def _noting_cuts(vectors: "Iterator[Vector]") -> "Iterator[Vector]":
    """Passes all on, and says at the end how many lines were too long for the model."""
    cut: dict[int, int] = {}
    for vector in vectors:
        if vector.left_out:
            cut[vector.line] = vector.left_out
        yield vector
    if cut:
        line, tokens = next(iter(cut.items()))
        lines = msg("1 line is") if len(cut) == 1 else msg("{count:,} lines are", len(cut))
        print_note(
            msg(
                "{lines} longer than the model reads and therefore cut; the first, line {line}, by {tokens:,} tokens"
            ).fill(lines, line, tokens)
        )
