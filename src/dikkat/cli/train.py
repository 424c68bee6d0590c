"""`dikkat train`: from data to a run directory."""

from __future__ import annotations

import shlex
import sys
import time
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer

from dikkat.cli.progress import TrainProgress
from dikkat.cli.signals import StopSignal
from dikkat.config import TrainingConfig, merge, read_toml
from dikkat.errors import UsageError

train = typer.Typer(no_args_is_help=True, help="Train a model from your own text.")


@train.callback()
def tasks() -> None:
    """Train a model from your own text."""


@train.command()
def translator(
    data: Annotated[
        list[str] | None,
        typer.Argument(
            help="Two aligned files, one .tsv, .csv or .jsonl (each also .gz), gettext:fr or phrasebook:fr.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Run directory to make.", show_default=False)] = ...,  # type: ignore[assignment]
    valid: Annotated[
        list[str] | None,
        typer.Option(help="Data to validate on, in the same forms (twice for two files); else held out from DATA."),
    ] = None,
    preset: Annotated[
        str | None, typer.Option(help="tiny, small, base or d2l; else chosen from the amount of data.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file of settings.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="One setting, as model.dropout=0.2; may be given often.")
    ] = None,
    minutes: Annotated[float | None, typer.Option(help=TrainingConfig.model_fields["minutes"].description)] = None,
    seed: Annotated[int | None, typer.Option(help=TrainingConfig.model_fields["seed"].description)] = None,
    source_column: Annotated[str | None, typer.Option(help="Column of the source: number from 1, or name.")] = None,
    target_column: Annotated[str | None, typer.Option(help="Column of the target: number from 1, or name.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the unfinished run in --out.")] = False,
    watch: Annotated[Path | None, typer.Option(help="HTML file to write that follows the run as it learns.")] = None,
) -> int:
    """Train a translator from parallel text."""
    started = time.monotonic()
    given = {"minutes": minutes, "seed": seed}
    options = {"training": {name: value for name, value in given.items() if value is not None}}
    settings = merge(read_toml(config) if config else {}, parse_settings(set_ or []), options)
    if not data and not resume:
        raise UsageError("name the data to train on, or add --resume to go on with the run in --out")

    from dikkat.pipelines.preparation import TrainRequest
    from dikkat.pipelines.training import train_translator

    request = TrainRequest(
        data or (), valid or (), (source_column, target_column), preset, settings, str(config or "settings")
    )
    stop = StopSignal()
    with TrainProgress() as progress:
        outcome = train_translator(
            request,
            out,
            progress,
            resume=resume,
            should_stop=stop,
            started=started,
            command=shlex.join(["dikkat", *sys.argv[1:]]),
            watch=watch,
        )
    if not outcome.finished:
        go_on = shlex.join(["dikkat", "train", "translator", "--out", str(out), "--resume"])
        print(f"stopped and saved; go on with: {go_on}", file=sys.stderr)
        return stop.exit_code
    print(f"{out}: best validation chrF {outcome.best_chrf:.2f}; try: echo … | dikkat translate {out}", file=sys.stderr)
    return 0


def parse_settings(assignments: list[str]) -> dict[str, dict[str, Any]]:
    """`section.key=value` with the value in TOML (a bare word is text). Raises `UsageError` for another form."""
    settings: dict[str, dict[str, Any]] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        section, dot, key = name.partition(".")
        if not (equals and dot and key):
            raise UsageError(f'--set needs section.key=value, as in model.dropout=0.2, not "{assignment}"')
        try:
            parsed = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            parsed = value
        settings.setdefault(section, {})[key] = parsed
    return settings
