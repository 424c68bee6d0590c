"""The compiled kernels: chosen among those in the package for this processor, and loaded once."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_int, c_int64, c_void_p
from functools import cache
from pathlib import Path

from dikkat_runtime.errors import UsageError
from dikkat_runtime.native.cpu import levels
from dikkat_runtime.native.structures import Decoder, Encoder, Linear, Packing, Search

FOLDER = Path(__file__).parent / "lib"


@cache
def library() -> tuple[ctypes.CDLL, str]:
    """The loaded kernels and the name of their level. Raises `UsageError` where none of them runs here."""
    built = {path.stem.removeprefix("kernels-"): path for path in sorted(FOLDER.glob("kernels-*.so"))}
    # what was compiled on this computer comes before all levels of a wheel
    usable = [level for level in ("native", *levels()) if level in built]
    if not usable:
        there = ", ".join(built) or "none"
        raise UsageError(
            f"no native kernels for this processor in {FOLDER} (built: {there}); install from a checkout with"
            " `pip install ./runtime`, or use dikkat with PyTorch"
        )
    try:
        loaded = ctypes.CDLL(str(built[usable[0]]))
    except OSError as error:
        raise UsageError(f"{built[usable[0]]}: cannot be loaded ({error}); install dikkat-runtime again") from None
    _declare(loaded)
    return loaded, usable[0]


def _declare(loaded: ctypes.CDLL) -> None:
    """The types of the arguments, so that a wrong call is refused here instead of reading foreign memory."""
    decoder, search = POINTER(Decoder), POINTER(Search)
    arguments = {
        "pack_bytes": [POINTER(Packing), c_int],
        "encoder_run": [POINTER(Encoder), c_void_p],
        "decoder_scratch": [decoder],
        "decoder_read_source": [decoder, c_void_p, c_int64, POINTER(Linear)],
        "decoder_step": [decoder, c_void_p, c_void_p, c_void_p],
        "decoder_copy": [decoder, c_void_p, c_void_p, c_int64],
        "top_entries": [c_void_p, c_int64, c_int64, c_int64, c_void_p, c_void_p, c_int64],
        "normalizers": [c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_int64],
        "search_scratch": [search, decoder],
        "search_apart": [search, decoder, c_int64],
        "search_together": [search, decoder, c_int64],
    }
    for name, types in arguments.items():
        function = getattr(loaded, name)
        function.argtypes = types
        function.restype = None if name.startswith(("search_", "top_", "norm")) else c_int
    for name in ("decoder_scratch", "search_scratch"):
        getattr(loaded, name).restype = c_int64
