"""The kernel of whole encoders against the blocks of `Stack` over numpy, and against itself in other company."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dikkat.config import ClassifierConfig, ModelConfig
from dikkat.models.factory import build_classifier
from dikkat_runtime.engine.choose import COMPUTED
from dikkat_runtime.engine.native_texts import NativeClassifier, Pooling
from dikkat_runtime.engine.options import Precision
from dikkat_runtime.engine.settings import model_settings

SHAPES: dict[str, dict[str, Any]] = {
    "rotary": {"positions": "rotary"},
    "rotary, odd heads": {"positions": "rotary", "head_dim": 6},
    "sinusoidal, post-norm": {"norm_placement": "post"},
    "BERT": {"norm_placement": "post", "positions": "learned", "activation": "gelu", "embedding_norm": True,
             "scale_embeddings": False},
    "silu": {"activation": "silu", "positions": "sinusoidal_halves"},
}  # fmt: skip
OTHERS: dict[str, dict[str, Any]] = {
    "gated": {"activation": "swiglu"},
    "rms": {"norm": "rms"},
    "groups": {"num_kv_heads": 2},
    "window": {"attention_window": 2, "positions": "rotary"},
    "output norm": {"norm_placement": "output"},
}
LENGTHS = (1, 7, 3, 40, 1, 150, 12, 9)


def rows_of(seed: int) -> list[list[int]]:
    generator = np.random.default_rng(seed)
    return [generator.integers(4, 60, length).tolist() for length in LENGTHS]


def classifier(own: dict[str, Any], precision: Precision, threads: int, pooling: Pooling = "mean") -> NativeClassifier:
    """Return a classifier of random weights."""
    shape = {"vocab_size": 60, "model_dim": 40, "num_heads": 4, "feed_forward_dim": 72, "encoder_layers": 2}
    config = ModelConfig(**{**shape, "max_positions": 200, "dropout": 0.0, **own})
    model = build_classifier(config, ClassifierConfig(pooling=pooling), 3, seed=5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)))
    arrays = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    settings = model_settings({"model": config.model_dump()}, "here", COMPUTED["classifier"])
    return NativeClassifier(settings, arrays, "here", pooling=pooling, outputs=3, precision=precision, threads=threads)


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("name", SHAPES)
def test_states_are_those_of_the_blocks(name: str, precision: Precision) -> None:
    native, rows = classifier(SHAPES[name], precision, 2), rows_of(1)
    assert native.kernel is not None
    states, logits = native.hidden(rows), native.logits(rows)
    native.kernel = None
    expected = native.hidden(rows)
    assert states.lengths == expected.lengths == LENGTHS
    # rounding to eight bits may fall to either side
    most = 1e-5 if precision == "float32" else 0.15
    for index, length in enumerate(LENGTHS):
        np.testing.assert_allclose(states.states[index, :length], expected.states[index, :length], rtol=0, atol=most)
        assert not states.states[index, length:].any()
    np.testing.assert_allclose(logits, native.logits(rows), rtol=0, atol=most)


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("name", SHAPES)
def test_a_text_has_the_same_bits_in_any_company_and_by_any_number_of_threads(name: str, precision: Precision) -> None:
    rows = rows_of(2)
    native, other = (classifier(SHAPES[name], precision, threads) for threads in (1, 2))
    together, logits = native.hidden(rows).states, native.logits(rows)
    np.testing.assert_array_equal(other.hidden(rows).states, together)
    np.testing.assert_array_equal(other.logits(rows), logits)
    for index, row in enumerate(rows):
        np.testing.assert_array_equal(native.hidden([row]).states[0], together[index, : len(row)])
        np.testing.assert_array_equal(other.logits([row])[0], logits[index])
    np.testing.assert_array_equal(native.logits(rows[::-1])[::-1], logits)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_threads_that_share_the_products_of_one_text_change_no_bit(precision: Precision) -> None:
    own = {"model_dim": 256, "feed_forward_dim": 1000, "encoder_layers": 1, "positions": "rotary"}
    row = np.random.default_rng(6).integers(4, 60, 600).tolist()
    alone, *others = (classifier(own, precision, threads).hidden([row]).states for threads in (1, 2, 5))
    for states in others:
        np.testing.assert_array_equal(states, alone)
    assert np.isfinite(alone).all()


@pytest.mark.parametrize("pooling", ["mean", "first", "max", "attention"])
def test_other_ids_are_hidden_by_the_blocks(pooling: Pooling) -> None:
    native, rows = classifier(SHAPES["rotary"], "float32", 2, pooling), rows_of(3)
    shown = np.ones((len(rows), max(LENGTHS)), bool)
    np.testing.assert_allclose(native.logits(rows, shown), native.logits(rows), rtol=0, atol=1e-5)
    shown[3, 5:] = False
    hidden = native.logits(rows, shown)
    np.testing.assert_allclose(hidden[3], native.logits([rows[3][:5]])[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", OTHERS)
def test_blocks_are_put_together_where_the_kernel_does_not_compute_the_settings(name: str) -> None:
    assert classifier(OTHERS[name], "float32", 1).kernel is None


def test_blocks_are_put_together_in_four_bits() -> None:
    assert classifier(SHAPES["BERT"], "int4", 1).kernel is None
