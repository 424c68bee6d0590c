"""Settings that the libraries beneath torch read once, when torch is loaded."""

import os

from dikkat_runtime.native.waiting import set_waiting

_SETTINGS = {
    # oneDNN keeps a compiled product for each shape, half a MiB each, and a thousand of them: more than a model.
    # One update needs some twenty shapes, the next batch has others; decoding needs some hundred, again and again.
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "256",
    # a rank that dies makes the others log what they say themselves
    "TORCH_CPP_LOG_LEVEL": "ERROR",
}


def set_environment() -> None:
    """Set what the user has not set, for this process and its children; call it before torch is imported."""
    set_waiting()
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
