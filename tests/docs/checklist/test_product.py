"""Rows on the product's own models, where a test that builds its own class would not see the product break."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
import torch
from tests.unit.models.small import config, real_tokens, shake, small_model, some_tokens
from torch.nn import functional as F

from dikkat.config import ClassifierConfig
from dikkat.data.near_duplicates import near_key
from dikkat.data.packing import MASK_ID, Packed, hidden_tokens
from dikkat.models.classifier import EncoderClassifier
from dikkat.models.factory import build_classifier, build_language_model
from dikkat.nn import (
    AlibiBias,
    BucketBias,
    LearnedPositions,
    MultiHeadAttention,
    RelativeKeys,
    RotaryPositions,
    SinusoidalPositions,
    attention_positions,
    embedding_positions,
)
from dikkat.nn.multi_head_attention import Observation
from dikkat.nn.pooling import PoolingName


def classifier(pooling: PoolingName = "mean") -> EncoderClassifier:
    model = build_classifier(config(), ClassifierConfig(pooling=pooling), 3, seed=1)
    shake(model)
    return model.eval()


@pytest.mark.seed("C10")
def test_a_name_is_the_positions_that_the_literature_calls_so() -> None:
    added = {"sinusoidal": SinusoidalPositions, "learned": LearnedPositions}
    compared = {"rotary": RotaryPositions, "alibi": AlibiBias, "relative": RelativeKeys, "relative_buckets": BucketBias}
    assert {name: type(embedding_positions(name, 8, 16)) for name in added} == added
    assert {name: type(attention_positions(name, 2, 4, causal=True)) for name in compared} == compared


@pytest.mark.seed("D1")
@torch.no_grad()
def test_what_is_written_depends_on_the_source() -> None:
    model, target = small_model(), some_tokens(1, 4)
    one, other = (torch.tensor([ids]) for ids in ([5, 6, 7, 8, 2], [9, 10, 11, 12, 2]))
    mask = real_tokens([5], 5)
    assert (model(one, target, mask) - model(other, target, mask)).abs().amax(-1).min() > 1e-2
    first = [model.step(target[:, 0], model.start_cache(model.encode(item, mask), mask)) for item in (one, other)]
    assert (first[0] - first[1]).abs().max() > 1e-2


@pytest.mark.seed("D12")
def test_a_head_is_its_own_64_columns_and_they_stand_side_by_side() -> None:
    part, x, seen = MultiHeadAttention(512, 8, bias=False), torch.randn(1, 5, 512), list[Observation]()
    part.observe(seen.append)
    output = part(x)
    query, key, value = (x @ weight.T for weight in part.in_projection.weight.split(512))
    heads = []
    for head in range(8):
        own = slice(64 * head, 64 * head + 64)
        torch.testing.assert_close(seen[0].query[:, head], query[..., own], rtol=0, atol=1e-5)
        weights = (query[..., own] @ key[..., own].transpose(1, 2) / 8).softmax(-1)
        heads.append(weights @ value[..., own])
    expected = torch.cat(heads, -1) @ part.out_projection.weight.T
    torch.testing.assert_close(output, expected, rtol=0, atol=1e-5)


@pytest.mark.seed("D16")
@pytest.mark.parametrize("learning", [True, False])
def test_every_decoder_layer_uses_its_own_keys_and_values(learning: bool) -> None:
    model = small_model(decoder_layers=3)
    source, target, mask = some_tokens(2, 5), some_tokens(2, 3), real_tokens([5, 3], 5)
    with torch.set_grad_enabled(learning):
        cache = model.start_cache(model.encode(source, mask), mask)
        steps = torch.stack([model.step(target[:, step], cache) for step in range(3)], dim=1)
        torch.testing.assert_close(steps, model(source, target, mask), rtol=0, atol=1e-5)


@pytest.mark.seed("E18")
@torch.no_grad()
def test_the_language_model_sees_no_future_and_the_classifier_sees_both_ways() -> None:
    writer = build_language_model(config(), "causal", seed=1)
    shake(writer)
    tokens = some_tokens(1, 7)
    changed = tokens.clone()
    changed[0, 5] = 3 + (changed[0, 5] - 2) % 20
    shifted = (writer.eval()(tokens) - writer(changed)).abs().amax(-1)[0]
    assert [bool(amount > 1e-5) for amount in shifted] == [False] * 5 + [True] * 2
    reader, all_real = classifier(), real_tokens([7], 7)
    shifted = (reader.encode(tokens, all_real) - reader.encode(changed, all_real)).abs().amax(-1)[0]
    assert bool((shifted > 1e-5).all()), "every word reads the changed one, also those before it"


@pytest.mark.seed("F5", "F6")
@pytest.mark.parametrize("learning", [True, False])
@pytest.mark.parametrize("pooling", get_args(PoolingName))
def test_padding_is_neither_attended_to_nor_pooled(pooling: PoolingName, learning: bool) -> None:
    model, tokens = classifier(pooling), some_tokens(2, 4)
    with torch.set_grad_enabled(learning):
        alone = model(tokens, real_tokens([4, 4], 4))
        padded = model(F.pad(tokens, (0, 9), value=7), real_tokens([4, 4], 13))
        torch.testing.assert_close(padded, alone, rtol=0, atol=1e-6)
        hidden = model.encode(F.pad(tokens, (0, 9), value=7), real_tokens([4, 4], 13))
        torch.testing.assert_close(hidden[:, :4], model.encode(tokens, real_tokens([4, 4], 4)), rtol=0, atol=1e-5)


@pytest.mark.seed("E21")
def test_of_the_tokens_asked_for_most_are_hidden_and_all_others_stay() -> None:
    rows = np.random.default_rng(1).integers(4, 50, (200, 41))
    example = hidden_tokens(Packed(rows, None), 0.15, 50, np.random.default_rng(2))
    assert example.predicted is not None
    asked, read = example.wanted[example.predicted], example.tokens[example.predicted]
    assert np.array_equal(example.tokens[~example.predicted], example.wanted[~example.predicted])
    assert len(asked) == 200 * 6
    # 1,200 draws: four deviations are 0.046 of what is hidden, 0.035 of what stays or is another
    assert abs(np.mean(read == MASK_ID) - 0.8) < 0.047
    assert abs(np.mean(read == asked) - 0.1) < 0.035


@pytest.mark.seed("F13")
def test_what_differs_in_case_numbers_and_marks_alone_is_one_text() -> None:
    assert near_key("The film, 12 of 100: GREAT!") == near_key("the film 7 of 9 great")
    assert near_key("<b>Delete</b> %s?") == near_key("delete")
    assert near_key("the film was great") != near_key("the film was bad")
