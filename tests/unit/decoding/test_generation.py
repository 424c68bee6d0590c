"""Writing on: cached or not, together or alone, within the context or beyond it, with every way of choosing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from dikkat.config import ModelConfig
from dikkat.models.factory import build_language_model
from dikkat.models.language_model import LanguageModel, Objective
from dikkat.torch_engine.stepper import penalized
from dikkat.torch_engine.strategies import candidates
from dikkat.torch_engine.texts import TorchLanguageModel
from dikkat_runtime.engine.options import GenerationOptions
from dikkat_runtime.engine.text_writer import TextWriter

GREEDY = GenerationOptions(temperature=0.0)
DRAWN = GenerationOptions(temperature=1.0, top_k=20, top_p=0.95, repetition_penalty=1.2, seed=5)


def model_of(positions: str = "rotary", objective: Objective = "causal") -> LanguageModel:
    config = ModelConfig.model_validate(
        {
            "vocab_size": 40, "model_dim": 16, "num_heads": 2, "feed_forward_dim": 32, "decoder_layers": 2,
            "max_positions": 12, "positions": positions, "tie_embeddings": False,
        }
    )  # fmt: skip
    return build_language_model(config, objective, seed=2).eval()


def written(
    model: LanguageModel, prompts: Tensor, count: int, options: GenerationOptions, **more: object
) -> list[list[int]]:
    generation = TextWriter(TorchLanguageModel(model), prompts.numpy(), 12, options, **more)  # type: ignore[arg-type]
    return [list(row) for row in zip(*(generation.step() for _ in range(count)), strict=True)]


@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "rotary", "alibi", "relative"])
@pytest.mark.parametrize("objective", ["causal", "prefix"])
def test_the_cache_changes_nothing_and_there_is_always_room(positions: str, objective: Objective) -> None:
    """Three contexts long, against reading all that is in sight anew for every token."""
    model = model_of(positions, objective)
    prompts = torch.randint(4, 40, (2, 5))
    result = written(model, prompts, 36, GREEDY)
    for row, prompt in zip(result, prompts.tolist(), strict=True):
        in_sight, read_at_once = list(prompt), 5
        for token in row:
            if len(in_sight) > 12:
                in_sight, read_at_once = in_sight[-6:], 6
            seen = torch.arange(len(in_sight))
            mask = (seen <= seen[:, None]) | (seen < (read_at_once if objective == "prefix" else 0))
            with torch.inference_mode():
                logits = model(torch.tensor([in_sight]), mask[None, None])[0, -1]
            assert token == int(logits.argmax())
            in_sight.append(token)
    assert len(set(result[0])) > 3


def test_neighbours_change_nothing() -> None:
    model = model_of()
    prompts = torch.randint(4, 40, (4, 5))
    together = written(model, prompts, 30, DRAWN, numbers=[0, 1, 2, 3])
    for index in range(4):
        assert written(model, prompts[[index]], 30, DRAWN, numbers=[index]) == [together[index]]
    assert written(model, prompts[[0]], 30, DRAWN, numbers=[1]) != [together[0]]


def test_rows_leave_and_the_others_go_on() -> None:
    model = model_of()
    prompts = torch.randint(4, 40, (3, 5))
    whole = written(model, prompts, 20, DRAWN, numbers=[0, 1, 2])
    generation = TextWriter(TorchLanguageModel(model), prompts.numpy(), 12, DRAWN, numbers=[0, 1, 2])
    first = [generation.step() for _ in range(6)]
    generation.keep([2, 0])
    rest = [generation.step() for _ in range(14)]
    assert [row[2] for row in first] + [row[0] for row in rest] == whole[2]
    assert [row[0] for row in first] + [row[1] for row in rest] == whole[0]


def test_forbidden_tokens_are_never_written() -> None:
    model = model_of()
    prompts = torch.randint(4, 40, (8, 5))
    flat = GenerationOptions(temperature=50.0)
    free = {token for row in written(model, prompts, 40, flat, numbers=range(8)) for token in row}
    bound = {token for row in written(model, prompts, 40, flat, numbers=range(8), forbidden=[3, 7]) for token in row}
    assert {3, 7} <= free
    assert not {3, 7} & bound


def test_a_prompt_must_fit() -> None:
    for length in (0, 13):
        with pytest.raises(ValueError, match=f"1 to 12 tokens, but has {length}"):
            TextWriter(TorchLanguageModel(model_of()), np.zeros((1, length), np.int64), 12, GREEDY)


def test_repetition_penalty_is_ctrls_formula() -> None:
    logits = torch.tensor([[2.0, -2.0, 1.0, -1.0, 0.0]])
    result = penalized(logits, torch.tensor([[0, 1, 1, 4]]), 2.0)
    assert result.tolist() == [[1.0, -4.0, 1.0, -1.0, 0.0]]


@pytest.mark.parametrize("min_p", [0.05, 0.3, 1.0])
def test_min_p_keeps_what_reaches_a_share_of_the_best(min_p: float) -> None:
    logits = torch.randn(3, 50) * 2
    probabilities, ids = candidates(logits, GenerationOptions(temperature=1.0, min_p=min_p))
    wanted = np.exp(logits.double().numpy())
    wanted /= wanted.sum(axis=1, keepdims=True)
    wanted[wanted < min_p * wanted.max(axis=1, keepdims=True)] = 0.0
    assert (ids == torch.arange(50)).all()
    np.testing.assert_allclose(probabilities.numpy(), wanted, atol=1e-6)
