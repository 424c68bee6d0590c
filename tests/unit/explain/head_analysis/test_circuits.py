"""Scores of heads, logit lens, attribution and patching, against formulas in numpy and hand-made models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from dikkat.config import build_config
from dikkat.explain.head_analysis.circuits import (
    attribution,
    detection_scores,
    head_scores,
    logit_lens,
    patching,
    repeated_tokens,
)
from dikkat.explain.head_analysis.importance import HeadName
from dikkat.models.factory import build_language_model
from dikkat.models.language_model import LanguageModel
from dikkat_runtime.errors import UsageError


def small_model(vocabulary: int = 20, **changes: Any) -> LanguageModel:
    """Return two layers of two heads with large random weights, so that no layer is without effect."""
    sizes = {"vocab_size": vocabulary, "model_dim": 16, "num_heads": 2, "feed_forward_dim": 24, "dropout": 0.0}
    config = build_config({"model": {**sizes, "decoder_layers": 2, "norm_placement": "pre", **changes}})
    model = build_language_model(config.model, "causal", 0).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    return model


def test_scores_are_those_of_the_published_formulas() -> None:
    tokens, generator = [7, 8, 9, 7, 8, 9, 5], np.random.default_rng(0)
    weights = np.tril(generator.random((3, 7, 7)))
    weights /= weights.sum(axis=2, keepdims=True)
    scores = detection_scores(weights, tokens)
    cells = {
        "previous": [(i, i - 1) for i in range(1, 7)],
        "duplicate": [(3, 0), (4, 1), (5, 2)],
        "induction": [(3, 1), (4, 2), (5, 3)],
    }
    for name, places in cells.items():
        for head in range(3):
            wanted = sum(weights[head, i, j] for i, j in places) / weights[head].sum()
            assert scores[name][head] == pytest.approx(wanted, abs=1e-12)


def test_a_head_that_does_one_thing_scores_one() -> None:
    tokens = [7, 8, 9, 7, 8, 9]
    previous = np.eye(6, k=-1)[None]
    np.testing.assert_allclose(detection_scores(previous, tokens)["previous"], 1.0)
    induction = np.zeros((1, 6, 6))
    for query, key in ((3, 1), (4, 2), (5, 3)):
        induction[0, query, key] = 1.0
    scores = detection_scores(induction, tokens)
    assert scores["induction"] == 1.0
    assert scores["duplicate"] == 0.0


def test_repeated_tokens_are_read_twice_and_are_no_marks() -> None:
    tokens = repeated_tokens(50, 10)
    assert torch.equal(tokens[:, :10], tokens[:, 10:])
    assert int(tokens.min()) >= 4


def test_every_head_of_a_model_is_scored() -> None:
    model = small_model()
    scores = head_scores(model, longest=16)
    assert list(scores) == [HeadName("decoder", layer, "self", head) for layer in (0, 1) for head in (0, 1)]
    assert all(0.0 <= value <= 1.0 for row in scores.values() for value in row.values())


def test_the_lens_of_the_last_layer_is_the_model() -> None:
    model = small_model()
    tokens = torch.tensor([5, 6, 7, 8])
    lens = logit_lens(model, tokens)
    assert lens.shape == (2, 4, 20)
    with torch.no_grad():
        logits = model(tokens[None])[0].log_softmax(-1)
        x = model.positions(model.embedding(tokens[None]))
        first = model.decoder.blocks[0](model.embedding_norm(x), torch.ones(4, 4).tril().bool())
        wanted = model.project(model.decoder.final_norm(first))[0].log_softmax(-1)
    torch.testing.assert_close(lens[1], logits, atol=1e-5, rtol=0)
    torch.testing.assert_close(lens[0], wanted, atol=1e-5, rtol=0)


@pytest.mark.parametrize("changes", [{}, {"norm": "rms"}, {"parallel_residual": True}, {"attention_bias": False}])
def test_what_parts_add_sums_to_the_logit(changes: dict[str, Any]) -> None:
    model = small_model(**changes)
    tokens = torch.tensor([5, 6, 7, 8, 9])
    parts_of_logit = attribution(model, tokens, answer=11)
    with torch.no_grad():
        logit = float(model(tokens[None])[0, -1, 11])
    total = (
        parts_of_logit.embedding + parts_of_logit.heads.sum() + parts_of_logit.feed_forwards.sum() + parts_of_logit.rest
    )
    assert parts_of_logit.heads.shape == (2, 2)
    assert parts_of_logit.logit == pytest.approx(logit, abs=1e-5)
    assert total == pytest.approx(logit, abs=1e-4)


def test_a_head_without_output_adds_nothing() -> None:
    model = small_model()
    with torch.no_grad():
        blocks: Any = model.decoder.blocks
        blocks[1].self_attention.out_projection.weight[:, 8:] = 0.0
    parts_of_logit = attribution(model, torch.tensor([5, 6, 7]), answer=3)
    assert parts_of_logit.heads[1, 1] == 0.0
    assert abs(parts_of_logit.heads[1, 0]) > 1e-4


def test_a_model_whose_norms_stand_after_the_sums_is_refused() -> None:
    with pytest.raises(UsageError, match="a logit of this model is not the sum of what its layers add"):
        attribution(small_model(norm_placement="post"), torch.tensor([5, 6]), answer=3)


def test_patching_by_hand() -> None:
    model = small_model()
    clean, other = torch.tensor([5, 6, 7, 8]), torch.tensor([5, 9, 7, 8])
    effects = patching(model, clean, other, (11, 12))
    assert effects.shape == (2, 4)
    mask = torch.ones(4, 4).tril().bool()

    def embedded(tokens: torch.Tensor) -> torch.Tensor:
        return model.embedding_norm(model.positions(model.embedding(tokens[None])))

    def difference(first: torch.Tensor, patch: torch.Tensor | None = None, position: int = 0) -> float:
        second = model.decoder.blocks[0](first, mask)
        if patch is not None:
            second[0, position] = patch[0, position]
        logits = model.project(model.decoder.final_norm(model.decoder.blocks[1](second, mask)))[0, -1]
        return float(logits[11] - logits[12])

    with torch.no_grad():
        x, y = embedded(clean), embedded(other)
        whole, nothing = difference(x), difference(y)
        after = model.decoder.blocks[0](x, mask)
        for position in range(4):
            first = y.clone()
            first[0, position] = x[0, position]
            wanted = [
                (value - nothing) / (whole - nothing) for value in (difference(first), difference(y, after, position))
            ]
            np.testing.assert_allclose(effects[:, position], wanted, atol=1e-4)
    # what differs at the input is the second token alone; an effect is in units of the difference between both texts
    rounding = 4 * float(np.finfo(np.float32).eps) / abs(whole - nothing)
    np.testing.assert_allclose(effects[0], [0, 1, 0, 0], atol=rounding)


def train_on_repetition(seed: int, updates: int) -> tuple[LanguageModel, list[tuple[int, float, float]]]:
    """Train two layers on random tokens that are read twice; return loss there and best induction score by update."""
    torch.manual_seed(seed)
    sizes = {"vocab_size": 32, "model_dim": 64, "num_heads": 4, "feed_forward_dim": 64, "dropout": 0.0}
    config = build_config({"model": {**sizes, "decoder_layers": 2, "norm_placement": "pre", "positions": "rotary"}})
    model = build_language_model(config.model, "causal", seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    history = []
    for update in range(1, updates + 1):
        half = torch.randint(4, 32, (32, 12))
        tokens = half.repeat(1, 2)
        loss = F.cross_entropy(model(tokens[:, :-1])[:, 12:].flatten(0, 1), tokens[:, 13:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if update % 25 == 0:
            model.eval()
            best = max(row["induction"] for row in head_scores(model, 24).values())
            model.train()
            history.append((update, loss.item(), best))
    return model.eval(), history


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(5))
def test_two_layers_that_read_everything_twice_grow_an_induction_head(seed: int) -> None:
    _, history = train_on_repetition(seed, 600)
    losses, scores = [loss for _, loss, _ in history], [score for *_, score in history]
    assert losses[-1] < 0.5 < 2.5 < losses[0]
    assert scores[-1] > 0.3
    # the head grows while the loss falls: at half of its rise the loss is between its beginning and its end
    half = next(index for index, score in enumerate(scores) if score >= (scores[0] + scores[-1]) / 2)
    fall = next(index for index, loss in enumerate(losses) if loss <= (losses[0] + losses[-1]) / 2)
    assert abs(half - fall) <= 4
