"""Let an error of the user end the ranks of a machine for good, and be said by one of them.

torchrun starts ranks again whatever they ended with, and all of them read the same command line. They agree by two
files in the folder that torchrun makes for itself and tells its ranks of; it is on the disk of each machine.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path

from dikkat.training.distributed.environment import LAUNCHED
from dikkat_runtime.errors import StoppedError

_CODE = "dikkat-exit-code"
_SAID = "dikkat-said"
_SIGNALED = 128
"""What an exit code is above where a signal ended a process."""
_PASSING = frozenset({0, StoppedError.exit_code, *(_SIGNALED + number for number in signal.Signals)})
"""Exit codes after which ranks may go on when they are started again."""


def earlier_exit_code() -> int | None:
    """Return the exit code of a rank that ended for good before torchrun started this one, or None."""
    folder = _folder()
    if folder is None:
        return None
    try:
        return int((folder / _CODE).read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def note_exit_code(code: int) -> None:
    """Tell ranks that torchrun starts after this one that they have nothing to do, where `code` is for good."""
    folder = _folder()
    if folder is not None and code not in _PASSING:
        # where it cannot be told, they find out for themselves
        with suppress(OSError):
            (folder / _CODE).write_text(str(code), encoding="ascii")


def claim_report(code: int) -> bool:
    """Tell whether no other rank of this machine said why it ended for good.

    An end that is not for good is always said, unless another rank's was, for which torchrun ends this one by a signal;
    a signal itself is left to the command that started the ranks.
    """
    folder = _folder()
    if folder is None:
        return True
    if code in _PASSING:
        return not (code > _SIGNALED and LAUNCHED in os.environ) and earlier_exit_code() is None
    try:
        (folder / _SAID).touch(exist_ok=False)
    except FileExistsError:
        return False
    except OSError:
        return True
    return True


def mark_reported() -> None:
    """Tell the command that started the ranks that this one said how it ended."""
    folder = _folder()
    if folder is not None:
        # where it cannot be told, it is said twice
        with suppress(OSError):
            (folder / _SAID).touch()


def has_said(logs: Path) -> bool:
    """Tell whether a rank said how it ended, of those for which torchrun makes its folders in `logs`."""
    return any(logs.glob(f"*/{_SAID}"))


def _folder() -> Path | None:
    """Return torchrun's folder for all starts of the ranks of this machine; None for a process that is no rank."""
    name = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if name is None:
        return None
    # RUN/attempt_0/0/error.json
    path = Path(name)
    attempt = path.parent.parent
    return attempt.parent if attempt.name.startswith("attempt_") else None
