"""Train low-rank updates of matrices that are already good (LoRA, Hu et al. 2022) in place of the matrices."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor, nn

from dikkat.config import TrainingConfig
from dikkat.training.parameters import FlatParameters, Span

SCALE = 2.0
"""Factor of the product of the two factors, which begins at zero."""
_NEW = ("output.", "transform.", "pooling.")
"""Beginnings of the names of parts of a classifier that another model does not have: they are trained whole."""


class LowRankParameters(FlatParameters):
    """The vector of two factors for each matrix of the blocks, and of the parts that are new; all else stays.

    The model computes with whole matrices `W + SCALE * up down`, and its whole gradient is projected on the factors
    `up` (E, R) and `down` (R, D), so that no layer knows of them. The file of the best weights holds whole matrices.
    """

    def __init__(self, model: nn.Module, rank: int, seed: int, dtype: torch.dtype = torch.float32) -> None:
        self.model, self._whole = model, FlatParameters(model, dtype)
        self.size = self._whole.size
        working, master = self._whole.working, self._whole.master
        self._base = master.clone() if working is master else master
        self._factored = [span for span in self._whole.spans if span.rows and ".blocks." in span.name]
        self._new = [span for span in self._whole.spans if span.name.startswith(_NEW)]
        generator, parts = torch.Generator().manual_seed(seed), list[Tensor]()
        self.spans, start = [], 0
        for span in self._factored:
            outputs, inputs = span.shape
            down = torch.randn(rank, inputs, generator=generator) * inputs**-0.5
            for part, factor in (("up", torch.zeros(outputs, rank)), ("down", down)):
                self.spans.append(Span(f"{span.name}.{part}", start, factor.shape, ()))
                parts.append(factor.flatten().to(master.device))
                start = self.spans[-1].end
        for span in self._new:
            self.spans.append(replace(span, start=start, rows=()))
            parts.append(span.of(master).flatten())
            start = self.spans[-1].end
        self.master = self.working = torch.cat(parts)
        self.gradient = torch.zeros_like(self.master)

    @contextmanager
    def collect_gradients(self) -> Iterator[None]:
        """Collect in `gradient` what flows back to the factors while the body runs."""
        self._write(self.master, self._whole.working)
        with self._whole.collect_gradients():
            yield
        for span, (up, down), (of_up, of_down) in self._factors(self.gradient):
            flown = span.of(self._whole.gradient).float()
            torch.mul(flown @ down.T, SCALE, out=of_up)
            torch.mul(up.T @ flown, SCALE, out=of_down)
        for span, own in zip(self._new, self.spans[2 * len(self._factored) :], strict=True):
            own.of(self.gradient).copy_(span.of(self._whole.gradient))

    @contextmanager
    def swapped(self, vector: Tensor, dtype: torch.dtype) -> Iterator[None]:
        """Let the model compute with the factors in `vector` while the body runs."""
        with self._whole.swapped(self._filled(vector), dtype):
            yield

    def whole(self, vector: Tensor) -> dict[str, Tensor]:
        """Return all parameters of the model by name, with the factors in `vector` multiplied and added."""
        return self._whole.whole(self._filled(vector))

    def _filled(self, vector: Tensor) -> Tensor:
        filled = self._base.clone()
        self._write(vector, filled)
        return filled

    def _write(self, vector: Tensor, whole: Tensor) -> None:
        for span, (up, down), _ in self._factors(vector, of=vector):
            span.of(whole).copy_(torch.addmm(span.of(self._base), up, down, alpha=SCALE))
        for span, own in zip(self._new, self.spans[2 * len(self._factored) :], strict=True):
            span.of(whole).copy_(own.of(vector))

    def _factors(
        self, other: Tensor, of: Tensor | None = None
    ) -> Iterator[tuple[Span, Sequence[Tensor], Sequence[Tensor]]]:
        """Yield each matrix with its factors in the vector `of`, by default the master's, and in another one."""
        vector = self.master if of is None else of
        for number, span in enumerate(self._factored):
            pair = self.spans[2 * number : 2 * number + 2]
            yield span, [one.of(vector) for one in pair], [one.of(other) for one in pair]


def trained_parameters(model: nn.Module, config: TrainingConfig, dtype: torch.dtype) -> FlatParameters:
    """Return the parameters of `model` that are trained: all, or low-rank updates of the matrices."""
    if config.low_rank:
        return LowRankParameters(model, config.low_rank, config.seed, dtype)
    return FlatParameters(model, dtype)
