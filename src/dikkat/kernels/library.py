"""The C kernels of dikkat-runtime, loaded next to PyTorch.

Where they cannot be had, or where `DIKKAT_NATIVE=0` is set, `library()` is None and PyTorch does the same work.
"""

import ctypes
import os
from functools import cache

# loaded first, so that the kernels share its OpenMP threads
import torch  # noqa: F401

import dikkat_runtime.notices as notices
from dikkat_runtime.errors import AbsentError, msg
from dikkat_runtime.native import library as kernels


@cache
def library() -> ctypes.CDLL | None:
    """Return the loaded kernels, or None where they cannot be had; the first call on a computer may compile them."""
    return None if why_absent() else _load()[0]


@cache
def why_absent() -> str:
    """Say in a few words why there are no native kernels; the text is empty where there are."""
    if os.environ.get("DIKKAT_NATIVE", "1") == "0":
        return "DIKKAT_NATIVE=0"
    return _load()[1]


@cache
def _load() -> tuple[ctypes.CDLL | None, str]:
    try:
        loaded, _ = kernels.library()
    except AbsentError as error:
        reason = error.reason
        notices.note(
            msg("PyTorch computes, more slowly than the native kernels would: {reason}; {advice}", reason, error.advice)
        )
        return None, reason
    # without the types of the arguments, which are the runtime's own structures
    return ctypes.CDLL(loaded._name, handle=loaded._handle), ""
