"""The entry of `dikkat-runtime`: signals are taken care of before anything that takes long to load."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from dikkat_runtime.cli.signals import NUMBERS, Terminate, code_of
from dikkat_runtime.library_warnings import hide_library_warnings


def main() -> None:
    """Run the command line and leave with its exit code; a signal ends it with one line."""
    terminate = Terminate()
    try:
        for number in NUMBERS:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, terminate)
        hide_library_warnings()
        code = run(sys.argv[1:])
    except KeyboardInterrupt as interrupt:
        from dikkat_runtime.text.visible import say

        say("interrupted")
        code = code_of(interrupt)
    # nothing is left that they could spoil, and Python would tell of its own end
    for number in NUMBERS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command; every failure that a user can cause is one line on standard error."""
    from dikkat_runtime.cli.command_line import run_command

    return run_command(arguments)
