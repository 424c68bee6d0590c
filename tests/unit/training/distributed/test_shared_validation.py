"""Ranks that each do some of a validation come to the numbers of one process, to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.unit.training.distributed.test_exchanges import by_ranks
from tests.unit.training.test_classification import task_of as classifier_of
from tests.unit.training.test_language_modelling import task_of as language_model_of
from tests.unit.training.toy import toy_corpus, toy_model

from dikkat.config import TokenizerConfig
from dikkat.data.batching import BatchPlan
from dikkat.training import classification, translation
from dikkat.training.distributed.ranks import ONE_PROCESS, Ranks
from dikkat.training.task import ValidationStoppedError
from dikkat.training.translation import Validator
from dikkat_runtime.text.tokenizer import Tokenizer

Lengths = NDArray[np.int64]
Validate = Callable[[Ranks | None], str]


def of_ranks(validate: Callable[[Ranks], str], count: int = 2) -> list[str]:
    """Return what each of the ranks validates, as text."""
    answers = by_ranks(count, validate)
    assert [error for error, _, _ in answers] == [""] * count
    return [text for _, text, _ in answers]


def small_batches(monkeypatch: pytest.MonkeyPatch, module: object, tokens: int) -> None:
    """Let a task that validates in one batch do so in many."""

    def plan(sources: Lengths, targets: Lengths, _: int, seed: int) -> BatchPlan:
        return BatchPlan(sources, targets, tokens, seed)

    monkeypatch.setattr(module, "BatchPlan", plan)


def test_a_translator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus, model = toy_corpus(tmp_path), toy_model().eval()
    texts = [" ".join(map(str, corpus.source(index).tolist())) for index in range(len(corpus))]
    tokenizer = Tokenizer.train(texts, TokenizerConfig(vocab_size=320))
    small_batches(monkeypatch, translation, 60)
    monkeypatch.setattr(translation, "DECODING_BATCH", 3)

    def validate(ranks: Ranks = ONE_PROCESS) -> str:
        validator = Validator(corpus, tokenizer, texts, texts)
        return repr(validator(model, 2, ranks=ranks))

    alone = validate()
    assert "chrf" in alone
    assert of_ranks(validate) == [alone] * 2


def test_a_language_model(tmp_path: Path) -> None:
    task = language_model_of(tmp_path, dropout=0.1)
    task.held_out.batch_size = 2
    task.model.eval()

    def validate(ranks: Ranks = ONE_PROCESS) -> str:
        return repr(task.validate(0, ranks=ranks))

    alone = validate()
    assert "perplexity" in alone
    assert of_ranks(validate, 3) == [alone] * 3


def test_a_classifier(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task = classifier_of(tmp_path)
    torch.nn.init.normal_(task.model.output.weight)
    task.model.eval()
    small_batches(monkeypatch, classification, 5)
    task.limit_validation(1.0)

    def validate(ranks: Ranks = ONE_PROCESS) -> str:
        return repr(task.validate(1, ranks=ranks))

    alone = validate()
    assert "accuracy" in alone
    assert of_ranks(validate) == [alone] * 2


def test_all_ranks_leave_a_validation_that_one_is_asked_to_stop(tmp_path: Path) -> None:
    task = language_model_of(tmp_path)
    task.held_out.batch_size = 2

    def validate(ranks: Ranks) -> str:
        with pytest.raises(ValidationStoppedError):
            task.validate(0, lambda: ranks.index == 1, ranks)
        return "stopped"

    assert of_ranks(validate) == ["stopped"] * 2
