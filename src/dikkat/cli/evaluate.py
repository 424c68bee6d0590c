"""`dikkat evaluate`: scores with their signatures, beside baselines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dikkat.decoding.options import BeamOptions

BEAM = BeamOptions()


def evaluate(
    run: Annotated[Path, typer.Argument(help="Run directory.", show_default=False)],
    data: Annotated[
        list[str] | None,
        typer.Argument(help="Parallel text, as for train; the run's own held-out test part if absent."),
    ] = None,
    beam: Annotated[int, typer.Option(help="Hypotheses followed side by side; 1 is greedy.")] = BEAM.beam_size,
    length_penalty: Annotated[float, typer.Option(help="Larger favours longer output.")] = BEAM.length_penalty,
    samples: Annotated[int, typer.Option(help="Translations to show.")] = 0,
    source_column: Annotated[str | None, typer.Option(help="Column of the source: number from 1, or name.")] = None,
    target_column: Annotated[str | None, typer.Option(help="Column of the target: number from 1, or name.")] = None,
) -> None:
    """Translate the sources of DATA and score the result with sacreBLEU and chrF (cased, detokenised)."""
    from dikkat.pipelines.evaluation import evaluate_translator

    options = BeamOptions(beam_size=beam, length_penalty=length_penalty)
    found = evaluate_translator(run, data or (), options, (source_column, target_column))
    for line in found.lines():
        print(line)
    for line in found.samples(samples):
        print(line)
