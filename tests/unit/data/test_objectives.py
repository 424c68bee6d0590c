"""The three questions about a window of text."""

from __future__ import annotations

import numpy as np
import pytest

from dikkat.data.packing import MASK_ID, Packed, after_prefix, hidden_tokens, next_tokens

ALONE = Packed(np.array([[1, 10, 11, 12, 2]]), None)
TWO = Packed(np.array([[10, 2, 1, 20, 2]]), np.array([[0, 0, 1, 1, 1]]))


def test_next_tokens_ends_with_its_document() -> None:
    example = next_tokens(ALONE)
    assert (example.tokens.tolist(), example.wanted.tolist()) == ([[1, 10, 11, 12]], [[10, 11, 12, 2]])
    assert example.predicted is None
    assert example.position_ids is None
    example = next_tokens(TWO)
    assert example.predicted is not None
    assert example.position_ids is not None
    assert example.predicted.tolist() == [[True, False, True, True]], "the first of a document is not predicted"
    assert example.position_ids.tolist() == [[0, 1, 0, 1]]


def test_hidden_tokens_has_the_shares_of_the_paper() -> None:
    """Of 40,000 draws each share is within five standard deviations, which is 0.02."""
    generator = np.random.default_rng(1)
    packed = Packed(generator.integers(4, 1000, (2000, 101)), None)
    example = hidden_tokens(packed, 0.2, 1000, generator)
    asked = example.predicted
    assert asked is not None
    assert (asked.sum(axis=1) == 20).all()
    read, wanted = example.tokens[asked], example.wanted[asked]
    assert abs((read == MASK_ID).mean() - 0.8) < 0.02
    assert abs((read == wanted).mean() - 0.1) < 0.02
    assert (example.tokens[~asked] == example.wanted[~asked]).all()
    assert read[read != MASK_ID].min() >= 4
    assert (example.wanted == packed.tokens[:, :-1]).all()


def test_special_tokens_are_never_asked_for() -> None:
    example = hidden_tokens(TWO, 0.9, 30, np.random.default_rng(0))
    assert example.predicted is not None
    assert example.predicted.tolist() == [[True, False, False, True]]
    few = hidden_tokens(Packed(np.array([[7, 8, 9]]), None), 0.01, 30, np.random.default_rng(0))
    assert few.predicted is not None
    assert few.predicted.sum() == 1, "at least one"


@pytest.mark.seed("E21")
@pytest.mark.parametrize("seed", range(5))
def test_after_prefix_asks_for_nothing_that_was_seen(seed: int) -> None:
    packed = Packed(np.arange(4, 40).reshape(4, 9), None)
    example = after_prefix(packed, np.random.default_rng(seed))
    assert example.prefix is not None
    assert example.predicted is not None
    for row, prefix in enumerate(example.prefix.tolist()):
        seen = set(example.tokens[row, :prefix].tolist())
        wanted = example.wanted[row][example.predicted[row]].tolist()
        assert not seen & set(wanted)
        assert len(wanted) == 8 - max(0, prefix - 1)
