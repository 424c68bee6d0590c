"""A text of a length that was never seen, read in inference mode, leaves nothing behind that training cannot use.

Validation of a classifier once met a text longer than the table of its rotary positions. The table grew in inference
mode, the next update wanted to save it for its backward pass, and so did that of every resume.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch
from tests.unit.models.small import VOCABULARY, config
from torch import Tensor, nn

from dikkat.config import ClassifierConfig
from dikkat.models.classifier import EncoderClassifier
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_classifier, build_language_model, build_model
from dikkat.models.language_model import LanguageModel
from dikkat.nn.positions import SinusoidalPositions
from dikkat.nn.rotary import RotaryPositions
from dikkat.torch_engine.strategies import greedy
from dikkat_runtime.engine.options import DecodingOptions

FEW = [8, 300]
"""Less and more than the tables begin with."""
ALL = [8, 17, 33, 65, 129, 257, 513]
"""Beyond every length at which another path begins: few rows at 16, steps of 32 and 64, explicit attention up to 128,
tables of 256, windows in blocks and whole matrices of weights up to 512."""
POSITIONS: dict[str, dict[str, Any]] = {
    **{
        name: {"positions": name, "max_positions": 1024}
        for name in (
            "sinusoidal",
            "sinusoidal_concatenated",
            "learned",
            "rotary",
            "alibi",
            "relative",
            "relative_buckets",
        )
    },
    "rotary in a window": {"positions": "rotary", "attention_window": 8},
    "sinusoidal in a window": {"attention_window": 8, "global_tokens": 1},
}
KINDS = ("translator", "classifier", "language model")


def build(kind: str, positions: str) -> nn.Module:
    settings = config(**POSITIONS[positions], encoder_layers=1, decoder_layers=1, model_dim=8, feed_forward_dim=8)
    if kind == "translator":
        return build_model(settings, seed=1)
    if kind == "classifier":
        return build_classifier(settings, ClassifierConfig(word_dropout=0.2), 2, seed=1)
    return build_language_model(settings, "causal", seed=1)


def text(length: int) -> Tensor:
    return 4 + (torch.arange(length) % (VOCABULARY - 4))[None]


def logits(model: nn.Module, tokens: Tensor) -> Tensor:
    mask = torch.ones_like(tokens, dtype=torch.bool)
    if isinstance(model, EncoderDecoder):
        return model(tokens, tokens, mask)
    return model(tokens, mask) if isinstance(model, EncoderClassifier) else model(tokens)


def validate(model: nn.Module, tokens: Tensor) -> None:
    """All that a validation does: the model's answer, and what it writes itself, token by token."""
    model.eval()
    with torch.inference_mode():
        logits(model, tokens)
        if isinstance(model, EncoderDecoder):
            few = DecodingOptions(max_length_factor=0.0, max_length_offset=3, scores=False)
            greedy(model, tokens, torch.ones_like(tokens, dtype=torch.bool), few)
        elif isinstance(model, LanguageModel):
            cache_ = model.start_cache()
            model.read(tokens, cache_)
            model.step(tokens[:, 0], cache_)


def gradients(model: nn.Module, tokens: Tensor) -> list[Tensor]:
    model.train()
    model.zero_grad()
    torch.manual_seed(5)
    logits(model, tokens).square().sum().backward()
    return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]


@pytest.mark.parametrize("lengths", [FEW, pytest.param(ALL, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("positions", POSITIONS)
def test_training_goes_on_after_a_validation_of_any_length(kind: str, positions: str, lengths: list[int]) -> None:
    @cache
    def expected(length: int) -> list[Tensor]:
        return gradients(build(kind, positions), text(length))

    for trained, validated in product(lengths, lengths):
        model = build(kind, positions)
        validate(model, text(validated))
        result = gradients(model, text(trained))
        assert result
        for item, wanted in zip(result, expected(trained), strict=True):
            torch.testing.assert_close(item, wanted)
        assert not any(tensor.is_inference() for tensor in model.state_dict().values())
        assert not any(buffer.is_inference() for buffer in model.buffers())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("build_positions", "axis"), [(lambda: RotaryPositions(8), 1), (lambda: SinusoidalPositions(8), 0)]
)
def test_a_table_that_grows_in_inference_mode_is_one_to_train_with(
    build_positions: Callable[[], Any], axis: int, dtype: torch.dtype
) -> None:
    positions = build_positions().to(dtype)
    x = torch.zeros(1, 300, 8) if axis == 0 else torch.zeros(1, 1, 300, 8)
    with torch.inference_mode():
        positions(x.to(dtype))
    assert positions.table.shape[axis] == 600
    assert positions.table.dtype == dtype
    assert not positions.table.is_inference()
