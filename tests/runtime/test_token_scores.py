"""The scores of the tokens that a search wrote, against single steps in float64, and against the scores of a pair."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.runtime.test_engines import CONFIGS, SOURCES, native
from tests.runtime.test_ensemble import MANY, of_native, three_models
from tests.runtime.test_shortlist import a_shortlist, listed
from tests.unit.models.small import small_model

from dikkat_runtime.engine.contract import SearchRequest
from dikkat_runtime.engine.forced_attention import forced_scores
from dikkat_runtime.engine.hypotheses import Hypothesis
from dikkat_runtime.engine.neighbours import Neighbours
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID

BEAM = BeamOptions(beam_size=4, n_best=4, token_scores=True)
GREEDY = DecodingOptions(token_scores=True)


def by_steps(engine: Any, source: list[int], written: Hypothesis, words: Any = None) -> Any:
    """(T, 3): log-probability, margin and entropy of each token among `words` and itself, of logits in float64."""
    steps, rows = engine.steps(engine.encode([source]), 1), []
    for before, token in zip([BOS_ID, *written.tokens], [*written.tokens, EOS_ID], strict=True):
        logits = steps.step([before])[0].astype(np.float64)
        listed_words = np.arange(len(logits)) if words is None else np.union1d(words, [token])
        p = np.exp(logits[listed_words] - logits[listed_words].max())
        p /= p.sum()
        others = [word for word in listed_words if word not in (token, PAD_ID, BOS_ID)]
        log_p = np.log(p[list(listed_words).index(token)])
        rows.append([log_p, logits[token] - logits[others].max(), -(p * np.log(p)).sum()])
    return np.array(rows)


def assert_scored(engine: Any, options: DecodingOptions, sources: list[list[int]], words: Any = None) -> None:
    seen = 0
    for source, found in zip(sources, engine.search(engine.encode(sources), options), strict=True):
        for one in found:
            assert (one.token_scores is not None) == one.finished
            if one.token_scores is not None:
                own, expected = one.token_scores, by_steps(engine, source, one, words and words(source))
                np.testing.assert_allclose(own.values, expected, atol=3e-4)
                assert (own.tokens, own.source_length) == (one.tokens, len(source) + 1)
                assert own.log_probabilities.sum() == pytest.approx(one.log_probability, abs=1e-4)
                seen += 1
    assert seen


@pytest.mark.parametrize(
    ("name", "options"),
    [("as by default", GREEDY), ("as by default", BEAM), ("dot products", BEAM), ("odd widths", BEAM)],
)
def test_a_search_knows_how_sure_each_token_is(name: str, options: DecodingOptions) -> None:
    engine = native(small_model(**CONFIGS[name]), **CONFIGS[name])
    assert_scored(engine, options, SOURCES)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_they_are_those_of_the_pair_to_the_bit_and_in_any_company(precision: Any) -> None:
    for threads in (1, 2):
        engine = native(small_model(), precision, threads)
        found = engine.search(engine.encode(MANY), BEAM)
        assert found == engine.search(engine.encode(MANY), BeamOptions(beam_size=4, n_best=4))
        for source, hypotheses in zip(MANY, found, strict=True):
            for one in (item for item in hypotheses if item.token_scores is not None):
                (pair,) = forced_scores(engine, engine.encode([source]), [one.tokens])
                assert one.token_scores is not None
                own = one.token_scores.values
                # a pair counts marks that are never written among the other tokens
                np.testing.assert_array_equal(own[:, [0, 2]], pair.values[:, [0, 2]])
                assert (own[:, 1] >= pair.values[:, 1]).all()


def test_several_models_are_sure_by_the_mean_of_their_probabilities() -> None:
    assert_scored(of_native(three_models()), BEAM, SOURCES)


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_words_of_a_shortlist_are_compared_with_each_other(precision: Any) -> None:
    engine, source = listed("attention", precision), SOURCES[1]
    assert_scored(engine, BEAM, SOURCES, a_shortlist().of)
    words, tokens = a_shortlist().of(source), (7, 9, 4)
    assert [token in words for token in tokens] == [False, False, True]
    # a pair of somebody else has been judged among all words, by a fit on what a search says among a few
    (pair,) = forced_scores(engine, engine.encode([source]), [tokens])
    expected = by_steps(engine, source, Hypothesis(tokens, 0.0, 0.0, finished=True), words)
    np.testing.assert_allclose(pair.values, expected, atol=3e-4)
    for one in (item for item in engine.search(engine.encode([source]), BEAM)[0] if item.token_scores is not None):
        (pair,) = forced_scores(engine, engine.encode([source]), [one.tokens])
        assert one.token_scores is not None
        np.testing.assert_allclose(pair.values, one.token_scores.values, atol=1e-5)


def test_what_other_texts_had_a_say_in_is_not_scored() -> None:
    engine = native(small_model())
    states = np.zeros((1, engine.settings.model_dim), np.float32)
    near = [None, Neighbours(states, np.array([7])), None, None]
    found = engine.search(engine.encode(SOURCES), GREEDY, SearchRequest(neighbours=near))
    assert [own[0].token_scores is not None for own in found] == [
        own[0].finished and one is None for own, one in zip(found, near, strict=True)
    ]
    assert all(own[0].token_scores is None for own in engine.search(engine.encode(SOURCES), DecodingOptions()))
