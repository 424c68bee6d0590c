"""A guided head: its loss is minus the logarithm of what it attends to the linked word, and training moves it there."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from tests.unit.training.toy import Recorder, ScriptedValidator, toy_corpus, toy_model, toy_trainer

from dikkat.config import TrainingConfig
from dikkat.data.batching import collate
from dikkat.data.corpus import Corpus
from dikkat.data.links import Links
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.blocks import EncoderBlock
from dikkat.nn.recorder import MapName, record_attention
from dikkat.training.translation import GuidedHead, TranslationTask, batch_loss

HEAD = 1
ENCODER = MapName("encoder", 0, "self")


def links_to_the_first(folder: Path, corpus: Corpus) -> Links:
    """The last token of each source is linked with its first two."""
    lengths = corpus.source_lengths.tolist()
    return Links.build(
        folder,
        [(pair, length - 1, column) for pair, length in enumerate(lengths) if length > 2 for column in (0, 1)],
    )


def guided(model: EncoderDecoder, links: Links, weight: float = 0.5) -> GuidedHead:
    return GuidedHead(cast(EncoderBlock, model.encoder.blocks[0]).self_attention, HEAD, links, weight)


def mean_share(model: EncoderDecoder, corpus: Corpus, links: Links, head: int) -> float:
    """What a head attends to the linked tokens, averaged over the linked rows of the corpus."""
    return float(
        np.mean(np.concatenate([shares(model, corpus, links, np.array([i]), head) for i in range(len(corpus))]))
    )


def shares(model: EncoderDecoder, corpus: Corpus, links: Links, indices: Any, head: int) -> np.ndarray:
    """By the maps that the fast kernels give, in float64: of each linked row the sum over its columns."""
    batch, linked = collate(corpus, indices), links.of(indices)
    source = torch.from_numpy(batch.source)
    with torch.no_grad(), record_attention(model, lambda name: name == ENCODER) as maps:
        model.encode(source, source != 0)
    weights = maps[ENCODER][0][:, head].double().numpy()
    result = np.zeros(linked.num_rows)
    for sentence, row, column, group in zip(linked.sentences, linked.rows, linked.columns, linked.groups, strict=True):
        result[group] += weights[sentence, row, column]
    return result


@pytest.mark.seed("D6")
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary", "alibi"])
def test_the_loss_is_that_of_the_formula(tmp_path: Path, positions: str) -> None:
    corpus, model = toy_corpus(tmp_path), toy_model(positions=positions)
    links = links_to_the_first(tmp_path, corpus)
    task = TranslationTask(
        model, corpus, ScriptedValidator(), TrainingConfig(tokens_per_batch=90), guided(model, links)
    )
    for position in range(task.batches_per_epoch):
        indices = task.plan.at(position)[1]
        text = batch_loss(model, collate(corpus, indices), 0.1)
        both = task.loss(position, 0.0)
        wanted = text.objective.item() - 0.5 * float(np.log(shares(model, corpus, links, indices, HEAD)).sum())
        assert both.objective.item() == pytest.approx(wanted, rel=1e-5)
        # what is reported is of the text alone
        assert torch.equal(both.likelihood, text.likelihood)
        assert both.predictions == text.predictions


def test_no_observer_is_left_behind_and_nothing_is_guided_backwards(tmp_path: Path) -> None:
    corpus, model = toy_corpus(tmp_path), toy_model()
    head = guided(model, links_to_the_first(tmp_path, corpus))
    config = TrainingConfig(tokens_per_batch=90, bidirectional_share=1.0)
    task = TranslationTask(model, corpus, ScriptedValidator(), config, head)
    backwards = collate(corpus, task.plan.at(1)[1]).backwards()
    assert torch.equal(task.loss(1, 0.0).objective, batch_loss(model, backwards, 0.1).objective)
    task.loss(0, 0.0)
    assert not head.attention._observers


def test_training_moves_the_guided_head_alone_to_the_linked_words(tmp_path: Path) -> None:
    trainer = toy_trainer(tmp_path, updates=60)
    task = cast(TranslationTask, trainer.task)
    links = links_to_the_first(tmp_path, task.corpus)
    task.guided = guided(task.model, links, 2.0)
    before = mean_share(task.model.eval(), task.corpus, links, HEAD)
    trainer.train(Recorder())
    task.model.eval()
    assert before < 0.6
    assert mean_share(task.model, task.corpus, links, HEAD) > 0.9
    assert mean_share(task.model, task.corpus, links, 1 - HEAD) < 0.9


def test_a_resumed_run_is_guided_to_the_same_bits(tmp_path: Path) -> None:
    def trainer(name: str, resume: bool = False) -> Any:
        made = toy_trainer(tmp_path / name, dropout=0.3, accumulate=2, resume=resume)
        task = cast(TranslationTask, made.task)
        task.guided = guided(task.model, links_to_the_first(tmp_path, task.corpus))
        return made

    whole, first = trainer("whole"), trainer("broken")
    assert whole.train(Recorder())
    assert not first.train(Recorder(), should_stop=lambda: first.state.updates == 5)
    second = trainer("broken", resume=True)
    second.resume(second.run.latest_checkpoint())
    assert second.train(Recorder())
    assert whole.run.weights.read_bytes() == second.run.weights.read_bytes()
    unguided = toy_trainer(tmp_path / "unguided", dropout=0.3, accumulate=2)
    assert unguided.train(Recorder())
    assert unguided.run.weights.read_bytes() != whole.run.weights.read_bytes()
