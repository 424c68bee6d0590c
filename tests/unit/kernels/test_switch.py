"""The one switch between native kernels and PyTorch."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from dikkat import kernels
from dikkat.kernels import library, switch
from dikkat.kernels.calls import runs_native
from dikkat_runtime.errors import UsageError

needs_kernels = pytest.mark.skipif(library.library() is None, reason=f"no native kernels: {library.why_absent()}")


@needs_kernels
def test_native_is_taken_where_it_is_there_and_torch_where_it_is_named() -> None:
    assert kernels.active() == "native"
    assert runs_native(torch.zeros(2))
    with kernels.use("torch"):
        assert kernels.active() == "torch"
        assert not runs_native(torch.zeros(2))
        with kernels.use("native"):
            assert runs_native(torch.zeros(2))
        assert kernels.active() == "torch"
    assert kernels.active() == "native"


def test_an_error_within_it_restores_the_choice() -> None:
    before = kernels.active()
    with pytest.raises(ZeroDivisionError), kernels.use("torch"):
        _ = 1 / 0
    assert kernels.active() == before


def test_it_holds_for_the_process_without_with() -> None:
    choice = kernels.use("torch")
    try:
        assert kernels.active() == "torch"
    finally:
        choice.__exit__(None, None, None)


def test_native_is_refused_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "why_absent", lambda: "no C compiler")
    # asked once a process
    monkeypatch.setattr(switch, "_why_absent", switch._why_absent.__wrapped__)
    assert kernels.active() == "torch"
    with pytest.raises(UsageError, match="kernels cannot be native: no C compiler"):
        kernels.use("native")
    with pytest.raises(ValueError, match="backend must be native or torch, not 'cuda'"):
        kernels.use("cuda")  # type: ignore[arg-type]


def test_the_package_loads_no_torch() -> None:
    """The environment is set before torch reads it."""
    code = "import sys, dikkat.kernels.environment; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
