"""What is explained of a language model: the numbers are those of the model, and what does not fit is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from tests.unit.explain.head_analysis.test_circuits import small_model

from dikkat.config import TokenizerConfig, build_config
from dikkat.explain.explanation import as_json, as_table
from dikkat.tasks.in_memory import language_model_of
from dikkat.tasks.language_model.explanation import explain_text
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.tasks.generator import Generator
from dikkat_runtime.text.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def trained() -> Generator:
    """Two layers with random weights that read words."""
    tokenizer = Tokenizer.train(["the cat sees the dog", "the dog sees the cat"] * 9, TokenizerConfig(vocab_size=320))
    model = small_model(tokenizer.vocab_size)
    sizes = {"vocab_size": tokenizer.vocab_size, "model_dim": 16, "num_heads": 2, "feed_forward_dim": 24}
    config = build_config({"model": {**sizes, "decoder_layers": 2, "norm_placement": "pre"}})
    return language_model_of(model, tokenizer, config)


def other_text(trained: Generator) -> str:
    """Return a text of as many tokens that the model continues with another one."""
    words = ("the", "cat", "sees", "dog")
    answers = {}
    for text in (f"{first} {second} {third}" for first in words for second in words for third in words):
        with torch.no_grad():
            answers[text] = int(trained.model(torch.tensor([trained.tokenizer.encode(text)]))[0, -1].argmax())
    return next(text for text, answer in answers.items() if answer != answers["the cat sees"])


def test_the_numbers_are_those_of_the_model(trained: Generator) -> None:
    explanation, numbers = explain_text(trained, "the cat sees", other_text(trained))
    ids = torch.tensor([trained.tokenizer.encode("the cat sees")])
    with torch.no_grad():
        logits = trained.model(ids)[0, -1]
    answer = int(logits.argmax())
    assert numbers["lens_answer"][-1] == pytest.approx(float(logits.softmax(-1)[answer]), abs=1e-5)
    total = numbers["embedding"] + numbers["rest"] + np.sum(numbers["heads"]) + np.sum(numbers["feed_forwards"])
    assert total == pytest.approx(float(logits[answer]), abs=1e-4)
    assert np.shape(numbers["patching"]) == (2, ids.shape[1])
    assert len(explanation.steps) == 4
    table = as_table(explanation)
    assert f"together they give the logit {float(logits[answer]):.3f}" in table
    assert json.loads(as_json(explanation, numbers))["patching"] == numbers["patching"]


def test_of_a_long_text_the_end_is_read(trained: Generator) -> None:
    text = " ".join(["the cat sees the dog"] * 99)
    ids = trained.tokenizer.encode(text)
    explanation, numbers = explain_text(trained, text, None)
    with torch.no_grad():
        logits = trained.model(torch.tensor([ids[-200:]]))[0, -1]
    assert trained.context > 200
    assert numbers["logit"] == pytest.approx(float(logits.max()), abs=1e-4)
    assert explanation.introduction[1] == f"Of {len(ids)} tokens these last 200 are read."
    assert len(explanation.title) < len(text)


@pytest.mark.parametrize(
    ("text", "against", "error", "message"),
    [
        ("", None, DataError, "“” is too short to be explained; give two tokens or more"),
        ("the cat sees", "the dog", UsageError, "--against: both texts need as many tokens"),
        ("the cat sees", "the cat sees", UsageError, "--against: both texts are continued with"),
    ],
)
def test_what_does_not_fit_is_refused(
    text: str, against: str | None, error: type[Exception], message: str, trained: Generator
) -> None:
    with pytest.raises(error, match=message):
        explain_text(trained, text, against)
