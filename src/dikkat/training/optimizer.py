"""Optimizers over the flat parameter vector: AdamW, and Muon for the matrices."""

import ctypes
from collections.abc import Iterator
from ctypes import c_double, c_float, c_int64, c_void_p

import torch
from jaxtyping import Float
from torch import Tensor

from dikkat.config import TrainingConfig
from dikkat.kernels.adamw import Step, Weights, adamw, norm
from dikkat.kernels.calls import address, check_status, is_float32, native_library, runs_native
from dikkat.kernels.processor import has_fast_bfloat16, has_fast_int8
from dikkat.training.distributed.ranks import ONE_PROCESS, Ranks
from dikkat.training.distributed.shares import groups_within, shares_of
from dikkat.training.parameters import FlatParameters

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of x, (x x^T) x and (x x^T)^2 x (Jordan et al. 2024)."""
STEPS = 5
MOMENTUM = 0.95


def orthogonalize(matrices: Float[Tensor, "N A B"]) -> Float[Tensor, "N A B"]:
    """Bring the singular values of every matrix into about [0.7, 1.2], by five steps (Jordan et al. 2024).

    Products are in eight bits with exact diagonals where the processor is fast at that: 1 to 3 % of the norm away
    from exact ones. Else they are in bfloat16 where it is fast, as on a GPU, 1 to 17 % away, the more the quicker
    singular values fall; else in float32.
    """
    if not (has_fast_int8() and runs_native(matrices)):
        is_fast = matrices.device.type != "cpu" or has_fast_bfloat16()
        return orthogonalize_reference(matrices, torch.bfloat16 if is_fast else torch.float32)
    output = matrices.to(torch.float32, copy=True, memory_format=torch.contiguous_format)
    check_status(native_library().orthogonalize(address(output), *output.shape, torch.get_num_threads()))
    return output.to(matrices.dtype)


def orthogonalize_reference(matrices: Float[Tensor, "N A B"], dtype: torch.dtype) -> Float[Tensor, "N A B"]:
    """Compute the published iteration with products in `dtype`; wide matrices have the smaller Gram matrix."""
    a, b, c = COEFFICIENTS
    is_tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if is_tall else matrices
    x = (x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)).to(dtype)
    for _ in range(STEPS):
        gram = x @ x.mT
        # a x + (b gram + c gram^2) x
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if is_tall else x).to(matrices.dtype)


class _Muon(ctypes.Structure):
    """`Muon` of orthogonal.c."""

    _fields_ = (
        *((name, c_void_p) for name in ("weights", "momentum", "average", "copy", "gradient", "shapes")),
        *((name, c_int64) for name in ("groups", "entries")),
        ("learning_rate", c_double),
        *((name, c_float) for name in ("kept", "fresh", "divisor")),
        *((name, c_int64) for name in ("is_float32", "threads")),
    )


def muon(weights: Weights, momentum: Tensor, shapes: Tensor, gradient: Tensor, count: int, step: Step) -> None:
    """Update matrices, of `shapes` (groups, 3) one after the other in vectors, by their gradient over `count`.

    Their direction does not depend on the gradient's scale: nothing is clipped. Average and copy follow the weights.
    """
    kept = 1.0 - step.learning_rate * step.weight_decay
    if has_fast_int8() and runs_native(weights.master, momentum, weights.average) and runs_native(gradient):
        vectors = map(address, (weights.master, momentum, weights.average, weights.copy, gradient, shapes))
        numbers = len(shapes), len(gradient), step.learning_rate, kept, step.fresh, count
        job = _Muon(*vectors, *numbers, is_float32(gradient), torch.get_num_threads())
        check_status(native_library().muon(ctypes.byref(job)))
        return
    gradient = gradient.float() / count
    # Nesterov's look-ahead
    directions = gradient.add(momentum.mul_(MOMENTUM).add_(gradient), alpha=MOMENTUM)
    weights.master.mul_(kept)
    sizes = shapes.prod(dim=1).tolist()
    for shape, *parts in zip(shapes.tolist(), weights.master.split(sizes), directions.split(sizes), strict=True):
        # scaled so that an update has the root mean square of AdamW's (Liu et al. 2025, section 2.2)
        scale = 0.2 * max(shape[1:]) ** 0.5
        own, direction = (part.view(shape) for part in parts)
        own.add_(orthogonalize(direction), alpha=-step.learning_rate * scale)
    weights.update_ema(step.fresh)


class Optimizer:
    """Updates all parameters, their average and the copy that the model computes with.

    AdamW (Loshchilov and Hutter 2019) on every entry, or with `config.optimizer == "muon"` momentum orthogonalised by
    Newton-Schulz iterations (Jordan et al. 2024) on the matrices and AdamW on embeddings and vectors. Each of several
    `ranks` updates its share of the entries and holds state and average of these alone, as ZeRO-1 does (Rajbhandari et
    al. 2020), and they send each other the weights.
    """

    def __init__(self, parameters: FlatParameters, config: TrainingConfig, ranks: Ranks = ONE_PROCESS) -> None:
        self.parameters = parameters
        self._ranks = ranks
        self.config = config
        self.groups = parameters.matrix_groups() if config.optimizer == "muon" else []
        self._matrices = sum(count * shape.numel() for _, count, shape in self.groups)
        self._shares = shares_of(self.groups, parameters.master.numel(), ranks.count)
        self._own = own = self._shares[ranks.index]
        self._own_shapes = torch.tensor(
            [(count, *shape) for _, count, shape in groups_within(self.groups, own.matrices)]
        )
        device = parameters.master.device
        matrices, rest = own.matrices.stop - own.matrices.start, own.rest.stop - own.rest.start
        self.average = own.of(parameters.master) if config.average == "ema" else None
        """The average of this rank's share of the weights, one stretch after the other."""
        self.momentum = torch.zeros(matrices, device=device)
        self.first = torch.zeros(rest, device=device)
        self.second = torch.zeros(rest, device=device)
        self.loaded: dict[str, Tensor] = {}
        """The whole vectors that the first of several ranks has loaded, until `adopt`."""
        average = (None, None) if self.average is None else (self.average[:matrices], self.average[matrices:])
        self._weights_of_matrices = self._weights(own.matrices, average[0])
        self._weights_of_rest = self._weights(own.rest, average[1])

    def _weights(self, span: slice, average: Tensor | None) -> Weights:
        parameters = self.parameters
        copy = None if parameters.working is parameters.master else parameters.working[span]
        return Weights(parameters.master[span], average, copy)

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

    def evaluated_weights(self) -> Tensor:
        """Return the weights (N,) that are validated and kept: their average, or the last ones; asked by all ranks."""
        if self.average is None:
            return self.parameters.master
        if self._ranks.count == 1:
            return self.average
        whole = torch.empty_like(self.parameters.master)
        matrices = self.momentum.numel()
        whole[self._own.matrices], whole[self._own.rest] = self.average[:matrices], self.average[matrices:]
        self._ranks.complete(whole, self._spans)
        return whole

    def is_finite(self) -> bool:
        """Tell whether all weights and their averages are finite; asked by all ranks."""
        vectors = [self.parameters.master, *(() if self.average is None else (self.average,))]
        return not self._ranks.sum_count(sum(not vector.isfinite().all() for vector in vectors))

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that an exact continuation needs: of several ranks, this one's share of them."""
        vectors = {"momentum": self.momentum, "first": self.first, "second": self.second}
        return vectors if self.average is None else {**vectors, "average": self.average}

    @property
    def sizes(self) -> dict[str, int]:
        """Numbers of entries of the whole vectors of `state`, of all ranks together."""
        return {name: max(span.stop for own in self._spans_of(name) for span in own) for name in self.state()}

    def collect(self, name: str) -> Iterator[Tensor]:
        """Yield a whole vector of the state piece by piece on the first rank; all go through it to the end."""
        return self._ranks.collect(self.state()[name], self._spans_of(name))

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Take the whole vectors of a state; several ranks then `adopt` what the first one has taken.

        Raises `KeyError` or `RuntimeError` for the state of another model.
        """
        for name, size in self.sizes.items():
            # copy_ would broadcast a smaller tensor
            if tuple(state[name].shape) != (size,):
                raise RuntimeError(f"{name} has the shape {tuple(state[name].shape)}, not {(size,)}")
        if self._ranks.count > 1:
            self.loaded = {name: state[name] for name in self.sizes}
            return
        for name, tensor in self.state().items():
            tensor.copy_(state[name])

    def adopt(self) -> None:
        """Take this rank's share of what the first one has loaded, or begin with the weights where that is nothing."""
        if self._ranks.count == 1:
            return
        (is_loaded,) = self._ranks.share([float(bool(self.loaded))])
        for name, tensor in self.state().items():
            if is_loaded:
                self._ranks.deal(self.loaded.get(name), tensor, self._spans_of(name))
            elif name == "average":
                tensor.copy_(self._own.of(self.parameters.master))
        self.loaded = {}

    @property
    def _spans(self) -> list[list[slice]]:
        return [[share.matrices, share.rest] for share in self._shares]

    def _spans_of(self, name: str) -> list[list[slice]]:
        """Return which entries of a whole vector of the state each rank keeps."""
        if name == "average":
            return self._spans
        if name == "momentum":
            return [[share.matrices] for share in self._shares]
        begin = self._matrices
        return [[slice(share.rest.start - begin, share.rest.stop - begin)] for share in self._shares]

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
        step = Step(update, rate * config.learning_rate, config.beta1, config.beta2, config.weight_decay, fresh)
        if len(self._own_shapes):
            own = step._replace(learning_rate=rate * config.matrix_learning_rate)
            muon(self._weights_of_matrices, self.momentum, self._own_shapes, gradient[self._own.matrices], count, own)
        if self.first.numel():
            divisor = (length / config.clip_norm).clamp_(min=1.0) * count
            adamw(self._weights_of_rest, self.first, self.second, gradient[self._own.rest], divisor, step)
        if self._ranks.count > 1:
            self._ranks.complete(self.parameters.master, self._spans)
            self.parameters.refresh()


def learning_rate(progress: float, updates: int, warmup_updates: int, final: float) -> float:
    """Return the share of the peak rate: a linear rise, then a linear fall to `final` at the end of the run.

    The rise ends after `warmup_updates` or a tenth of the run, whichever comes first. `progress` is the share of the
    run that is done, `updates` its number of updates so far.
    """
    rise = 1.0 if warmup_updates == 0 else max((updates + 1) / warmup_updates, progress / 0.1)
    return min(1.0, rise) * (final + (1.0 - final) * (1.0 - progress))
