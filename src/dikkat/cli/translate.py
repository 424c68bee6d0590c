"""`dikkat translate`: lines in, lines out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dikkat.config import Device
from dikkat.decoding.options import BeamOptions, Precision
from dikkat.errors import UsageError

if TYPE_CHECKING:
    from dikkat.decoding.options import DecodingOptions
    from dikkat.pipelines import Translation

BEAM = BeamOptions()


def translate(
    run: Annotated[Path, typer.Argument(help="Run directory.", show_default=False)],
    file: Annotated[Path | None, typer.Argument(help="Text, one sentence a line; standard input if absent.")] = None,
    beam: Annotated[int, typer.Option(help="Hypotheses followed side by side; 1 is greedy.")] = BEAM.beam_size,
    n_best: Annotated[int, typer.Option(help="Translations a line; above 1 each as number, score, text.")] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Number and score before each text.")] = False,
    length_penalty: Annotated[float, typer.Option(help="Larger favours longer output.")] = BEAM.length_penalty,
    sample: Annotated[bool, typer.Option("--sample", help="Draw at random instead of searching.")] = False,
    temperature: Annotated[float, typer.Option(help="Of sampling: below 1 sharper, above 1 flatter.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Of sampling: only so many most probable tokens; 0 is all.")] = 0,
    top_p: Annotated[float, typer.Option(help="Of sampling: only the most probable tokens of this share.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Of sampling.")] = 1,
    batch_size: Annotated[
        int | None, typer.Option(help="Sentences translated at once; if absent, as many as are fastest.")
    ] = None,
    precision: Annotated[Precision, typer.Option(help="int8 is faster and writes almost the same.")] = "float32",
    device: Annotated[Device, typer.Option(help="Where to compute; cuda is the first GPU.")] = "cpu",
) -> None:
    """Translate FILE or standard input, in order and in constant memory; an empty line stays empty."""
    from dikkat.decoding.options import SamplingOptions
    from dikkat.pipelines import Translator

    if sample and (beam != BEAM.beam_size or n_best != 1):
        raise UsageError("--sample draws one translation a line; leave out --beam and --n-best")
    options: DecodingOptions = BeamOptions(beam_size=beam, n_best=n_best, length_penalty=length_penalty, scores=scores)
    if sample:
        options = SamplingOptions(temperature=temperature, top_k=top_k, top_p=top_p, seed=seed, scores=scores)
    translator = Translator.load(run, precision, device)
    interactive = file is None and sys.stdin.isatty()
    window = 1 if interactive else 2048
    found = translator.stream(_lines(file), options, batch_size=batch_size, window=window)
    out = sys.stdout
    for number, translation in enumerate(found, start=1):
        for text in _written(translation, number, with_score=scores or n_best > 1):
            out.write(text + "\n")
        if interactive or number % window == 0:
            out.flush()
    out.flush()


def _written(translation: Translation, number: int, with_score: bool) -> Iterator[str]:
    for each in (translation, *translation.alternatives):
        yield f"{number}\t{each.score:.4f}\t{each.text}" if with_score else each.text


def _lines(file: Path | None) -> Iterator[str]:
    from dikkat.data.text_files import decode_lines, read_lines

    return read_lines(file) if file is not None else decode_lines(sys.stdin.buffer, "standard input")
