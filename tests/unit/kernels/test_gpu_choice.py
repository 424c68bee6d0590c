"""What trains on a GPU whose kernels do not compile, or that has none."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any, cast

import pytest
import torch

from dikkat import kernels
from dikkat.kernels.gpu import choice, linear
from dikkat.tasks.common import train
from dikkat.tasks.common.train import conditions_of
from dikkat.training.loop import Trainer

PROBE = "dikkat.kernels.gpu.probe"
ON_GPU = torch.empty(8, dtype=torch.bfloat16, device="meta")
"""What stands for a tensor on a GPU."""
ERROR = 'at 2:12:\ndef _forward(\n    x: Any\n       ^\nNameError("Cannot access global variable Any")'


@pytest.fixture(autouse=True)
def probed(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[torch.device]]:
    """A GPU with Triton, and the devices on which kernels were started."""
    # also where the suite runs without the kernels of a processor
    monkeypatch.delenv("DIKKAT_NATIVE", raising=False)
    devices: list[torch.device] = []
    probe: Any = ModuleType(PROBE)
    probe.launch_all = lambda device, dtype: devices.append(device)
    monkeypatch.setitem(sys.modules, PROBE, probe)
    monkeypatch.setattr(choice, "DEVICE", "meta")
    monkeypatch.setattr(choice, "find_spec", lambda name: ModuleSpec(name, None))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H200")
    choice._failure.cache_clear()
    yield devices
    choice._failure.cache_clear()


def trainer() -> Trainer:
    """As much of one as is told of."""
    parameters = SimpleNamespace(master=SimpleNamespace(device=torch.device("cuda")))
    return cast(Trainer, SimpleNamespace(parameters=parameters, precision="bfloat16"))


def test_kernels_are_started_once_and_taken(probed: list[torch.device]) -> None:
    assert [choice.runs_triton(ON_GPU) for _ in range(3)] == [True] * 3
    assert probed == [torch.device("meta")]
    assert train._numbers(trainer()) == "bfloat16, NVIDIA H200, Triton kernels"
    assert conditions_of(trainer())["engine"] == "triton"


def test_pytorch_computes_where_a_kernel_does_not_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(device: torch.device, dtype: torch.dtype) -> None:
        raise RuntimeError(ERROR)

    monkeypatch.setattr(sys.modules[PROBE], "launch_all", fail)
    assert train.seconds_to_load_kernels(uses_gpu=True) >= 0.0
    # decided once, whatever becomes of the compiler later
    monkeypatch.setattr(sys.modules[PROBE], "launch_all", lambda device, dtype: None)
    assert not choice.runs_triton(ON_GPU)
    numbers = train._numbers(trainer())
    assert numbers.startswith("bfloat16, NVIDIA H200, torch kernels, not Triton's: RuntimeError: ")
    assert numbers.endswith('NameError("Cannot access global variable Any")')
    assert "\n" not in numbers
    assert conditions_of(trainer())["engine"] == "torch"


def test_pytorch_computes_on_an_old_gpu_and_without_triton(
    monkeypatch: pytest.MonkeyPatch, probed: list[torch.device]
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (7, 5))
    assert not choice.runs_triton(ON_GPU)
    assert choice.why_absent() == "the GPU has no products in bfloat16"
    choice._failure.cache_clear()
    monkeypatch.setattr(choice, "find_spec", lambda name: None)
    assert choice.why_absent() == "Triton is not installed"
    assert not probed


@pytest.mark.parametrize(("rows", "is_taken"), [(32_767, True), (32_768, False)])
def test_a_linear_layer_whose_output_32_bits_do_not_count_is_that_of_pytorch(rows: int, is_taken: bool) -> None:
    weight, bias = (torch.empty(shape, device="meta", requires_grad=True) for shape in ((65_536, 8), (65_536,)))
    x = torch.empty(rows, 8, device="meta")
    assert linear.takes(x, weight, bias) == is_taken


def test_pytorch_computes_where_it_is_asked_for(probed: list[torch.device]) -> None:
    with kernels.use("torch"):
        assert train._numbers(trainer()).endswith("torch kernels, not Triton's: PyTorch is asked for")
        assert not choice.runs_triton(ON_GPU)
    assert not probed
