"""Greedy decoding against a loop over one sentence in numpy."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tests.unit.decoding.mock_model import MockModel, Prefix, batch_of, log_softmax, some_sentences
from tests.unit.decoding.reversing import learned, sentences

from dikkat.torch_engine.stepper import CachedModel
from dikkat.torch_engine.strategies import batch_decoder, greedy
from dikkat_runtime.engine.hypotheses import Hypothesis
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, SamplingOptions
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID

pytestmark = pytest.mark.usefixtures("either_path")

OPTIONS = DecodingOptions(max_length_factor=1.0, max_length_offset=3)


def one_by_one(model: MockModel, source: Prefix, options: DecodingOptions) -> Hypothesis:
    """The reference: one sentence, float64."""
    cap = int(len(source) * options.max_length_factor) + options.max_length_offset
    prefix: Prefix = ()
    total = 0.0
    while len(prefix) < cap and EOS_ID not in prefix:
        logits = model.logits(source, prefix).copy()
        log_probabilities = log_softmax(logits)
        logits[[PAD_ID, BOS_ID]] = -np.inf
        token = int(np.argmax(logits))
        total += log_probabilities[token]
        prefix = (*prefix, token)
    ended = prefix[-1] == EOS_ID
    score = total / len(prefix) ** options.alpha
    return Hypothesis(prefix[:-1] if ended else prefix, score, total, ended)


def assert_same(found: Hypothesis, expected: Hypothesis) -> None:
    assert found.tokens == expected.tokens
    assert found.finished == expected.finished
    assert found.score == pytest.approx(expected.score, rel=1e-5)
    assert found.log_probability == pytest.approx(expected.log_probability, rel=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_same_as_one_sentence_at_a_time(alpha: float) -> None:
    options = DecodingOptions(length_penalty=alpha, max_length_factor=1.0, max_length_offset=3)
    model, sentences = MockModel(seed=1), some_sentences(40)
    result = greedy(model, *batch_of(sentences), options)
    expected = [one_by_one(model, sentence, options) for sentence in sentences]
    assert {hypothesis.finished for hypothesis in expected} == {True, False}
    for pair in zip(result, expected, strict=True):
        assert_same(*pair)


@pytest.mark.parametrize("plain", [OPTIONS, BeamOptions(beam_size=1), SamplingOptions(seed=3)], ids=type)
def test_who_asks_for_no_scores_gets_the_same_tokens(plain: DecodingOptions) -> None:
    models: list[tuple[CachedModel[Any], list[Prefix]]] = [
        (MockModel(seed=1), some_sentences(40)),
        (learned(), sentences(3)),
    ]
    for model, rows in models:
        scored, unscored = (
            [item[0] for item in batch_decoder(model, options)(*batch_of(rows), range(len(rows)))]
            for options in (plain, replace(plain, scores=False))
        )
        assert [(item.tokens, item.finished) for item in scored] == [(item.tokens, item.finished) for item in unscored]
        assert all(item.score <= 0 and item.log_probability <= 0 for item in scored)
        assert all(math.isnan(item.score) and math.isnan(item.log_probability) for item in unscored)


def test_a_beam_is_always_scored() -> None:
    decode = batch_decoder(MockModel(), BeamOptions(beam_size=3, scores=False))
    (best,), *_ = decode(*batch_of(some_sentences(3)), range(3))
    assert best.score < 0


@pytest.mark.parametrize("size", [1, 7, 64])
def test_the_batch_does_not_change_a_result(size: int) -> None:
    sentences = some_sentences(64)
    together = greedy(MockModel(), *batch_of(sentences), OPTIONS)
    separate = [
        hypothesis
        for start in range(0, 64, size)
        for hypothesis in greedy(MockModel(), *batch_of(sentences[start : start + size]), OPTIONS)
    ]
    assert separate == together
    order = np.random.default_rng(size).permutation(64).tolist()
    shuffled = greedy(MockModel(), *batch_of([sentences[index] for index in order]), OPTIONS)
    assert shuffled == [together[index] for index in order]


def test_ended_rows_leave_the_batch() -> None:
    model, sentences = MockModel(seed=5), some_sentences(20)
    result = greedy(model, *batch_of(sentences), OPTIONS)
    emitted = [len(hypothesis.tokens) + hypothesis.finished for hypothesis in result]
    assert len(set(emitted)) > 3
    assert model.rows_seen == [sum(length > step for length in emitted) for step in range(max(emitted))]


@pytest.mark.seed("D17")
def test_decoding_stops_at_the_end_mark_or_at_the_cap_of_its_own_source() -> None:
    never = MockModel(fixed=[0, 0, -50, 1, 2, 0])
    short, long = (5, EOS_ID), (5, 6, 7, 8, 9, EOS_ID)
    result = greedy(never, *batch_of([short, long]), DecodingOptions(max_length_factor=1.5, max_length_offset=2))
    assert [hypothesis.tokens for hypothesis in result] == [(4,) * 5, (4,) * 11]
    assert [hypothesis.finished for hypothesis in result] == [False, False]
    at_once = greedy(MockModel(fixed=[9, 9, 3, 1]), *batch_of([short]), OPTIONS)
    assert (at_once[0].tokens, at_once[0].finished) == ((), True)


def test_a_cap_below_one_token_leaves_one() -> None:
    options = DecodingOptions(max_length_factor=0.1, max_length_offset=0)
    result = greedy(MockModel(fixed=[0, 0, -9, 1]), *batch_of([(5, EOS_ID)]), options)
    assert result[0].tokens == (3,)


def test_the_end_mark_at_the_cap_still_ends_the_sentence() -> None:
    options = DecodingOptions(max_length_factor=0.0, max_length_offset=1)
    result = greedy(MockModel(fixed=[0, 0, 5, 1]), *batch_of([(5, EOS_ID)]), options)
    assert (result[0].tokens, result[0].finished) == ((), True)


def test_padding_and_begin_mark_are_never_emitted_and_keep_their_share() -> None:
    logits = [5.0, 6.0, 0.0, 1.0]
    result = greedy(
        MockModel(fixed=logits),
        *batch_of([(5, EOS_ID)]),
        DecodingOptions(max_length_factor=0.0, max_length_offset=2),
    )
    assert result[0].tokens == (3, 3)
    assert result[0].log_probability == pytest.approx(2 * log_softmax(np.array(logits, dtype=np.float32))[3], rel=1e-6)


def test_of_equal_tokens_the_lowest_id_wins() -> None:
    result = greedy(
        MockModel(fixed=[9, 9, 0, 1, 2, 2, 2]),
        *batch_of([(5, EOS_ID)]),
        DecodingOptions(max_length_factor=0.0, max_length_offset=3),
    )
    assert result[0].tokens == (4, 4, 4)


def test_no_sentences_give_no_hypotheses() -> None:
    model = MockModel()
    nothing = torch.zeros(0, 4, dtype=torch.int64), torch.zeros(0, 4, dtype=torch.bool)
    assert greedy(model, *nothing, OPTIONS) == []
    assert model.rows_seen == []
