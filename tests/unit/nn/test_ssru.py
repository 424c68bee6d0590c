"""The simpler simple recurrent unit: its formula in float64, and single steps that give the same."""

from __future__ import annotations

import numpy as np
import torch

from dikkat.config import ModelConfig
from dikkat.models.factory import build_model
from dikkat.nn.blocks import SSRU
from dikkat.nn.cache import SelfAttentionCache


def formula(unit: SSRU, x: torch.Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Kim et al. 2019, section 3.1, one position after the other."""
    content, forget, bias = (
        tensor.detach().double().numpy() for tensor in (unit.content.weight, unit.forget.weight, unit.forget.bias)
    )
    values, state, outputs = x.double().numpy(), np.zeros((x.shape[0], x.shape[2])), []
    for position in range(x.shape[1]):
        gate = 1 / (1 + np.exp(-(values[:, position] @ forget.T + bias)))
        state = gate * state + (1 - gate) * (values[:, position] @ content.T)
        outputs.append(np.maximum(state, 0))
    return np.stack(outputs, axis=1)


def test_all_positions_follow_the_formula() -> None:
    unit, x = SSRU(12), torch.randn(3, 9, 12)
    np.testing.assert_allclose(unit(x).detach().numpy(), formula(unit, x), rtol=0, atol=1e-6)


def test_single_steps_give_the_same_and_rows_can_change_places() -> None:
    unit, x, cache = SSRU(12), torch.randn(3, 9, 12), SelfAttentionCache()
    order = torch.tensor([2, 0, 1])
    first = [unit.step(x[:, t : t + 1], cache) for t in range(4)]
    cache.reorder(order)
    rest = [unit.step(x[order][:, t : t + 1], cache) for t in range(4, 9)]
    whole = unit(x)
    torch.testing.assert_close(torch.cat(first, dim=1), whole[:, :4])
    torch.testing.assert_close(torch.cat(rest, dim=1), whole[order][:, 4:])


def test_a_translator_with_it_steps_as_it_reads() -> None:
    config = ModelConfig(vocab_size=20, model_dim=16, num_heads=2, feed_forward_dim=24, decoder_memory="ssru")
    model = build_model(config, 1).eval()
    source, target = torch.randint(4, 20, (2, 5)), torch.randint(4, 20, (2, 6))
    mask = torch.ones_like(source, dtype=torch.bool)
    cache = model.start_cache(model.encode(source, mask), mask)
    steps = torch.stack([model.step(target[:, t], cache) for t in range(6)], dim=1)
    torch.testing.assert_close(steps, model(source, target, mask), rtol=0, atol=1e-5)
