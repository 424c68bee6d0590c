"""Optimizers over the flat parameter vector: AdamW, and Muon for the matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from dikkat.config import TrainingConfig
from dikkat.native.orthogonal import orthogonalized
from dikkat.training.parameters import FlatParameters


class Optimizer:
    """One update of all parameters, gradient clipping in the same pass.

    AdamW (Loshchilov and Hutter 2019) on every entry, or with `config.optimizer == "muon"` momentum orthogonalised by
    Newton-Schulz iterations (Jordan et al. 2024) on the matrices and AdamW on embeddings and vectors.
    """

    def __init__(self, parameters: FlatParameters, config: TrainingConfig) -> None:
        self.parameters = parameters
        self.config = config
        self.groups = parameters.matrix_groups() if config.optimizer == "muon" else []
        matrices = sum(count * shape.numel() for _, count, shape in self.groups)
        size = parameters.master.numel()
        device = parameters.master.device
        self.rest = slice(matrices, size)
        self.momentum = torch.zeros(matrices, device=device)
        self.first = torch.zeros(size - matrices, device=device)
        self.second = torch.zeros(size - matrices, device=device)

    def step(self, gradient: Tensor, update: int, rate: float) -> Tensor:
        """Update number `update` (from 1) with a float32 `gradient`; `rate` is the schedule's share of the peak.

        Returns the norm of the gradient before clipping, (); a norm that is not finite leaves everything as it was.
        A GPU is not asked for it on the way, so that nobody waits.
        """
        norm = gradient.norm()
        if norm.device.type != "cpu":
            self.move_if_finite(gradient, update, rate, norm)
        elif norm.isfinite():  # a processor has the answer at once
            self._move(gradient, update, rate, norm)
        return norm

    def state(self) -> dict[str, Tensor]:
        """Tensors to save for an exact continuation."""
        return {"momentum": self.momentum, "first": self.first, "second": self.second}

    def load_state(self, state: dict[str, Tensor]) -> None:
        for name, tensor in self.state().items():
            tensor.copy_(state[name])

    def move_if_finite(self, gradient: Tensor, update: int, rate: float, norm: Tensor) -> None:
        """As `_move`, and taken back without a look at the norm where it is not finite."""
        vectors = [self.parameters.master, *self.state().values()]
        before = [vector.clone() for vector in vectors]
        self._move(gradient, update, rate, norm)
        for vector, old in zip(vectors, before, strict=True):
            torch.where(norm.isfinite(), vector, old, out=vector)
        self.parameters.refresh()

    def _move(self, gradient: Tensor, update: int, rate: float, norm: Tensor) -> None:
        excess = (norm / self.config.clip_norm).clamp_(min=1.0)
        self._adamw(gradient[self.rest], update, rate * self.config.learning_rate, excess)
        if self.groups:
            self._muon(gradient, rate * self.config.matrix_learning_rate)
        self.parameters.refresh()

    def _adamw(self, gradient: Tensor, update: int, learning_rate: float, excess: Tensor) -> None:
        torch._fused_adamw_(
            [self.parameters.master[self.rest]],
            [gradient],
            [self.first],
            [self.second],
            [],
            [torch.full_like(excess, update)],
            lr=learning_rate,
            beta1=self.config.beta1,
            beta2=self.config.beta2,
            weight_decay=self.config.weight_decay,
            eps=1e-9,
            amsgrad=False,
            maximize=False,
            grad_scale=excess,
        )

    def _muon(self, gradient: Tensor, learning_rate: float) -> None:
        """The direction does not depend on the scale of the gradient, so clipping has nothing to do here."""
        for start, count, shape in self.groups:
            span = slice(start, start + count * shape.numel())
            batch = (count, *shape)
            momentum = self.momentum[span].mul_(0.95).add_(gradient[span])
            # Nesterov's look-ahead
            direction = gradient[span].add(momentum, alpha=0.95).view(batch)
            weights = self.parameters.master[span].view(batch)
            # scaled so that an update has the root mean square of AdamW's (Liu et al. 2025, section 2.2)
            scale = 0.2 * max(shape) ** 0.5
            weights.mul_(1.0 - learning_rate * self.config.weight_decay)
            weights.add_(orthogonalized(direction), alpha=-learning_rate * scale)
