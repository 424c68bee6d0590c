"""Where a model computes: found by name, refused where it is not, and reached without waiting."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dikkat.errors import UsageError
from dikkat.native.device import device_name, find_device, moved
from dikkat.native.processor import processor_name


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


def test_numbers_keep_their_type_and_shape_on_the_way() -> None:
    array = np.arange(6).reshape(2, 3)
    assert torch.equal(moved(array, torch.device("cpu")), torch.arange(6).view(2, 3))
    elsewhere = moved(array, torch.device("meta"))
    assert (elsewhere.dtype, elsewhere.shape, elsewhere.device.type) == (torch.int64, (2, 3), "meta")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_gets_the_numbers() -> None:
    array = np.arange(100_000)
    found = moved(array, torch.device("cuda"))
    assert found.device.type == "cuda"
    assert np.array_equal(found.cpu().numpy(), array)
