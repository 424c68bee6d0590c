"""`dikkat train lm`: from files of text to a run directory."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from dikkat.cli.training import (
    Config,
    Ending,
    Minutes,
    On,
    Out,
    Resume,
    Seed,
    Set,
    gather_settings,
    run_job,
)
from dikkat_runtime.hints import command
from dikkat_runtime.messages import msg


def lm(
    data: Annotated[
        list[str] | None,
        typer.Argument(help="Files of plain text (also packed), or folders of such files.", show_default=False),
    ] = None,
    out: Out = ...,  # type: ignore[assignment]
    preset: Annotated[
        str | None, typer.Option(help="tiny, small, base or nanogpt_cpu; else chosen from the amount of text.")
    ] = None,
    config: Config = None,
    set_: Set = None,
    minutes: Minutes = None,
    seed: Seed = None,
    device: On = "cpu",
    resume: Resume = False,
) -> int:
    """Train a language model from plain text; the last part of it is held out."""
    started = time.monotonic()
    settings = gather_settings(config, set_, minutes=minutes, seed=seed)

    from dikkat.tasks.language_model.train import LanguageModelJob

    job = LanguageModelJob(tuple(data or ()), preset, settings, str(config or "settings"), device)
    ending = Ending(msg("best validation loss {loss:.4f} nats a token"), command("generate", out), -1.0)
    return run_job("lm", job, out, resume, started, ending, device)
