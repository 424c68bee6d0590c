"""Sentences of the model's own vocabulary, the same for the same seed; differences in units of the logits."""

from __future__ import annotations

import math

import pytest
import torch
from tests.unit.explain.doctor.patients import dropping_model
from tests.unit.models.small import VOCABULARY, small_model

from dikkat.explain.doctor.specimen import distance, draw, worst


def test_sentences_are_drawn_from_the_seed_without_padding() -> None:
    model = small_model()
    first, again, other = draw(model, 1), draw(model, 1), draw(model, 2)
    assert torch.equal(first.source, again.source)
    assert torch.equal(first.target, again.target)
    assert not torch.equal(first.source, other.source)
    for tokens in (first.source, first.target, first.tokens(50, 50)):
        assert tokens.min() >= 1
        assert tokens.max() < VOCABULARY
    assert first.tokens(50, 50).unique().tolist() == list(range(1, VOCABULARY))
    assert first.mask.sum(1).tolist() == [7, 4, 1]
    assert bool(first.every_token.all())


@pytest.mark.parametrize("vocab_size", [4, 5, 23])
def test_other_tokens_are_all_different_and_in_the_vocabulary(vocab_size: int) -> None:
    specimen = draw(small_model(vocab_size=vocab_size), 1)
    tokens = specimen.tokens(40, 40)
    others = specimen.others(tokens)
    assert bool((others != tokens).all())
    assert others.unique().tolist() == list(range(1, vocab_size))


def test_dropout_is_drawn_alike_and_is_on_in_training() -> None:
    specimen = draw(dropping_model(), 1)
    inputs = (specimen.source, specimen.target, specimen.mask)
    evaluated = specimen.logits(*inputs)
    specimen.model.train()
    assert torch.equal(specimen.logits(*inputs), specimen.logits(*inputs))
    assert not torch.allclose(specimen.logits(*inputs), evaluated)


def test_a_copy_of_another_type_leaves_the_model_alone() -> None:
    specimen = draw(small_model(), 1)
    assert specimen.of_type(torch.float64).model.output_weight.dtype == torch.float64
    assert specimen.model.output_weight.dtype == torch.float32


def test_the_distance_is_relative_above_one_and_absolute_below() -> None:
    assert distance(torch.tensor([1.0, -40.0]), torch.tensor([3.0, -40.0])) == pytest.approx(2 / 40)
    assert distance(torch.tensor([0.1, 0.2]), torch.tensor([0.1, 0.4])) == pytest.approx(0.2)
    assert math.isnan(distance(torch.tensor([math.nan]), torch.tensor([1.0])))
    assert math.isnan(distance(torch.tensor([math.nan]), torch.tensor([math.nan])))
    assert math.isnan(distance(torch.tensor([1.0, 1.0]), torch.tensor([1.0, math.inf]))) or (
        distance(torch.tensor([1.0, 1.0]), torch.tensor([1.0, math.inf])) > 1e-5
    )


def test_what_is_no_number_is_the_worst_wherever_it_stands() -> None:
    for names in ("abc", "bca", "cab"):
        result = {name: {"a": 1.0, "b": math.nan, "c": math.inf}[name] for name in names}
        assert worst(result)[1] == "b"
    assert worst({"a": 0.5, "b": 2.0}) == (2.0, "b")
