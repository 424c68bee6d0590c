"""The task of a language model: each objective learns what can be known of a text, and no more."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from dikkat.config import LanguageModelConfig, ModelConfig, TrainingConfig
from dikkat.data.corpus import Corpus
from dikkat.data.packing import Windows, next_tokens
from dikkat.models.factory import build_language_model
from dikkat.models.language_model import Objective
from dikkat.training.language_modelling import LanguageModelTask, batch_loss
from dikkat.training.optimizer import Optimizer
from dikkat.training.parameters import FlatParameters

BRANCHES = 2
"""Choices at one token in four of the toy text: log 2 / 4 nats a token are what nobody can know."""


def toy_text(length: int, seed: int) -> list[int]:
    """Period 4: a fixed token, one of two, a fixed one, and a copy of the one of two."""
    drawn = np.random.default_rng(seed).integers(0, BRANCHES, length)
    return [token for draw in drawn.tolist() for token in (4, 5 + draw, 7, 8 + draw)]


def task_of(folder: Path, objective: Objective = "causal", **model: Any) -> LanguageModelTask:
    config = ModelConfig.model_validate(
        {
            "vocab_size": 10, "model_dim": 32, "num_heads": 2, "feed_forward_dim": 64, "decoder_layers": 2,
            "dropout": 0.0, **model,
        }
    )  # fmt: skip
    asked = LanguageModelConfig(objective=objective, context=16)
    training = TrainingConfig(optimizer="adamw", learning_rate=0.01, label_smoothing=0.0)
    parts = [Corpus.build(folder, name, [(toy_text(size, 1 + size), ())]) for name, size in (("a", 900), ("b", 200))]
    train, held_out = (Windows(part, 16, 256, seed=1) for part in parts)
    network = build_language_model(config, objective, seed=1)
    return LanguageModelTask(network, train, held_out, asked, training, 1.0 / math.log(2), lambda model, number: ())


def learn(task: LanguageModelTask, updates: int) -> None:
    parameters = FlatParameters(task.model.train())
    optimizer = Optimizer(parameters, TrainingConfig(optimizer="adamw", learning_rate=0.01))
    for update in range(updates):
        with parameters.collect_gradients():
            result = task.loss(update, 0.0)
            result.objective.backward()
        optimizer.step(parameters.gradient / result.predictions, update + 1, 1.0 - update / updates)
    task.model.eval()


@pytest.mark.parametrize("objective", ["causal", "masked", "prefix"])
def test_the_loss_asks_nothing_of_the_device(tmp_path: Path, objective: Objective) -> None:
    """On the device "meta" tensors have no numbers: who asks for one, or mixes devices, gets an error."""
    task = task_of(tmp_path, objective, dropout=0.1)
    here = task.loss(0, 0.0)
    task.model.to("meta")
    result = task.loss(0, 0.0)
    result.objective.backward()
    assert result.predictions == here.predictions > 0
    assert result.likelihood.device.type == "meta"


def test_causal_learns_down_to_the_entropy_of_the_text(tmp_path: Path) -> None:
    """One token in four is a fair coin, all else follows: log 2 / 4 = 0.173 nats a token."""
    task = task_of(tmp_path)
    assert task.validate(0).loss > 1.5
    learn(task, 250)
    result = task.validate(0)
    entropy = math.log(BRANCHES) / 4
    # of 16 predictions at most one, the copy of what lies before the window, is one coin more
    assert entropy - 0.03 < result.loss < entropy + math.log(BRANCHES) / 16 + 0.03
    assert result.score == -result.loss
    assert result.scores == pytest.approx(
        {"perplexity": math.exp(result.loss), "bits_per_byte": result.loss / math.log(2)}
    )


@pytest.mark.seed("E21")
def test_masked_learns_from_both_sides(tmp_path: Path) -> None:
    """A hidden draw is known from its copy behind it, as no causal model could know it; unless both are hidden."""
    task = task_of(tmp_path, "masked")
    learn(task, 500)
    result = task.validate(0)
    assert result.loss < math.log(BRANCHES) / 4
    assert "bits_per_byte" not in result.scores


@pytest.mark.seed("E21")
def test_prefix_learns_what_comes_after(tmp_path: Path) -> None:
    task = task_of(tmp_path, "prefix")
    learn(task, 250)
    assert task.validate(0).loss < math.log(BRANCHES) / 4 + math.log(BRANCHES) / 16 + 0.08


def test_the_loss_of_packed_documents_is_that_of_each_alone(tmp_path: Path) -> None:
    """Against PyTorch's cross-entropy of one document at a time."""
    documents = [[1, *np.random.default_rng(size).integers(4, 10, size).tolist(), 2] for size in (3, 5, 2, 9)]
    corpus = Corpus.build(tmp_path, "c", [(document, ()) for document in documents])
    model = build_language_model(
        ModelConfig(vocab_size=10, model_dim=16, num_heads=2, feed_forward_dim=32, decoder_layers=2, dropout=0.0),
        "causal", 1,
    ).eval()  # fmt: skip
    whole = Windows(corpus, len(corpus.ids) - 1, 1, seed=0)
    result = batch_loss(model, next_tokens(whole.at(0)), 0.0)
    wanted = sum(
        float(F.cross_entropy(model(torch.tensor([item[:-1]]))[0], torch.tensor(item[1:]), reduction="sum").detach())
        for item in documents
    )
    assert result.predictions == sum(len(item) - 1 for item in documents)
    assert float(result.likelihood) == pytest.approx(wanted, abs=1e-3)


def test_a_position_gives_the_same_question_each_time(tmp_path: Path) -> None:
    objectives: tuple[Objective, ...] = ("causal", "masked", "prefix")
    for objective in objectives:
        task = task_of(tmp_path / objective, objective)
        losses = [float(task.loss(position, 0.0).likelihood) for position in (0, 3, 0, 3)]
        assert losses[:2] == losses[2:]
        assert losses[0] != losses[1]
        assert task.validate(0).loss == task.validate(1).loss
