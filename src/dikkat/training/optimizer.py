"""Optimizers over the flat parameter vector: AdamW, and Muon for the matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from dikkat.config import TrainingConfig
from dikkat.kernels.adamw import Step, Weights, adamw, norm
from dikkat.training.distributed.ranks import ONE_PROCESS, Ranks
from dikkat.training.parameters import FlatParameters


class Optimizer:
    """Updates all parameters, their average and the copy that the model computes with.

    AdamW (Loshchilov and Hutter 2019) on every entry, or with `config.optimizer == "muon"` momentum orthogonalised by
    Newton-Schulz iterations (Jordan et al. 2024) on the matrices and AdamW on embeddings and vectors.
    """

    def __init__(self, parameters: FlatParameters, config: TrainingConfig, ranks: Ranks = ONE_PROCESS) -> None:
        self.parameters = parameters
        self._ranks = ranks
        self.config = config
        self.groups = parameters.matrix_groups() if config.optimizer == "muon" else []
        self.average = parameters.master.clone() if config.average == "ema" else None
        matrices = sum(count * shape.numel() for _, count, shape in self.groups)
        size = parameters.master.numel()
        device = parameters.master.device
        self.momentum = torch.zeros(matrices, device=device)
        self.first = torch.zeros(size - matrices, device=device)
        self.second = torch.zeros(size - matrices, device=device)
        copy = None if parameters.working is parameters.master else parameters.working
        weights = Weights(parameters.master, self.average, copy)
        self._matrices, self._rest = slice(0, matrices), slice(matrices, size)
        self._weights_of_matrices, self._weights_of_rest = weights.part(self._matrices), weights.part(self._rest)

    def step(self, gradient: Tensor, update: int, rate: float, count: int = 1) -> Tensor:
        """Make update number `update` (from 1); `rate` is the schedule's share of the peak.

        The gradient is a sum over `count` predictions, in float32 or the type of the products, and is used up. Returns
        the norm of the mean before clipping, (); a norm that is not finite leaves everything as it was. A GPU is not
        asked for it on the way, so that nobody waits.
        """
        length = norm(gradient) / count
        if length.device.type != "cpu":
            self.update_if_finite(gradient, update, rate, length, count)
        elif length.isfinite():  # a processor has the answer at once
            self._update(gradient, update, rate, length, count)
        return length

    @property
    def evaluated_weights(self) -> Tensor:
        """The weights that are validated and kept: their average, or the last ones."""
        return self.parameters.master if self.average is None else self.average

    def is_finite(self) -> bool:
        """Tell whether all weights and their averages are finite."""
        return bool(self.parameters.master.isfinite().all()) and bool(self.evaluated_weights.isfinite().all())

    def state(self) -> dict[str, Tensor]:
        """Return the tensors to save for an exact continuation."""
        vectors = {"momentum": self.momentum, "first": self.first, "second": self.second}
        return vectors if self.average is None else {**vectors, "average": self.average}

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Copy what `state` returned. Raises `KeyError` or `RuntimeError` for the state of another model."""
        for name, tensor in self.state().items():
            # copy_ would broadcast a smaller tensor
            if state[name].shape != tensor.shape:
                raise RuntimeError(f"{name} has the shape {tuple(state[name].shape)}, not {tuple(tensor.shape)}")
            tensor.copy_(state[name])

    def update_if_finite(self, gradient: Tensor, update: int, rate: float, length: Tensor, count: int = 1) -> None:
        """Update as `_update` does, and take it back where the norm is not finite, without asking the device."""
        vectors = [self.parameters.master, *self.state().values()]
        before = [vector.clone() for vector in vectors]
        self._update(gradient, update, rate, length, count)
        for vector, old in zip(vectors, before, strict=True):
            torch.where(length.isfinite(), vector, old, out=vector)
        self.parameters.refresh()

    def _update(self, gradient: Tensor, update: int, rate: float, length: Tensor, count: int) -> None:
        config = self.config
        # young averages forget faster, so that the first weights do not linger (as in Tensorflow's num_updates)
        fresh = 1.0 - min(config.ema_decay, (1 + update) / (10 + update))
        if self.groups:
            self._muon(gradient[self._matrices].float() / count, rate * config.matrix_learning_rate)
            self._weights_of_matrices.update_ema(fresh)
        step = Step(update, rate * config.learning_rate, config.beta1, config.beta2, config.weight_decay, fresh)
        divisor = (length / config.clip_norm).clamp_(min=1.0) * count
        adamw(self._weights_of_rest, self.first, self.second, gradient[self._rest], divisor, step)

    def _muon(self, gradient: Tensor, learning_rate: float) -> None:
        """Update the matrices; the direction does not depend on the scale of the gradient, so nothing is clipped."""
        directions = (self._direction(gradient, *group) for group in self.groups)
        for group, direction in zip(self.groups, self._ranks.orthogonalize(directions), strict=True):
            start, count, shape = group
            weights = self.parameters.master[start : start + count * shape.numel()].view(count, *shape)
            # scaled so that an update has the root mean square of AdamW's (Liu et al. 2025, section 2.2)
            scale = 0.2 * max(shape) ** 0.5
            weights.mul_(1.0 - learning_rate * self.config.weight_decay)
            weights.add_(direction, alpha=-learning_rate * scale)

    def _direction(self, gradient: Tensor, start: int, count: int, shape: torch.Size) -> Tensor:
        """Add the gradient to the momentum of a group of matrices; returns Nesterov's look-ahead (N, A, B)."""
        span = slice(start, start + count * shape.numel())
        momentum = self.momentum[span].mul_(0.95).add_(gradient[span])
        return gradient[span].add(momentum, alpha=0.95).view(count, *shape)
