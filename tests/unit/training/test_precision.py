"""How the products of an update are computed: as configured, or as the processor does it fastest."""

from __future__ import annotations

import pytest
import torch

from dikkat.config import TrainingConfig
from dikkat.errors import UsageError
from dikkat.training import precision
from dikkat.training.precision import Precision, precision_of

HALF, FULL = torch.bfloat16, torch.float32


@pytest.mark.parametrize(
    ("configured", "bfloat16", "int8", "native", "wanted"),
    [
        ("auto", True, True, True, Precision(HALF, True)),
        ("auto", False, True, True, Precision(FULL, True)),
        ("auto", True, True, False, Precision(HALF)),
        ("auto", True, False, True, Precision(HALF)),
        ("auto", False, False, True, Precision(FULL)),
        ("int8", True, False, False, Precision(HALF, True)),
        ("int8", False, False, True, Precision(FULL, True)),
        ("bfloat16", False, True, True, Precision(HALF)),
        ("float32", True, True, True, Precision(FULL)),
    ],
)
def test_the_processor_decides_where_the_user_does_not(
    monkeypatch: pytest.MonkeyPatch, configured: str, bfloat16: bool, int8: bool, native: bool, wanted: Precision
) -> None:
    monkeypatch.setattr(precision, "has_fast_bfloat16", lambda: bfloat16)
    monkeypatch.setattr(precision, "has_fast_int8", lambda: int8)
    monkeypatch.setattr(precision, "library", lambda: object() if native else None)
    assert precision_of(TrainingConfig.model_validate({"precision": configured})) == wanted


@pytest.mark.parametrize(
    ("configured", "bfloat16", "wanted"),
    [
        ("auto", True, Precision(HALF)),
        ("auto", False, Precision(FULL)),
        ("bfloat16", False, Precision(HALF)),
        ("float32", True, Precision(FULL)),
    ],
)
def test_a_gpu_has_no_say_of_the_processor(
    monkeypatch: pytest.MonkeyPatch, configured: str, bfloat16: bool, wanted: Precision
) -> None:
    monkeypatch.setattr(precision, "has_fast_bfloat16", lambda: not bfloat16)
    monkeypatch.setattr(precision, "has_fast_int8", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: bfloat16 or including_emulation)
    assert precision_of(TrainingConfig.model_validate({"precision": configured}), torch.device("cuda")) == wanted


def test_eight_bits_are_for_processors() -> None:
    with pytest.raises(UsageError, match="int8 is for processors"):
        precision_of(TrainingConfig(precision="int8"), torch.device("cuda"))


def test_it_says_what_it_is() -> None:
    assert [str(Precision(HALF, True)), str(Precision(FULL))] == ["int8 and bfloat16", "float32"]
