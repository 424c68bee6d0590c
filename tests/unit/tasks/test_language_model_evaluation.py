"""Perplexity with a sliding window, against one forward pass for every token."""

from __future__ import annotations

import pytest
import torch

from dikkat.config import LanguageModelConfig, ModelConfig, RunConfig, TokenizerConfig
from dikkat.models.factory import build_language_model
from dikkat.tasks.in_memory import language_model_of
from dikkat.tasks.language_model.evaluate import likelihood
from dikkat_runtime.tasks.generator import Generator as LanguageModel
from dikkat_runtime.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    sizes = {"model_dim": 16, "num_heads": 2, "feed_forward_dim": 32, "decoder_layers": 2, "positions": "rotary"}
    config = RunConfig(
        model=ModelConfig.model_validate({**sizes, "vocab_size": 260}), language_model=LanguageModelConfig(context=8)
    )
    tokenizer = Tokenizer.train([], TokenizerConfig(kind="bytes"))
    return language_model_of(build_language_model(config.model, "causal", 3), tokenizer, config)


@pytest.mark.parametrize("stride", [1, 3, 4, 8])
@pytest.mark.parametrize("length", [2, 8, 9, 10, 33, 150])
def test_every_token_is_predicted_once_from_what_the_stride_leaves(
    model: LanguageModel, stride: int, length: int
) -> None:
    """Token t of the first window is given all before it; a later one what its window holds before it."""
    ids = torch.randint(4, 260, (length,)).tolist()
    wanted = 0.0
    for index in range(1, length):
        window = 0 if index <= 8 else -(-(index - 8) // stride)
        seen = ids[window * stride : index]
        assert len(seen) <= 8
        with torch.inference_mode():
            wanted -= float(model.model(torch.tensor([seen]))[0, -1].log_softmax(-1)[ids[index]])
    nats, count = likelihood(model, ids, stride)
    assert count == length - 1
    assert nats == pytest.approx(wanted, rel=1e-4)
