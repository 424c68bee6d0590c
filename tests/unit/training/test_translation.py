"""The task of a translator: which batches are learned, and in which direction."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.unit.training.toy import ScriptedValidator, toy_corpus, toy_model

from dikkat.config import TrainingConfig
from dikkat.data.batching import collate
from dikkat.data.corpus import Corpus
from dikkat.training.translation import TranslationTask, batch_loss


def task_with(share: float, corpus: Corpus) -> TranslationTask:
    config = TrainingConfig(tokens_per_batch=40, bidirectional_share=share)
    return TranslationTask(toy_model(), corpus, ScriptedValidator(), config)


@pytest.mark.parametrize("progress", [0.0, 0.39, 0.4, 1.0])
def test_every_other_batch_is_learned_backwards_at_first(tmp_path: Path, progress: float) -> None:
    """Ding et al. 2021: both directions in the first part of the run, the wanted one alone in the rest."""
    corpus = toy_corpus(tmp_path)
    task, pairs = task_with(0.4, corpus), [(corpus.source(i), corpus.target(i)) for i in range(len(corpus))]
    turned = Corpus.in_memory([(target.tolist(), source.tolist()) for source, target in pairs])
    for position in range(2 * task.batches_per_epoch):
        is_backwards = progress < 0.4 and position % 2 == 1
        wanted = batch_loss(task.model, collate(turned if is_backwards else corpus, task.plan.at(position)[1]), 0.1)
        result = task.loss(position, progress)
        assert torch.equal(result.objective, wanted.objective)
        assert result.predictions == wanted.predictions


def test_without_a_share_nothing_is_learned_backwards(tmp_path: Path) -> None:
    corpus = toy_corpus(tmp_path)
    task = task_with(0.0, corpus)
    for position in range(task.batches_per_epoch):
        wanted = batch_loss(task.model, collate(corpus, task.plan.at(position)[1]), 0.1)
        assert torch.equal(task.loss(position, 0.0).objective, wanted.objective)
