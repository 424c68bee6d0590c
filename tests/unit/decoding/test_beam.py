"""Beam search against a plain loop in float64 numpy, against exhaustive search, and against greedy decoding."""

from __future__ import annotations

from itertools import product

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.decoding.mock_model import MockModel, Prefix, batch_of, log_softmax, some_sentences

from dikkat.torch_engine.beam_search import beam_search
from dikkat.torch_engine.strategies import greedy
from dikkat_runtime.engine.hypotheses import Hypothesis
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID

pytestmark = pytest.mark.usefixtures("either_path")

NEVER = float("-inf")


def cap_of(source: Prefix, options: DecodingOptions) -> int:
    return int(len(source) * options.max_length_factor) + options.max_length_offset


def twin(model: MockModel, source: Prefix, options: BeamOptions) -> list[Hypothesis]:
    """Beam search for one sentence, without early stopping: it ends when k have finished and
    the best of them would beat the best live one ending now, or at the cap."""
    k, alpha = options.beam_size, options.alpha
    live: list[tuple[float, Prefix]] = [(0.0, ())]
    done: list[Hypothesis] = []
    for length in range(1, cap_of(source, options) + 1):
        grown = [
            (total + log_probability, (*prefix, token))
            for total, prefix in live
            for token, log_probability in enumerate(log_softmax(model.logits(source, prefix)))
            if token not in (PAD_ID, BOS_ID)
        ]
        best = sorted(grown, key=lambda entry: -entry[0])[: 2 * k]
        done += [Hypothesis(p[:-1], s / length**alpha, s, True) for s, p in best[:k] if p[-1] == EOS_ID]
        live = [entry for entry in best if entry[1][-1] != EOS_ID][:k]
        settled = len(done) >= k and live and live[0][0] / length**alpha <= max(item.score for item in done)
        if settled or not live:
            break
    cut = [Hypothesis(p, s / length**alpha, s, False) for s, p in live]
    return (sorted(done, key=lambda hypothesis: -hypothesis.score)[:k] + cut)[: options.n_best]


def assert_same(found: list[Hypothesis], expected: list[Hypothesis]) -> None:
    assert [h.tokens for h in found] == [h.tokens for h in expected]
    assert [h.finished for h in found] == [h.finished for h in expected]
    assert [h.score for h in found] == pytest.approx([h.score for h in expected], rel=1e-5)
    assert [h.log_probability for h in found] == pytest.approx([h.log_probability for h in expected], rel=1e-5)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(
    seed=st.integers(0, 10**6),
    vocab_size=st.sampled_from([4, 5, 7, 12, 200]),
    beam_size=st.integers(1, 6),
    n_best=st.integers(1, 6),
    alpha=st.sampled_from([0.0, 0.6, 1.0, 2.0]),
    offset=st.integers(1, 5),
    eos_bias=st.sampled_from([-4.0, -1.0, 1.0]),
)
def test_n_best_is_that_of_the_plain_loop(
    seed: int, vocab_size: int, beam_size: int, n_best: int, alpha: float, offset: int, eos_bias: float
) -> None:
    model = MockModel(vocab_size=vocab_size, seed=seed, eos_bias=eos_bias)
    options = BeamOptions(
        beam_size=beam_size,
        n_best=min(n_best, beam_size),
        length_penalty=alpha,
        max_length_factor=0.5,
        max_length_offset=offset,
    )
    sentences = some_sentences(5, seed)
    result = beam_search(model, *batch_of(sentences), options)
    for hypotheses, sentence in zip(result, sentences, strict=True):
        assert_same(hypotheses, twin(model, sentence, options))


@pytest.mark.parametrize("alpha", [0.0, 1.0, 1.7])
def test_a_beam_as_wide_as_the_space_finds_the_true_best(alpha: float) -> None:
    cap, vocab_size = 4, 6
    options = BeamOptions(
        beam_size=vocab_size**cap, n_best=20, length_penalty=alpha, max_length_factor=0.0, max_length_offset=cap
    )
    for seed in range(6):
        model, source = MockModel(vocab_size=vocab_size, seed=seed), (7, 8, EOS_ID)
        every = []
        for length in range(cap):
            for tokens in product(range(3, vocab_size), repeat=length):
                steps = [(*tokens, EOS_ID)[:index] for index in range(length + 2)]
                total = sum(log_softmax(model.logits(source, new[:-1]))[new[-1]] for new in steps[1:])
                every.append((total / (length + 1) ** alpha, tokens))
        every.sort(reverse=True)
        result = beam_search(model, *batch_of([source]), options)[0]
        assert [hypothesis.tokens for hypothesis in result] == [tokens for _, tokens in every[:20]]


