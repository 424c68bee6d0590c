"""How the products of an update are computed: as configured, or as the processor does it fastest."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from dikkat import kernels
from dikkat.config import TrainingConfig
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.training import precision
from dikkat.training.precision import Precision, precision_of
from dikkat_runtime.errors import UsageError

HALF, FULL = torch.bfloat16, torch.float32


@pytest.mark.parametrize(
    ("configured", "bfloat16", "int8", "native", "wanted"),
    [
        ("auto", True, True, True, Precision(HALF, "int8", HALF)),
        ("auto", False, True, True, Precision(HALF, "int8", FULL)),
        ("auto", True, True, False, Precision(HALF, "exact", HALF)),
        ("auto", True, False, True, Precision(HALF, "exact", HALF)),
        ("auto", False, False, True, Precision(FULL)),
        ("int8", True, False, False, Precision(HALF, "int8", HALF)),
        ("int8", False, False, True, Precision(HALF, "int8", FULL)),
        ("int8", False, False, False, Precision(FULL, "int8")),
        ("bfloat16", False, True, True, Precision(HALF, "exact", HALF)),
        ("float32", True, True, True, Precision(FULL)),
    ],
)
def test_the_processor_decides_where_the_user_does_not(
    monkeypatch: pytest.MonkeyPatch, configured: str, bfloat16: bool, int8: bool, native: bool, wanted: Precision
) -> None:
    monkeypatch.setattr(precision, "has_fast_bfloat16", lambda: bfloat16)
    monkeypatch.setattr(precision, "has_fast_int8", lambda: int8)
    monkeypatch.setattr(kernels, "active", lambda: "native" if native else "torch")
    config = TrainingConfig.model_validate({"precision": configured})
    assert precision_of(config, nn.Sequential(MultiHeadAttention(8, 2), nn.Linear(8, 8_192))) == wanted


@pytest.mark.parametrize(("outputs", "native", "wanted"), [(256, False, FULL), (257, False, HALF), (256, True, HALF)])
def test_small_models_gain_nothing_from_half_precision_without_native_code(
    monkeypatch: pytest.MonkeyPatch, outputs: int, native: bool, wanted: torch.dtype
) -> None:
    monkeypatch.setattr(precision, "has_fast_bfloat16", lambda: True)
    monkeypatch.setattr(precision, "has_fast_int8", lambda: False)
    monkeypatch.setattr(kernels, "active", lambda: "native" if native else "torch")
    assert precision_of(TrainingConfig(), nn.Linear(64, outputs)) == Precision(wanted, "exact", wanted)


@pytest.mark.parametrize("options", [{"score": "additive"}, {"selection": "argmax"}])
@pytest.mark.parametrize("bfloat16", [True, False])
def test_what_pytorch_multiplies_is_in_what_it_multiplies_fast(
    monkeypatch: pytest.MonkeyPatch, bfloat16: bool, options: dict[str, Any]
) -> None:
    """Activations with each other, where attention is not the plain one."""
    monkeypatch.setattr(precision, "has_fast_bfloat16", lambda: bfloat16)
    monkeypatch.setattr(kernels, "active", lambda: "native")
    model = nn.ModuleList([MultiHeadAttention(8, 2), MultiHeadAttention(8, 2, **options)])
    fast = HALF if bfloat16 else FULL
    assert precision_of(TrainingConfig(precision="int8"), model) == Precision(fast, "int8", fast)


@pytest.mark.parametrize(
    ("configured", "bfloat16", "wanted"),
    [
        ("auto", True, Precision(HALF, "exact", HALF)),
        ("auto", False, Precision(FULL)),
        ("bfloat16", False, Precision(HALF, "exact", HALF)),
        ("float32", True, Precision(FULL)),
    ],
)
def test_a_gpu_has_no_say_of_the_processor(
    monkeypatch: pytest.MonkeyPatch, configured: str, bfloat16: bool, wanted: Precision
) -> None:
    monkeypatch.setattr(precision, "has_fast_bfloat16", lambda: not bfloat16)
    monkeypatch.setattr(precision, "has_fast_int8", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: bfloat16 or including_emulation)
    config = TrainingConfig.model_validate({"precision": configured})
    assert precision_of(config, nn.Linear(2, 2), torch.device("cuda")) == wanted


def test_eight_bits_are_for_processors() -> None:
    with pytest.raises(UsageError, match="int8 is for processors"):
        precision_of(TrainingConfig(precision="int8"), nn.Linear(2, 2), torch.device("cuda"))


def test_it_says_what_it_is() -> None:
    assert [str(Precision(HALF, "int8")), str(Precision(FULL))] == ["int8 and bfloat16", "float32"]
