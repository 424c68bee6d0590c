"""`dikkat interpolate`: average an adapted translator with the one that it began with."""

import sys
from pathlib import Path
from typing import Annotated

from dikkat.cli.progress import Announced
from dikkat.cli.training import Out
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.streams import print_note
from dikkat_runtime.errors import msg
from dikkat_runtime.hints import NAME, command, piped


def interpolate(
    run: Annotated[Path, Argument(help="Translator that was trained with --from.")],
    out: Out = ...,  # type: ignore[assignment]
    share: Annotated[
        float, Option(min=0.0, max=1.0, help="Of the weights after the adaptation: 0 is the base, 1 is RUN.")
    ] = 0.5,
) -> None:
    """Average the weights of an adapted translator with those that it started from.

    A lower share keeps less of what it learned of its domain, and restores more of what it forgot.
    """
    from dikkat.run_directory import RunDirectory
    from dikkat.run_directory.checkpoints import require_free

    RunDirectory.open(run)
    require_free(out)
    with Announced(msg("{run}: averaging its weights with those that it started from, and writing {out}", run, out)):
        from dikkat.tasks.translation.adapted_weights import write_interpolated

        write_interpolated(run, share, out, command(*sys.argv[1:], program=NAME))
    print_note("{out}: {share:g} of what {run} learned; try: {command}", out, share, run, piped("translate", out))