def test_a_full_store_does_not_end_a_search_that_is_still_winning() -> None:
    """Two bad hypotheses end at once; the good one, which greedy decoding finds, needs a step more."""
    # logits of pad, bos, eos and two tokens; what is not listed ends nearly surely
    steps = {(): [-9.0, -9.0, 1.0, 3.0, 0.5], (3,): [-9.0, -9.0, 0.0, -9.0, 2.0], (4,): [-9.0, -9.0, 0.0, -9.0, -9.0]}

    class Scripted(MockModel):
        def logits(self, source: Prefix, prefix: Prefix) -> npt.NDArray[np.float32]:
            return np.array(steps.get(prefix, [-9.0, -9.0, 9.0, -9.0, -9.0]), dtype=np.float32)

    options = BeamOptions(beam_size=2, length_penalty=1.0, max_length_factor=1.0, max_length_offset=4)
    model = Scripted(vocab_size=5)
    result = beam_search(model, *batch_of([(7, 8, EOS_ID)]), options)[0]
    assert_same(result, twin(model, (7, 8, EOS_ID), options))
    assert result[0].tokens == (3, 4)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("levels", [0, 2])
def test_beam_1_is_greedy(alpha: float, levels: int) -> None:
    for seed in range(10):
        sentences = some_sentences(12, seed)
        model = MockModel(seed=seed, vocab_size=300)
        if levels:
            # few distinct logits: nearly every choice is a tie
            model = MockModel(fixed=np.random.default_rng(seed).integers(0, levels, 300).tolist())
        plain = DecodingOptions(length_penalty=alpha, max_length_factor=1.0, max_length_offset=2)
        options = BeamOptions(beam_size=1, length_penalty=alpha, max_length_factor=1.0, max_length_offset=2)
        result = beam_search(model, *batch_of(sentences), options)
        alone = greedy(model, *batch_of(sentences), plain)
        assert result == [[hypothesis] for hypothesis in alone]


@pytest.mark.parametrize("size", [1, 7, 64])
def test_the_batch_does_not_change_a_result(size: int) -> None:
    options = BeamOptions(beam_size=4, n_best=4, max_length_factor=1.0, max_length_offset=2)
    sentences = some_sentences(64)
    together = beam_search(MockModel(), *batch_of(sentences), options)
    separate = [
        hypotheses
        for start in range(0, 64, size)
        for hypotheses in beam_search(MockModel(), *batch_of(sentences[start : start + size]), options)
    ]
    assert separate == together
    order = np.random.default_rng(size).permutation(64).tolist()
    shuffled = beam_search(MockModel(), *batch_of([sentences[index] for index in order]), options)
    assert shuffled == [together[index] for index in order]


def test_n_best_is_sorted_distinct_and_a_prefix_of_a_longer_n_best() -> None:
    sentences = some_sentences(30)
    lists = {
        n: beam_search(MockModel(seed=2), *batch_of(sentences), BeamOptions(beam_size=6, n_best=n)) for n in (1, 3, 6)
    }
    for one, three, six in zip(lists[1], lists[3], lists[6], strict=True):
        assert six[:1] == three[:1] == one
        assert three == six[:3]
        assert len({hypothesis.tokens for hypothesis in six}) == 6
        ended = [hypothesis.score for hypothesis in six if hypothesis.finished]
        assert ended == sorted(ended, reverse=True)
        assert not any(token in (PAD_ID, BOS_ID, EOS_ID) for hypothesis in six for token in hypothesis.tokens)


def test_ended_sentences_leave_the_batch() -> None:
    options = BeamOptions(beam_size=3, max_length_factor=1.0, max_length_offset=2)
    model, sentences = MockModel(seed=9), some_sentences(15)
    beam_search(model, *batch_of(sentences), options)
    steps = []
    for sentence in sentences:
        alone = MockModel(seed=9)
        beam_search(alone, *batch_of([sentence]), options)
        assert set(alone.rows_seen) == {3}
        steps.append(len(alone.rows_seen))
    assert len(set(steps)) > 2
    assert model.rows_seen == [3 * sum(count > step for count in steps) for step in range(max(steps))]


