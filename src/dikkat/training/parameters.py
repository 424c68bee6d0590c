"""All parameters of a model as one float32 vector, with a copy in the type of the matrix products.

The optimizer works on the vector; the model computes with the copy, which is cast once a step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True)
class Span:
    """Where one parameter lies in the vector."""

    name: str
    start: int
    shape: torch.Size

    @property
    def end(self) -> int:
        return self.start + self.shape.numel()

    def of(self, vector: Tensor) -> Tensor:
        """The parameter's view of `vector`."""
        return vector[self.start : self.end].view(self.shape)


class FlatParameters:
    """Float32 master weights of `model` and the views through which it computes.

    Matrices come first, grouped by shape, so that an optimizer may treat all of one shape as one batch; embeddings and
    vectors follow. Afterwards the parameters of `model` are views of `self.working` in `dtype`.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype = torch.float32) -> None:
        self.model = model
        named = sorted(model.named_parameters(), key=lambda item: _rank(*item))
        self.spans: list[Span] = []
        start = 0
        for name, parameter in named:
            self.spans.append(Span(name, start, parameter.shape))
            start = self.spans[-1].end
        device = named[0][1].device
        self.master = torch.cat([parameter.detach().float().reshape(-1) for _, parameter in named])
        self.working = self.master if dtype == torch.float32 else self.master.to(dtype)
        self.gradient = torch.zeros(start, dtype=dtype, device=device)
        for (_, parameter), span in zip(named, self.spans, strict=True):
            parameter.data = span.of(self.working)
            parameter.grad = span.of(self.gradient)

    def refresh(self) -> None:
        """Cast the master weights into the copy that the model computes with."""
        if self.working is not self.master:
            self.working.copy_(self.master)

    def zero_gradient(self) -> None:
        self.gradient.zero_()

    def named(self, vector: Tensor) -> dict[str, Tensor]:
        """A vector of this layout cut into named tensors that own their memory."""
        return {span.name: span.of(vector).clone() for span in self.spans}

    def fill(self, vector: Tensor, tensors: dict[str, Tensor]) -> None:
        """Copy named tensors into a vector of this layout. Raises `RuntimeError` naming the first that does not fit."""
        wanted = {span.name: tuple(span.shape) for span in self.spans}
        if extra := tensors.keys() - wanted.keys():
            raise RuntimeError(f"no parameter is called {min(extra)}")
        for name, shape in wanted.items():
            if name not in tensors:
                raise RuntimeError(f"parameter {name} is missing")
            # checked here, since copying would stretch a smaller tensor without a word
            if tuple(tensors[name].shape) != shape:
                raise RuntimeError(f"parameter {name} has the shape {tuple(tensors[name].shape)}, not {shape}")
        for span in self.spans:
            span.of(vector).copy_(tensors[span.name])

    def matrix_groups(self) -> list[tuple[int, int, torch.Size]]:
        """Runs of equal matrices: first entry, number of matrices, shape; embeddings are not among them."""
        groups: list[tuple[int, int, torch.Size]] = []
        for span in self.spans:
            if not _is_matrix(span.name, span.shape):
                continue
            if groups and groups[-1][2] == span.shape:
                start, count, shape = groups.pop()
                groups.append((start, count + 1, shape))
            else:
                groups.append((span.start, 1, span.shape))
        return groups


def _is_matrix(name: str, shape: torch.Size) -> bool:
    return len(shape) == 2 and "embedding" not in name and not name.startswith("output")


def _rank(name: str, parameter: Tensor) -> tuple[int, tuple[int, ...]]:
    kind = 0 if _is_matrix(name, parameter.shape) else 3 - parameter.dim()
    return kind, tuple(parameter.shape)
