"""Numbers on their way to a device."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dikkat.kernels.processor import to_device


def test_numbers_keep_their_type_and_shape_on_the_way() -> None:
    array = np.arange(6).reshape(2, 3)
    assert torch.equal(to_device(array, torch.device("cpu")), torch.arange(6).view(2, 3))
    elsewhere = to_device(array, torch.device("meta"))
    assert (elsewhere.dtype, elsewhere.shape, elsewhere.device.type) == (torch.int64, (2, 3), "meta")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_gets_the_numbers() -> None:
    array = np.arange(100_000)
    result = to_device(array, torch.device("cuda"))
    assert result.device.type == "cuda"
    assert np.array_equal(result.cpu().numpy(), array)
