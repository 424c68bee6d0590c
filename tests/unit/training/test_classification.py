"""The task of a classifier, wherever it computes; what it learns is asked in tests/system/test_classifier.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from dikkat.config import ClassifierConfig, ModelConfig, RunConfig
from dikkat.data.corpus import Corpus
from dikkat.models.factory import build_classifier
from dikkat.training.classification import ClassificationTask, TableScores, class_weights, pad_texts

TEXTS = [([4, 5, 6], [0]), ([7], [0]), ([5, 8, 9, 4], [1]), ([6, 6], [0])]


def task_of(
    folder: Path, positions: str = "rotary", kind: type[ClassificationTask] = ClassificationTask, **classifier: Any
) -> ClassificationTask:
    model = {"vocab_size": 12, "model_dim": 16, "num_heads": 2, "feed_forward_dim": 24, "encoder_layers": 1}
    config = RunConfig(
        model=ModelConfig.model_validate({**model, "positions": positions, "dropout": 0.0}),
        classifier=ClassifierConfig(**classifier),
    )
    corpus = Corpus.build(folder, "train", TEXTS)
    network = build_classifier(config.model, config.classifier, 2, seed=1)
    return kind(network, corpus, corpus, ["a", "b", "c", "d"], ["no", "yes"], config)


@pytest.mark.parametrize("balance", [False, True])
def test_the_loss_is_a_smoothed_cross_entropy(tmp_path: Path, balance: bool) -> None:
    task = task_of(tmp_path, balance=balance)
    result = task.loss(0, 0.0)
    _, order = task.plan.at(0)
    tokens, mask = pad_texts([TEXTS[index][0] for index in order], torch.device("cpu"))
    logits, wanted = task.model(tokens, mask).double(), torch.tensor([TEXTS[index][1][0] for index in order])
    weights = torch.tensor([4 / (2 * 3), 4 / (2 * 1)], dtype=torch.float64) if balance else None
    expected = F.cross_entropy(logits, wanted, weights, reduction="sum", label_smoothing=0.1)
    assert result.predictions == len(TEXTS)
    assert float(result.objective.detach()) == pytest.approx(float(expected.detach()), rel=1e-5)
    assert class_weights(task.corpus, 2).tolist() == pytest.approx([2 / 3, 2.0])


@pytest.mark.parametrize(
    ("rise", "progress", "share"), [(0.0, 0.0, 1.0), (0.5, 0.1, 0.2), (0.5, 0.8, 1.0), (1.0, 0.0, 0.0)]
)
def test_the_table_comes_into_the_loss_as_the_run_goes_on(
    tmp_path: Path, rise: float, progress: float, share: float
) -> None:
    task = task_of(tmp_path, table_rise=rise)
    known = np.array([[0.5, -1.0], [2.0, 0.0], [0.0, 3.0], [-1.0, 1.0]], np.float32)
    task.table = TableScores(known, known)
    result = task.loss(0, progress)
    _, order = task.plan.at(0)
    logits = task.model(*pad_texts([TEXTS[index][0] for index in order], torch.device("cpu"))).double()
    wanted = torch.tensor([TEXTS[index][1][0] for index in order])
    expected = F.cross_entropy(logits + share * torch.from_numpy(known[order]), wanted, reduction="sum")
    assert float(result.likelihood) == pytest.approx(float(expected.detach()), rel=1e-5)


def test_batches_are_planned_by_what_is_seen_of_a_text(tmp_path: Path) -> None:
    whole, seen = (task_of(tmp_path / str(most), seen_tokens=most) for most in (None, 2))
    assert [len(batch) for batch in whole.plan.epoch(0)] == [len(TEXTS)]
    assert whole.plan.padding_share(whole.plan.epoch(0))[0] > seen.plan.padding_share(seen.plan.epoch(0))[0] > 0.0


@pytest.mark.parametrize("positions", ["rotary", "sinusoidal", "alibi"])
def test_the_loss_asks_nothing_of_the_device(tmp_path: Path, positions: str) -> None:
    """On the device "meta" tensors have no numbers: who asks for one, or mixes devices, gets an error."""
    task = task_of(tmp_path, positions, balance=True, word_dropout=0.3, pooling="attention", seen_tokens=2)
    task.model.to("meta").train()
    result = task.loss(0, 0.0)
    result.objective.backward()
    assert result.predictions == len(TEXTS)
    assert result.likelihood.device.type == "meta"


@pytest.mark.parametrize("favour", [0.0, 0.5, 1.25])
def test_weights_ask_for_logits_less_a_share_of_the_log_odds(tmp_path: Path, favour: float) -> None:
    """What a weighted loss asks of a text that says nothing: log(w1 n1 / (w0 n0)), where n are the texts of a class."""
    task = task_of(tmp_path)
    weights = class_weights(task.corpus, 2, favour).double()
    counts = torch.bincount(torch.tensor([labels[0] for _, labels in TEXTS])).double()
    wanted = (1.0 - favour) * torch.log(counts[1] / counts[0])
    assert float(torch.log(weights[1] * counts[1] / (weights[0] * counts[0]))) == pytest.approx(float(wanted), abs=1e-6)
    assert float(weights @ counts) == pytest.approx(len(TEXTS))
