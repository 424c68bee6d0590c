"""`dikkat quickstart`: from nothing to a trained translator, its score and a picture of its attention."""

import time
from pathlib import Path
from typing import Annotated

from dikkat.cli.progress import TrainProgress
from dikkat_runtime.cli.options import Option
from dikkat_runtime.cli.signals import StopSignal
from dikkat_runtime.cli.streams import print_note, print_report
from dikkat_runtime.errors import msg
from dikkat_runtime.hints import piped
from dikkat_runtime.localization import language, localized, translated


def quickstart(
    pair: Annotated[str, Option(help="From which language into which: en-fr, en-tr or tr-en.")] = "en-fr",
    out: Annotated[Path | None, Option(help="Run directory; runs/quickstart-fr, -tr or -tr-en if absent.")] = None,
) -> int:
    """Train on the bundled phrasebook of English, French and Turkish: two to three minutes on two cores.

    The same command continues a run that was stopped, and shows a finished one again.
    """
    started = time.monotonic()
    from dikkat.tasks.translation.quickstart import default_folder, quickstart_command, run_quickstart

    stop, path = StopSignal(), out or default_folder(pair)
    with TrainProgress() as progress:
        result = run_quickstart(pair, path, progress, stop)
    if result is None:
        print_note("stopped and saved; continue with: {command}", quickstart_command(pair, path))
        return stop.exit_code
    print_report(result.evaluation.lines(language()))
    heading = msg("Ten translations of sentences whose combination of words never occurred in training ({path}):", path)
    print(f"\n{localized(heading)}\n")
    print_report(result.evaluation.samples(10))
    print(translated("\nAttention of “{sentence}”: {picture}", result.sentence, result.picture))
    following = piped("translate", path, text=result.sentence)
    print(translated("Total: {seconds:.0f} seconds. Now try: {commands}", time.monotonic() - started, following))
    return 0
