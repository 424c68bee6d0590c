"""The Keras models on exported weights: the logits of PyTorch's, on the backend that KERAS_BACKEND names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.models.small import shake
from torch import nn

from dikkat.config import ModelConfig, build_config, preset
from dikkat.models.factory import build_classifier, build_model
from dikkat_runtime.errors import DataError, UsageError

os.environ.setdefault("KERAS_BACKEND", "torch")
keras = pytest.importorskip("keras", reason="the extra dikkat[keras] is not installed")

from dikkat.interop.keras.models import Classifier, Translator  # noqa: E402

VOCABULARY = 40
MODELS: dict[str, dict[str, Any]] = {
    "d2l": preset("d2l")["model"],
    "two vocabularies": {**preset("d2l")["model"], "target_vocab_size": 19},
    "two vocabularies, tied": {"target_vocab_size": 19, "tie_embeddings": True},
    "three and three layers": {"model_dim": 64, "feed_forward_dim": 128},
    "learned positions": {"model_dim": 32, "positions": "learned", "max_positions": 12, "activation": "gelu"},
    "free head width": {"model_dim": 32, "head_dim": 6, "embedding_norm": True, "score": "dot"},
}


def weights_of(model: nn.Module) -> dict[str, Any]:
    return {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}


def logits_of(model: Any, inputs: Any) -> Any:
    return keras.ops.convert_to_numpy(model(inputs))


@pytest.mark.parametrize("settings", MODELS.values(), ids=MODELS)
def test_a_translator_has_the_logits_of_ours(settings: dict[str, Any]) -> None:
    config = ModelConfig(**{**settings, "vocab_size": VOCABULARY})
    ours = build_model(config, seed=1).eval()
    shake(ours)
    words = config.target_vocab_size or VOCABULARY
    source, target = torch.randint(3, VOCABULARY, (3, 9)), torch.randint(3, words, (3, 7))
    source[1, 5:] = 0
    theirs = Translator(config)
    theirs.fill(weights_of(ours))
    with torch.inference_mode():
        expected = ours(source, target, source != 0).numpy()
    found = logits_of(theirs, (source.numpy().astype("int32"), target.numpy().astype("int32")))
    assert float(np.abs(found - expected).max()) <= 1e-5


@pytest.mark.parametrize("pooling", ["max", "mean", "first"])
def test_a_classifier_has_the_logits_of_ours(pooling: str) -> None:
    seed = preset("imdb_seed")
    changed = {
        "model": {**seed["model"], "vocab_size": VOCABULARY},
        "classifier": {**seed["classifier"], "pooling": pooling},
    }
    config = build_config({**seed, **changed})
    ours = build_classifier(config.model, config.classifier, 2, seed=1).eval()
    shake(ours)
    tokens = torch.randint(3, VOCABULARY, (3, 9))
    tokens[1, 5:] = 0
    theirs = Classifier(config.model, config.classifier, 2)
    theirs.fill(weights_of(ours))
    with torch.inference_mode():
        expected = ours(tokens, tokens != 0).numpy()
    assert float(np.abs(logits_of(theirs, tokens.numpy().astype("int32")) - expected).max()) <= 1e-5


def test_the_d2l_preset_learns_in_keras() -> None:
    model = Translator(ModelConfig(**{**preset("d2l")["model"], "vocab_size": VOCABULARY}))
    rows = np.random.default_rng(0).integers(4, VOCABULARY, (16, 5)).astype("int32")
    target = np.concatenate((np.ones((16, 1), "int32"), rows[:, :-1]), axis=1)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0)
    model.compile(keras.optimizers.Adam(5e-3, clipnorm=1.0), loss)
    losses = model.fit((rows, target), rows, batch_size=16, epochs=12, verbose=0).history["loss"]
    assert losses[-1] < losses[0] - 0.5


def test_what_it_does_not_compute_and_what_is_missing_is_named() -> None:
    with pytest.raises(UsageError, match=r"model\.positions = rotary is not something that the Keras layers compute"):
        Translator(ModelConfig(vocab_size=VOCABULARY, positions="rotary"))
    config = ModelConfig(**{**preset("d2l")["model"], "vocab_size": VOCABULARY})
    weights, model = weights_of(build_model(config, seed=1)), Translator(config)
    with pytest.raises(DataError, match=re.escape("the weight more has no place in this model")):
        model.fill({**weights, "more": np.zeros(1, "float32")})
    missing = "decoder.blocks.1.feed_forward.outer.bias"
    with pytest.raises(DataError, match=re.escape(f"the weight {missing} is missing")):
        model.fill({name: value for name, value in weights.items() if name != missing})


@pytest.mark.nightly
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_the_other_backends_agree(backend: str) -> None:
    pytest.importorskip(backend, reason=f"needs {backend}: pip install {backend}")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__, "-k", "not backends"]
    done = subprocess.run(command, env={**os.environ, "KERAS_BACKEND": backend}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
