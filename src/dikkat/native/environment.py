"""Settings that the libraries beneath torch read once, when torch is loaded."""

from __future__ import annotations

import os

_SETTINGS = {
    # a thread that waits sleeps, instead of taking a core from whoever it waits for
    "OMP_WAIT_POLICY": "PASSIVE",
    # oneDNN keeps a compiled product for each shape, half a MiB each, and a thousand of them: more than a model.
    # One update needs some twenty shapes, the next batch has others.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64",
}


def set_environment() -> None:
    """Set them for this process and its children, where the user has not; call it before torch is imported."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
