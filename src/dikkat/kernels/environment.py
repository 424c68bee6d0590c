"""Settings that the libraries beneath torch read once, when torch is loaded."""

from __future__ import annotations

import os

_WAITING = {
    # a thread that waits sleeps, instead of taking a core from whoever it waits for
    "OMP_WAIT_POLICY": "PASSIVE",
    # but not at once: an update has hundreds of shared loops, most of them soon over, and waking a thread takes as long
    # as one of these. 5,000 looks took 0.12 ms on a Zen 4. Of GNU's library, where it goes before the policy.
    "GOMP_SPINCOUNT": "5000",
}
_SETTINGS = {
    # oneDNN keeps a compiled product for each shape, half a MiB each, and a thousand of them: more than a model.
    # One update needs some twenty shapes, the next batch has others; decoding needs some hundred, again and again.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "256",
}


def set_environment() -> None:
    """Set what the user has not set, for this process and its children; call it before torch is imported."""
    decided = any(name in os.environ for name in _WAITING)
    for name, value in {**_SETTINGS, **({} if decided else _WAITING)}.items():
        os.environ.setdefault(name, value)
