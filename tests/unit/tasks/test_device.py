"""Where a model computes: found by name, refused where it is not."""

from __future__ import annotations

import pytest
import torch

from dikkat.kernels.processor import processor_name
from dikkat.tasks.common.device import device_name, find_device
from dikkat_runtime.errors import UsageError


def test_the_processor_is_always_there() -> None:
    assert find_device("cpu") == torch.device("cpu")
    assert device_name(torch.device("cpu")) == processor_name()


@pytest.mark.parametrize(("built", "reason"), [("13.0", "sees no GPU"), (None, "was built without CUDA")])
def test_a_gpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch, built: str | None, reason: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", built)
    with pytest.raises(UsageError, match=f"{reason}; use cpu"):
        find_device("cuda")


def test_a_gpu_that_is_there_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert find_device("cuda") == torch.device("cuda")
