"""The tree of a beam search, replayed: its branches must be what the search lived on and returned."""

from __future__ import annotations

import pytest
import torch
from tests.unit.decoding.mock_model import MockModel, batch_of, log_softmax, some_sentences

from dikkat.torch_engine.beam_search import BeamTree, beam_search, path_of
from dikkat_runtime.engine.hypotheses import Hypothesis
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.special_tokens import EOS_ID

MODEL = MockModel(vocab_size=12, seed=5)
OPTIONS = BeamOptions(beam_size=3, n_best=3, length_penalty=1.3, max_length_factor=0.5, max_length_offset=4)


@pytest.mark.parametrize("seed", range(4))
def test_every_branch_is_its_prefix_with_its_probability(seed: int) -> None:
    sentences = some_sentences(5, seed)
    tree = BeamTree(len(sentences), OPTIONS)
    result = beam_search(MODEL, *batch_of(sentences), OPTIONS, tree.watch)
    for source, steps, hypotheses in zip(sentences, tree.steps, result, strict=True):
        living: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
        ended: dict[tuple[int, ...], float] = {}
        for length, step in enumerate(steps, start=1):
            assert [item.log_probability for item in step] == sorted((b.log_probability for b in step), reverse=True)
            grown = []
            for rank, item in enumerate(step):
                prefix, total = living[item.parent]
                exact = total + log_softmax(MODEL.logits(source, prefix))[item.token]
                assert item.log_probability == pytest.approx(exact, rel=1e-4)
                assert item.score == pytest.approx(item.log_probability / length**1.3)
                assert (item.fate == "ends") == (item.token == EOS_ID and rank < 3)
                if item.fate == "ends":
                    ended[prefix] = item.score
                elif item.fate == "lives":
                    grown.append(((*prefix, item.token), item.log_probability))
            assert len(grown) <= 3
            living = grown
        for hypothesis in hypotheses:
            if hypothesis.finished:
                assert ended[hypothesis.tokens] == pytest.approx(hypothesis.score, rel=1e-5)
            else:
                assert hypothesis.tokens in dict(living)


def test_the_path_follows_a_hypothesis_to_its_end() -> None:
    sentences = some_sentences(6, 1)
    tree = BeamTree(len(sentences), OPTIONS)
    result = beam_search(MODEL, *batch_of(sentences), OPTIONS, tree.watch)
    for steps, hypotheses in zip(tree.steps, result, strict=True):
        for hypothesis in hypotheses:
            path = path_of(hypothesis, steps)
            tokens = [step[rank].token for step, rank in zip(steps, path, strict=False)]
            assert tokens == [*hypothesis.tokens, *([EOS_ID] if hypothesis.finished else [])]


def test_a_hypothesis_of_another_search_has_no_path() -> None:
    sentences = some_sentences(1, 1)
    tree = BeamTree(1, OPTIONS)
    ((best, *_),) = beam_search(MODEL, *batch_of(sentences), OPTIONS, tree.watch)
    stranger = Hypothesis((*best.tokens[:-1], 99), best.score, best.log_probability, best.finished)
    with pytest.raises(ValueError, match="has no such hypothesis"):
        path_of(stranger, tree.steps[0])


def test_watching_changes_nothing() -> None:
    batch = batch_of(some_sentences(5, 2))
    watched = beam_search(MODEL, *batch, OPTIONS, BeamTree(5, OPTIONS).watch)
    assert watched == beam_search(MODEL, *batch, OPTIONS)
    assert not torch.is_inference_mode_enabled()
