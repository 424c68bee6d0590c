"""The constraint of demanded words, by its answers: what is banned, what is asked for, and where it belongs."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from tests.runtime.scripted_engine import tokenizer_of

from dikkat_runtime.engine.terms import Demand, Spelling, Terms, WordBorders
from dikkat_runtime.special_tokens import EOS_ID
from dikkat_runtime.text.tokenizer import Tokenizer

A, B, C, D = 10, 11, 12, 13


@cache
def tokenizer() -> Tokenizer:
    return tokenizer_of(["un chien voit le chat noir ici"])


def terms(*demands: Demand) -> Terms:
    return Terms(WordBorders(tokenizer().token_bytes, suffixes=False), demands)


def demand(*spellings: tuple[int, ...], count: int = 1, positions: tuple[int, ...] = ()) -> Demand:
    return Demand(tuple(Spelling(tokens) for tokens in spellings), count, positions)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_word_is_wanted_until_it_is_there_as_often_as_demanded_and_then_banned(count: int) -> None:
    constraint = terms(demand((A,), count=count))
    state = constraint.start
    for there in range(count):
        assert constraint.missing(state) == count - there
        assert list(constraint.wanted(state)) == [A]
        assert A not in constraint.banned(state)
        state = constraint.after(constraint.after(state, A), D)
    assert constraint.missing(state) == 0
    assert list(constraint.wanted(state)) == []
    assert A in constraint.banned(state)
    # what is there already is not counted again
    assert constraint.after(constraint.after(state, A), D).left == (0,)


def test_the_last_token_of_a_word_that_is_there_is_banned_and_its_beginning_is_not() -> None:
    constraint = terms(demand((A, B)))
    state = constraint.after(constraint.after(constraint.after(constraint.start, A), B), D)
    assert constraint.missing(state) == 0
    assert A not in constraint.banned(state)
    begun = constraint.after(state, A)
    assert B in constraint.banned(begun)


def test_a_word_in_two_spellings_counts_once() -> None:
    constraint = terms(demand((A,), (B, C)))
    for first in ((A,), (B, C)):
        state = constraint.start
        for token in (*first, D):
            state = constraint.after(state, token)
        assert constraint.missing(state) == 0
        assert A in constraint.banned(state)
        assert C in constraint.banned(constraint.after(state, B))


@pytest.mark.parametrize("mass", [0.02, 0.3, 0.9])
def test_a_word_belongs_where_the_model_looks_at_its_source(mass: float) -> None:
    attention = np.array([0.1, mass / 2, mass / 2, 0.9 - mass], np.float64)
    constraint = terms(demand((A,), positions=(1, 2)), demand((B,)))
    assert constraint.reads_attention
    scores = np.log(np.full(20, 1 / 20))
    assert constraint.placement_score(constraint.start, A, scores, attention) == pytest.approx(math.log(mass))
    # without known positions, and without attention, any position is as good
    assert constraint.placement_score(constraint.start, B, scores, attention) == 0.0
    assert constraint.placement_score(constraint.start, A, scores, None) == 0.0
    assert not terms(demand((B,))).reads_attention


def test_no_attention_counts_as_a_thousandth() -> None:
    constraint = terms(demand((A,), positions=(0,)))
    score = constraint.placement_score(constraint.start, A, np.zeros(20), np.array([0.0, 1.0]))
    assert score == pytest.approx(math.log(1e-3))


def test_a_spelling_has_its_share_of_all_spellings_of_the_word() -> None:
    constraint = terms(demand((A,), (B,), positions=(0,)))
    p = np.full(20, 0.01)
    p[A], p[B] = 0.06, 0.02
    score = constraint.placement_score(constraint.start, A, np.log(p), np.array([0.5, 0.5]))
    assert score == pytest.approx(math.log(0.5) + math.log(0.06 / 0.08))
    # inside a word the share alone counts
    constraint = terms(demand((A, B), (A, C), positions=(0,)))
    begun = constraint.after(constraint.start, A)
    p[B], p[C] = 0.02, 0.06
    assert constraint.placement_score(begun, C, np.log(p), np.array([0.0, 1.0])) == pytest.approx(math.log(0.75))


def test_the_end_waits_for_the_word_and_progress_grows_with_it() -> None:
    constraint = terms(demand((A, B, C)))
    states = [constraint.start]
    for token in (A, B, C):
        states.append(constraint.after(states[-1], token))
    assert [constraint.missing(state) for state in states] == [3, 2, 1, 0]
    progress = [constraint.progress(state) for state in states]
    assert progress == sorted(set(progress))
    assert EOS_ID not in constraint.banned(states[-1])
