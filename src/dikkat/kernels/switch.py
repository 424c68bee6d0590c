"""The one switch of the process between the native kernels and their PyTorch twins."""

import os
from functools import cache
from types import TracebackType
from typing import Literal

from dikkat_runtime.errors import UsageError

Backend = Literal["native", "torch"]

_chosen: Backend | None = None
"""What `use` named last; None takes the native kernels where they can be had."""


class use:  # noqa: N801 - reads as a statement: kernels.use("torch")
    """Chooses the backend of every kernel of this process; as a context manager it restores the choice before.

    "native" takes the compiled kernels for the tensors that they know and PyTorch for the others; "torch" takes PyTorch
    for all. Without a choice the native kernels are taken where they can be had. Raises `ValueError` for another name
    and `UsageError` where "native" is named and the kernels are absent.
    """

    def __init__(self, backend: Backend) -> None:
        global _chosen
        if backend not in ("native", "torch"):
            raise ValueError(f"backend must be native or torch, not {backend!r}")
        if backend == "native" and (reason := _why_absent()):
            raise UsageError("kernels cannot be native: {reason}", reason)
        self._before, _chosen = _chosen, backend

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _chosen
        _chosen = self._before


def chosen() -> Backend | None:
    """Name the backend that `use` or `DIKKAT_NATIVE=0` demands; None where neither does."""
    return "torch" if _chosen is None and os.environ.get("DIKKAT_NATIVE") == "0" else _chosen


def active() -> Backend:
    """Name the backend that kernels take now; the first call may load or compile the native ones."""
    if _chosen is not None:
        return _chosen
    return "torch" if _why_absent() else "native"


@cache
def _why_absent() -> str:
    # torch is loaded with the library, which whoever only sets the environment must not do
    from dikkat.kernels.library import why_absent

    return why_absent()
