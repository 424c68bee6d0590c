"""How the threads of GNU's OpenMP wait for each other: settings that it reads once, when it is loaded."""

from __future__ import annotations

import os

_WAITING = {
    # a thread that waits sleeps, instead of taking a core from whoever it waits for
    "OMP_WAIT_POLICY": "PASSIVE",
    # but not at once: work has hundreds of shared loops, most of them soon over, and waking a thread takes as long
    # as one of these. 5,000 looks took 0.12 ms on a Zen 4. Of GNU's library, where it goes before the policy.
    "GOMP_SPINCOUNT": "5000",
}


def set_waiting() -> None:
    """Let threads wait for a moment, then sleep, unless the user has decided; call it before the kernels are loaded."""
    if not any(name in os.environ for name in _WAITING):
        os.environ.update(_WAITING)
