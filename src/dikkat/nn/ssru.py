"""The simpler simple recurrent unit: a decoder's memory of what it has written, in one vector instead of attention."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dikkat.nn.cache import SelfAttentionCache, StaticState
from dikkat.nn.linear import Linear


class SSRU(nn.Module):
    """Compute `relu(c_t)` with `c_t = f_t c_(t-1) + (1 - f_t) W x_t` and `f_t = sigmoid(W_f x_t + b_f)`.

    This is the unit of Kim et al. 2019, "From Research to Production and Back", section 3.1; `c_0` is zero.
    """

    def __init__(self, model_dim: int) -> None:
        super().__init__()
        self.content = Linear(model_dim, model_dim, bias=False)
        self.forget = Linear(model_dim, model_dim)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Compute all positions, each from itself and those before it."""
        forget, fresh = self._gates(x)
        state = torch.zeros_like(x[:, 0])
        states = []
        for position in range(x.shape[1]):
            state = forget[:, position] * state + fresh[:, position]
            states.append(state)
        return torch.stack(states, dim=1).relu()

    def step(self, x: Float[Tensor, "R 1 D"], cache: SelfAttentionCache | StaticState) -> Float[Tensor, "R 1 D"]:
        """Compute one more position; the cache keeps the state of each, so that search may go back to any."""
        forget, fresh = self._gates(x)
        state = fresh if cache.length == 0 else forget * cache.newest()[:, 0] + fresh
        # (R, 1, D) -> (R, 1, 1, D): one head, whose keys are the states, without values
        cache.append(state[:, None], state[:, None, :, :0])
        return state.relu()

    def _gates(self, x: Tensor) -> tuple[Tensor, Tensor]:
        forget = torch.sigmoid(self.forget(x))
        return forget, (1 - forget) * self.content(x)
