"""Every choice of a configuration in a whole model: step by step = teacher forcing, no future, no padding."""

from __future__ import annotations

from typing import Any, get_args

import pytest
import torch
from tests.unit.models.choices import CHOICES
from tests.unit.models.small import VOCABULARY, config, real_tokens, small_model, some_tokens

from dikkat.config import ModelConfig, build_config
from dikkat.models.factory import build_model
from dikkat.nn.positions import BeyondPositionsError
from dikkat.nn.recorder import record_attention
from dikkat_runtime.errors import UsageError

every_choice = pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES.keys())


def test_every_name_of_the_configuration_is_among_the_choices() -> None:
    for field in ("positions", "score", "selection", "activation", "norm", "norm_placement"):
        names = set(get_args(ModelConfig.model_fields[field].annotation))
        tried = {choice[field] for choice in CHOICES.values() if field in choice}
        assert names == tried | {ModelConfig.model_fields[field].default}


@pytest.mark.seed("E7")
@every_choice
@torch.no_grad()
def test_step_by_step_is_teacher_forcing(choice: dict[str, Any]) -> None:
    """With two rows a sentence, so that queries of one memory stand side by side."""
    model, source, mask = small_model(**choice), some_tokens(3, 9), real_tokens([9, 4, 1], 9)
    target, rows = some_tokens(6, 24), 2
    forced = model(source.repeat_interleave(rows, 0), target, mask.repeat_interleave(rows, 0))
    cache = model.start_cache(model.encode(source, mask), mask, rows_per_sentence=rows)
    for position in range(24):
        stepped = model.step(target[:, position], cache)
        torch.testing.assert_close(stepped, forced[:, position], rtol=0, atol=1e-5)


@every_choice
@torch.no_grad()
def test_neither_padding_nor_the_future_changes_anything(choice: dict[str, Any]) -> None:
    model, source, target, mask = small_model(**choice), some_tokens(2, 5), some_tokens(2, 8), real_tokens([5, 3], 5)
    logits = model(source, target, mask)
    longer = torch.cat((source, torch.full((2, 4), VOCABULARY - 1)), dim=1)
    padded = model(longer, target, torch.cat((mask, torch.zeros(2, 4, dtype=torch.bool)), dim=1))
    torch.testing.assert_close(padded, logits, rtol=0, atol=1e-5)
    changed = target.clone()
    changed[:, 5:] = (changed[:, 5:] - 3 + 7) % (VOCABULARY - 3) + 3
    torch.testing.assert_close(model(source, changed, mask)[:, :5], logits[:, :5], rtol=0, atol=1e-5)


@every_choice
def test_recorded_weights_are_rows_that_sum_to_one(choice: dict[str, Any]) -> None:
    model, mask = small_model(**choice), real_tokens([5, 3], 5)
    with record_attention(model) as maps:
        model(some_tokens(2, 5), some_tokens(2, 4), mask)
    # a recurrent decoder has no self-attention in its two layers
    assert len(maps) == (4 if choice.get("decoder_memory") == "ssru" else 6)
    for (weights,), name in zip(maps.values(), maps, strict=True):
        # a padded query may stand where its window holds no real key
        rows = weights[:, :, :3] if name.stack == "encoder" else weights
        torch.testing.assert_close(rows.sum(-1), torch.ones(rows.shape[:-1]))


@every_choice
def test_every_parameter_gets_a_gradient(choice: dict[str, Any]) -> None:
    """All but, under argmax, the norm that only queries pass through: no gradient reaches the scores there."""
    model, mask = small_model(**{**choice, "attention_dropout": 0.0}).train(), real_tokens([5, 3], 5)
    model(some_tokens(2, 5), some_tokens(2, 4), mask).logsumexp(-1).sum().backward()
    silent = set()
    for name, parameter in model.named_parameters():
        if parameter.grad is None or not parameter.grad.any():
            silent.add(name)
        else:
            assert torch.isfinite(parameter.grad).all(), name
    of_queries = {name for name, _ in model.named_parameters() if "cross_residual.norm" in name}
    assert silent == (of_queries if choice.get("selection") == "argmax" else set())


@pytest.mark.parametrize("name", ["rotary", "alibi", "relative", "relative_buckets"])
@torch.no_grad()
def test_positions_go_on_beyond_every_table(name: str) -> None:
    """300 steps: tables and buckets have to grow or to end on the way."""
    model, source, target, mask = (
        small_model(positions=name),
        some_tokens(1, 4),
        some_tokens(1, 300),
        real_tokens([4], 4),
    )
    forced = model(source, target, mask)
    cache = model.start_cache(model.encode(source, mask), mask)
    for position in range(300):
        stepped = model.step(target[:, position], cache)
    torch.testing.assert_close(stepped, forced[:, -1], rtol=0, atol=1e-5)


@torch.no_grad()
def test_a_sentence_beyond_the_learned_table_is_refused() -> None:
    model = small_model(positions="learned", max_positions=6)
    source, mask = some_tokens(1, 6), real_tokens([6], 6)
    message = "must fit into max_positions = 6 learned positions, but reaches 7"
    with pytest.raises(BeyondPositionsError, match=message):
        model.encode(some_tokens(1, 7), real_tokens([7], 7))
    cache = model.start_cache(model.encode(source, mask), mask)
    for _ in range(6):
        model.step(some_tokens(1), cache)
    with pytest.raises(BeyondPositionsError, match=message):
        model.step(some_tokens(1), cache)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_heads": 3}, "num_heads must divide model_dim, but 3 does not divide 16; set head_dim to free the two"),
        ({"num_heads": 4, "num_kv_heads": 3}, "num_kv_heads must divide num_heads, but 3 does not divide 4"),
        ({"positions": "rotary", "head_dim": 5}, "rotary positions need an even head_dim, but head_dim is 5"),
        ({"global_tokens": 2}, "global_tokens = 2 needs an attention_window, but none is set"),
        ({"positions": "spiral"}, "model.positions: input should be 'sinusoidal', .*, not 'spiral'"),
        ({"score": "cosine"}, "model.score: input should be 'scaled_dot', .*, not 'cosine'"),
        ({"attention_window": -1}, "model.attention_window: input should be greater than or equal to 0, not -1"),
    ],
)
def test_choices_that_cannot_be_are_the_users_error(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build_config({"model": {"model_dim": 16, "num_heads": 4, **settings}})


def test_the_default_model_is_what_it_was() -> None:
    """Same parts, names and initial draws: a linear layer is the only thing that is drawn again."""
    model = build_model(config(), seed=5)
    names = {name.split(".", 3)[-1] for name, _ in model.named_parameters() if ".blocks." in name}
    attentions = {
        f"{kind}_attention.{part}_projection.{what}"
        for kind in ("self", "cross") for part in ("in", "out") for what in ("weight", "bias")
    }  # fmt: skip
    assert {name for name in names if "attention" in name} == attentions
