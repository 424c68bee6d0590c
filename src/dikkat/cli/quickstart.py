"""`dikkat quickstart`: from nothing to a trained translator, its score and a picture of its attention."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from dikkat.cli.progress import TrainProgress
from dikkat.cli.signals import StopSignal


def quickstart(
    language: Annotated[str, typer.Option(help="Language to translate into: fr or tr.")] = "fr",
    out: Annotated[Path | None, typer.Option(help="Run directory; runs/quickstart-LANGUAGE if absent.")] = None,
) -> int:
    """Train on the bundled English-French or English-Turkish phrasebook: about two minutes on two cores.

    The same command goes on with a run that was stopped, and shows a finished one again.
    """
    started = time.monotonic()
    from dikkat.pipelines.quickstart import default_folder, quickstart_command, run_quickstart

    stop, path = StopSignal(), out or default_folder(language)
    with TrainProgress() as progress:
        found = run_quickstart(language, path, progress, stop)
    if found is None:
        print(f"stopped and saved; go on with: {quickstart_command(language, path)}", file=sys.stderr)
        return stop.exit_code
    for line in found.evaluation.lines():
        print(line)
    print(f"\nTen translations of sentences whose combination of words never occurred in training ({path}):\n")
    for line in found.evaluation.samples(10):
        print(line)
    print(f"\nAttention of “{found.sentence}”: {found.picture}")
    translate = shlex.join(["dikkat", "translate", str(path)])
    print(f"Total: {time.monotonic() - started:.0f} seconds. Now try: echo {shlex.quote(found.sentence)} | {translate}")
    return 0