def test_search_stops_as_soon_as_no_live_hypothesis_can_win() -> None:
    # End at once: log 0.9 = -0.105. What starts with another token has at most log 0.05 = -3.0, so its score is at
    # best -3.0 / cap, which is below -0.105 for caps up to 28.
    for cap, one_step in ((28, True), (29, False)):
        model = MockModel(fixed=np.log([1e-9, 1e-9, 0.9, 0.05, 0.05]).tolist())
        options = BeamOptions(beam_size=4, max_length_factor=0.0, max_length_offset=cap, length_penalty=1.0)
        result = beam_search(model, *batch_of([(5, EOS_ID)]), options)[0]
        assert result[0].tokens == ()
        assert result[0].score == pytest.approx(np.log(0.9), rel=1e-5)
        assert (len(model.rows_seen) == 1) == one_step


def test_normalisation_can_prefer_the_longer_output() -> None:
    # End at once: 0.55. "3 4" and the end: 0.45 * 0.95 * 0.9 = 0.385, but a better mean per token.
    source = (5, EOS_ID)
    model = MockModel(vocab_size=5)
    table = {(): [0.55, 0.45, 0.0], (3,): [0.05, 0.0, 0.95], (3, 4): [0.9, 0.1, 0.0]}
    for prefix in [(), (3,), (4,), (3, 3), (3, 4), (4, 3), (4, 4)]:
        share = table.get(prefix, [0.01, 0.5, 0.49])
        model.known[source, prefix] = np.log(np.array([0, 0, *share]) + 1e-12).astype(np.float32)
    plain, mean = (
        beam_search(
            model,
            *batch_of([source]),
            BeamOptions(beam_size=3, length_penalty=alpha, max_length_factor=0.0, max_length_offset=3),
        )[0][0]
        for alpha in (0.0, 1.0)
    )
    assert (plain.tokens, mean.tokens) == ((), (3, 4))
    assert plain.score == plain.log_probability == pytest.approx(np.log(0.55), abs=1e-5)
    assert mean.log_probability == pytest.approx(np.log(0.45 * 0.95 * 0.9), abs=1e-5)
    assert mean.score == pytest.approx(np.log(0.45 * 0.95 * 0.9) / 3, abs=1e-5)


def test_the_cap_is_that_of_the_own_source_and_cut_hypotheses_come_last() -> None:
    model = MockModel(fixed=[0, 0, -30, 1, 2, 3])
    short, long = (5, EOS_ID), (5, 6, 7, EOS_ID)
    options = BeamOptions(beam_size=3, n_best=3, max_length_factor=1.0, max_length_offset=1)
    result = beam_search(model, *batch_of([short, long]), options)
    assert [[len(h.tokens) for h in hypotheses] for hypotheses in result] == [[3] * 3, [5] * 3]
    assert not any(h.finished for hypotheses in result for h in hypotheses)
    # A certain loop against an end that costs much: the ended one still ranks first.
    loop = MockModel(fixed=[NEVER, NEVER, -3, 3])
    options = BeamOptions(beam_size=2, n_best=2, max_length_factor=0.0, max_length_offset=1)
    ended, cut = beam_search(loop, *batch_of([short]), options)[0]
    assert (ended.tokens, ended.finished, cut.tokens, cut.finished) == ((), True, (3,), False)
    assert ended.score < cut.score


def test_fewer_hypotheses_than_asked_when_no_more_exist() -> None:
    options = BeamOptions(beam_size=5, n_best=5, max_length_factor=0.0, max_length_offset=1)
    result = beam_search(MockModel(vocab_size=4), *batch_of([(5, EOS_ID)]), options)[0]
    assert [(h.tokens, h.finished) for h in result] == [((), True), ((3,), False)]


def test_of_equal_continuations_the_lowest_ids_win() -> None:
    options = BeamOptions(beam_size=3, n_best=3, max_length_factor=0.0, max_length_offset=2)
    result = beam_search(MockModel(fixed=[0, 0, -9] + [1] * 500), *batch_of([(5, EOS_ID)]), options)[0]
    assert [h.tokens for h in result] == [(3, 3), (3, 4), (3, 5)]


def test_no_sentences_give_no_hypotheses() -> None:
    nothing = torch.zeros(0, 4, dtype=torch.int64), torch.zeros(0, 4, dtype=torch.bool)
    assert beam_search(MockModel(), *nothing, BeamOptions()) == []
