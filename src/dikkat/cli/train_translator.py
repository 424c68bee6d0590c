"""`dikkat train translator`: from parallel text to a run directory."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from dikkat.cli.training import Config, Minutes, On, Out, Resume, Seed, Set, gather_settings, run_job
from dikkat.hints import piped


def translator(
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help="Two aligned files, one .tsv, .csv or .jsonl (each also .gz), gettext:fr or phrasebook:fr.",
            show_default=False,
        ),
    ] = None,
    out: Out = ...,  # type: ignore[assignment]
    valid: Annotated[
        list[str] | None,
        typer.Option(help="Data to validate on, in the same forms (twice for two files); else held out from DATA."),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="tiny, small, base or d2l; else chosen from the amount of data.")
    ] = None,
    config: Config = None,
    set_: Set = None,
    minutes: Minutes = None,
    seed: Seed = None,
    device: On = "cpu",
    source_column: Annotated[str | None, typer.Option(help="Column of the source: number from 1, or name.")] = None,
    target_column: Annotated[str | None, typer.Option(help="Column of the target: number from 1, or name.")] = None,
    resume: Resume = False,
    watch: Annotated[
        Path | None,
        typer.Option(help="HTML page that follows the run.", show_default=False),
    ] = None,
) -> int:
    """Train a translator from parallel text."""
    started = time.monotonic()
    settings = gather_settings(config, set_, minutes=minutes, seed=seed)

    from dikkat.pipelines.preparation import TrainRequest
    from dikkat.pipelines.translator_job import TranslatorJob
    from dikkat.pipelines.watching import train_watched

    columns = (source_column, target_column)
    request = TrainRequest(data or (), valid or (), columns, preset, settings, str(config or "settings"))
    ending = "best validation chrF {score:.2f}"
    runner = partial(train_watched, page=watch) if watch else None
    following, job = piped("translate", out), TranslatorJob(request)
    return run_job("translator", job, out, resume, started, ending, following, device, runner)
