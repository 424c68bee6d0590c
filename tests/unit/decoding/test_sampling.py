"""Sampling: the cuts against numpy on known distributions, frequencies, seeds, and its limit against greedy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.decoding.mock_model import MockModel, batch_of, log_softmax, some_sentences

from dikkat.torch_engine.strategies import candidates, draw, greedy, sample
from dikkat_runtime.engine.options import DecodingOptions, SamplingOptions
from dikkat_runtime.special_tokens import EOS_ID

pytestmark = pytest.mark.usefixtures("either_path")

KNOWN = [0.5, 0.25, 0.125, 0.0625, 0.0625]


def distribution(logits: list[float], options: SamplingOptions) -> list[float]:
    """What `sample` draws from, normalised, by id."""
    probabilities, ids = candidates(torch.tensor([logits]), options)
    by_id = torch.zeros(len(logits)).scatter(0, ids[0], probabilities[0])
    return [float(share) for share in by_id / by_id.sum()]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (SamplingOptions(), KNOWN),
        (SamplingOptions(top_k=2), [2 / 3, 1 / 3, 0, 0, 0]),
        (SamplingOptions(top_k=99), KNOWN),
        (SamplingOptions(top_p=0.4), [1, 0, 0, 0, 0]),
        (SamplingOptions(top_p=0.51), [2 / 3, 1 / 3, 0, 0, 0]),
        (SamplingOptions(top_p=0.80), [4 / 7, 2 / 7, 1 / 7, 0, 0]),
        # top-p looks at what top-k left: 4/7, 2/7, 1/7
        (SamplingOptions(top_k=3, top_p=0.6), [2 / 3, 1 / 3, 0, 0, 0]),
        # the fourth and the fifth are equal: the lower id stays
        (SamplingOptions(top_k=4), [8 / 15, 4 / 15, 2 / 15, 1 / 15, 0]),
        (SamplingOptions(temperature=0.5), [64 / 86, 16 / 86, 4 / 86, 1 / 86, 1 / 86]),
        (SamplingOptions(temperature=0.0), [1, 0, 0, 0, 0]),
    ],
)
def test_cuts_of_a_known_distribution(options: SamplingOptions, expected: list[float]) -> None:
    assert distribution(np.log(KNOWN).tolist(), options) == pytest.approx(expected, abs=1e-6)
    order = [3, 0, 4, 2, 1]
    if options.top_k != 4:
        shuffled = distribution(np.log([KNOWN[index] for index in order]).tolist(), options)
        assert shuffled == pytest.approx([expected[index] for index in order], abs=1e-6)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    seed=st.integers(0, 10**6),
    width=st.integers(3, 400),
    temperature=st.sampled_from([0.3, 1.0, 2.5]),
    top_k=st.sampled_from([0, 1, 3, 50]),
    top_p=st.sampled_from([0.05, 0.5, 0.9, 1.0]),
)
def test_cuts_are_those_of_numpy(seed: int, width: int, temperature: float, top_k: int, top_p: float) -> None:
    logits = np.random.default_rng(seed).normal(scale=2.0, size=width).astype(np.float32)
    order = np.argsort(-logits, kind="stable")[: top_k or None]
    scaled = np.exp((logits[order].astype(np.float64) - logits.max()) / temperature)
    share = scaled / scaled.sum()
    kept = order[: int(np.searchsorted(np.cumsum(share), top_p - 1e-7)) + 1]
    expected = np.zeros(width)
    expected[kept] = share[: len(kept)] / share[: len(kept)].sum()
    options = SamplingOptions(temperature=temperature, top_k=top_k, top_p=top_p)
    np.testing.assert_allclose(distribution(logits.tolist(), options), expected, atol=2e-6)


def test_draw_takes_the_interval_a_number_falls_into() -> None:
    probabilities = torch.tensor([[0.0, 0.25, 0.0, 0.5, 0.0]]).expand(6, -1)
    # The sum is 0.75: the second token owns [0, 1/3), the fourth [1/3, 1).
    uniforms = torch.tensor([0.0, 0.3, 0.34, 0.9, 1 - 2**-24, 1.0])
    assert draw(probabilities, uniforms).tolist() == [1, 1, 3, 3, 3, 3]


def test_frequencies_are_the_model_probabilities() -> None:
    shares = np.array([1e-9, 1e-9, 0.4, 0.3, 0.2, 0.1])
    count = 4000
    result = sample(
        MockModel(fixed=np.log(shares).tolist()),
        *batch_of([(5, EOS_ID)] * count),
        SamplingOptions(max_length_factor=0.0, max_length_offset=1),
    )
    firsts = [hypothesis.tokens[0] if hypothesis.tokens else EOS_ID for hypothesis in result]
    frequencies = np.bincount(firsts, minlength=6) / count
    # four standard deviations of a binomial share
    assert (abs(frequencies - shares)[2:] < 4 * np.sqrt(shares * (1 - shares) / count)[2:]).all()
    assert frequencies[:2].sum() == 0


def test_successive_draws_of_a_sentence_are_independent() -> None:
    result = sample(
        MockModel(fixed=np.log([1e-12, 1e-12, 1e-12, 0.5, 0.5]).tolist()),
        *batch_of([(5, EOS_ID)] * 2000),
        SamplingOptions(max_length_factor=0.0, max_length_offset=2),
    )
    pairs = [hypothesis.tokens for hypothesis in result]
    for pair in ((3, 3), (3, 4), (4, 3), (4, 4)):
        assert pairs.count(pair) / 2000 == pytest.approx(0.25, abs=0.04)


@pytest.mark.parametrize("options", [{"temperature": 0.0}, {"temperature": 1e-4}, {"temperature": 1e-40}, {"top_k": 1}])
def test_no_temperature_and_top_1_are_greedy(options: dict[str, float]) -> None:
    model, sentences = MockModel(seed=4), some_sentences(30)
    result = sample(model, *batch_of(sentences), SamplingOptions(seed=11, **options))  # type: ignore[arg-type]
    assert result == greedy(model, *batch_of(sentences), DecodingOptions())


def test_seed_and_number_decide_not_the_batch() -> None:
    sentences = some_sentences(40)
    options = SamplingOptions(seed=3, top_p=0.95)
    together = sample(MockModel(), *batch_of(sentences), options)
    order = np.random.default_rng(0).permutation(40).tolist()
    shuffled = sample(MockModel(), *batch_of([sentences[index] for index in order]), options, order)
    assert shuffled == [together[index] for index in order]
    alone = [sample(MockModel(), *batch_of([sentences[n]]), options, [n])[0] for n in range(40)]
    assert alone == together
    assert sample(MockModel(), *batch_of(sentences), SamplingOptions(seed=4, top_p=0.95)) != together
    assert len({hypothesis.tokens for hypothesis in sample(MockModel(), *batch_of([sentences[0]] * 20), options)}) > 5


def test_scores_are_the_models_own_probabilities() -> None:
    model, sentences = MockModel(seed=6), some_sentences(20)
    options = SamplingOptions(temperature=2.0, top_k=5, length_penalty=0.5)
    for result, source in zip(sample(model, *batch_of(sentences), options), sentences, strict=True):
        emitted = (*result.tokens, EOS_ID) if result.finished else result.tokens
        steps = range(len(emitted))
        total = sum(log_softmax(model.logits(source, emitted[:step]))[emitted[step]] for step in steps)
        assert result.log_probability == pytest.approx(total, rel=1e-5)
        assert result.score == pytest.approx(total / len(emitted) ** 0.5, rel=1e-5)


def test_no_sentences_give_no_hypotheses() -> None:
    nothing = torch.zeros(0, 4, dtype=torch.int64), torch.zeros(0, 4, dtype=torch.bool)
    assert sample(MockModel(), *nothing, SamplingOptions()) == []
