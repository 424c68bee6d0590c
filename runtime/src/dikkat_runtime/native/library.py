"""Choose the compiled kernels in the package for this processor, else compile them, and load them once."""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, c_int, c_int64, c_void_p
from functools import cache
from pathlib import Path

from dikkat_runtime.errors import AbsentError, UsageError, msg
from dikkat_runtime.native.cpu import levels
from dikkat_runtime.native.library_cache import LEVELS, source_digest
from dikkat_runtime.native.structures import Attention, Decoder, Encoder, Linear, Norm, Packing, Search, Words

FOLDER = Path(__file__).parent / "lib"


@cache
def library() -> tuple[ctypes.CDLL, str]:
    """Return the loaded kernels and the name of their level. Raises `AbsentError` where none of them runs here.

    A library of the package is taken only if it was compiled from the present sources; without one it is compiled.
    `DIKKAT_NATIVE_LEVEL` names the level; without it the best one is taken. Raises `UsageError` where that level
    cannot be had.
    """
    # kernels compiled on this computer come before all levels of a wheel
    usable = ["native", *levels()]
    wanted = os.environ.get("DIKKAT_NATIVE_LEVEL", "")
    if wanted and wanted not in usable:
        raise UsageError("DIKKAT_NATIVE_LEVEL={level}: this processor can run {levels}", wanted, ", ".join(usable))
    there = [level for level in ([wanted] if wanted else usable) if library_path(FOLDER, level).exists()]
    level = there[0] if there else wanted or "native"
    loaded = _loaded(library_path(FOLDER, level)) if there else _compiled(wanted)
    _declare(loaded)
    return loaded, level


def library_path(folder: Path, level: str) -> Path:
    """Return the path of the kernels of a level, compiled from these sources, and if it matters for this processor."""
    return folder / f"kernels-{level}-{source_digest(level)}.so"


def _loaded(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise AbsentError(
            msg("{path} cannot be loaded ({error})", path, error), msg("reinstall dikkat-runtime")
        ) from None


def _compiled(wanted: str) -> ctypes.CDLL:
    # the compiling module is slow to import and needed once
    from dikkat_runtime.native.first_use import find_or_compile

    try:
        return find_or_compile(wanted or "native")
    except AbsentError as error:
        if wanted not in ("", "native"):
            raise UsageError(
                "DIKKAT_NATIVE_LEVEL={level}: {reason}; {advice}", wanted, error.reason, error.advice
            ) from None
        if wanted or not any(FOLDER.glob("kernels-*")):
            raise
        reason = msg("this processor cannot run those of the package ({built}), and {reason}")
        raise AbsentError(reason.fill(_built(), error.reason), error.advice) from None


def _built() -> str:
    there = [level for level in LEVELS if library_path(FOLDER, level).exists()]
    return ", ".join(there) or msg("none of these sources")


def _declare(loaded: ctypes.CDLL) -> None:
    """Compare sizes of structures, and set types of arguments, so that no wrong call reads foreign memory.

    Raises `AbsentError` for a library that has other structures.
    """
    for structure in (Packing, Linear, Norm, Attention, Encoder, Decoder, Search, Words):
        try:
            size = c_int64.in_dll(loaded, f"size_of_{structure.__name__}").value
        except ValueError:
            size = 0
        if size != ctypes.sizeof(structure):
            reason = msg("{library} has another {structure} ({size} bytes, not {expected})")
            reason = reason.fill(loaded._name, structure.__name__, size, ctypes.sizeof(structure))
            raise AbsentError(reason, msg("reinstall dikkat-runtime"))
    decoder, search = POINTER(Decoder), POINTER(Search)
    arguments = {
        "pack_bytes": [POINTER(Packing), c_int],
        "linear_layer": [POINTER(Linear), c_void_p, c_void_p, c_int64, c_int64],
        "attention_forward": [POINTER(Attention), c_void_p],
        "encoder_run": [POINTER(Encoder), c_void_p],
        "decoder_scratch": [decoder],
        "decoder_read_source": [decoder, c_void_p, c_int64, POINTER(Linear)],
        "decoder_step": [decoder, c_void_p, c_void_p, c_void_p],
        "decoder_copy": [decoder, c_void_p, c_void_p, c_int64],
        "top_entries": [c_void_p, c_int64, c_int64, c_int64, c_void_p, c_void_p, c_int64],
        "normalizers": [c_void_p, c_int64, c_int64, c_void_p, c_void_p, c_int64],
        "search_scratch": [search, decoder],
        "search_per_thread": [search, decoder, c_int64],
        "search_in_step": [search, decoder, c_int64],
    }
    for name, types in arguments.items():
        function = getattr(loaded, name)
        function.argtypes = types
        function.restype = None if name.startswith(("search_", "top_", "norm")) else c_int
    for name in ("decoder_scratch", "search_scratch"):
        getattr(loaded, name).restype = c_int64
