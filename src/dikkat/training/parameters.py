"""All parameters of a model as one float32 vector, with a copy in the type of the matrix products.

The optimizer works on the vector; the model computes with the copy, which is cast once a step.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dikkat.kernels.gradient_buffer import attach_buffer
from dikkat.nn.layers import TokenEmbedding
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat_runtime.errors import msg


@dataclass(frozen=True, slots=True)
class Span:
    """The position of one parameter in the vector."""

    name: str
    start: int
    shape: torch.Size
    rows: tuple[int, ...]
    """Rows of the matrices that lie in it one below the other; empty for an embedding or a vector."""

    @property
    def end(self) -> int:
        """Index of the entry after the last."""
        return self.start + self.shape.numel()

    def of(self, vector: Tensor) -> Tensor:
        """Return the parameter's view of `vector`."""
        return vector[self.start : self.end].view(self.shape)


class FlatParameters:
    """Float32 master weights of `model` and the views through which it computes.

    Matrices come first, grouped by shape, so that an optimizer may treat all of one shape as one batch; embeddings and
    vectors follow. Afterwards the parameters of `model` are views of `self.working` in `dtype`; those that ask for no
    gradient stay as they are, beside the vector.
    """

    def __init__(self, model: nn.Module, dtype: torch.dtype = torch.float32) -> None:
        self.model = model
        rows, every = _rows_of_matrices(model), dict(model.named_parameters())
        self._still = {name: (part, part.detach().float()) for name, part in every.items() if not part.requires_grad}
        trained = ((name, part) for name, part in every.items() if part.requires_grad)
        named = sorted(trained, key=lambda item: _rank(item[1], rows.get(item[0], ())))
        self.spans: list[Span] = []
        start = 0
        for name, parameter in named:
            self.spans.append(Span(name, start, parameter.shape, rows.get(name, ())))
            start = self.spans[-1].end
        device = named[0][1].device
        self.master = torch.cat([parameter.detach().float().reshape(-1) for _, parameter in named])
        self.working = self.master if dtype == torch.float32 else self.master.to(dtype)
        self.gradient = torch.zeros(start, dtype=dtype, device=device)
        self.size = start + sum(exact.numel() for _, exact in self._still.values())
        """Entries of all parameters of the model."""
        self._parameters = [parameter for _, parameter in named]
        self._buffers = [
            attach_buffer(parameter, span.of(self.gradient))
            for parameter, span in zip(self._parameters, self.spans, strict=True)
        ]
        self._zero_rows = _zero_rows(model, self.spans, self.gradient)
        self._early: list[int] = []
        self._bind(self.working)

    def refresh(self) -> None:
        """Cast the master weights into the copy that the model computes with."""
        if self.working is not self.master:
            self.working.copy_(self.master)

    @contextmanager
    def swapped(self, vector: Tensor, dtype: torch.dtype) -> Iterator[None]:
        """Let the model compute with `vector`, of this layout, in `dtype` while the body runs."""
        self._bind(vector.to(dtype))
        try:
            yield
        finally:
            self._bind(self.working)

    @contextmanager
    def collect_gradients(self) -> Iterator[None]:
        """Collect in `gradient` what flows back to the parameters while the body runs; what it held before is gone.

        Raises `RuntimeError` where a gradient came to a parameter after `collect_early`.
        """
        self._early = []
        for parameter, buffer in zip(self._parameters, self._buffers, strict=True):
            parameter.grad = None
            buffer.open()
        try:
            yield
        finally:
            early = set(self._early)
            self._collect(index for index in range(len(self.spans)) if index not in early)
        for index in self._early:
            if self._parameters[index].grad is not None:
                raise RuntimeError(f"a gradient of {self.spans[index].name} came after it was collected")

    def collect_early(self, indices: Sequence[int]) -> None:
        """Collect the gradients of the parameters of these `spans`, which are whole, before the pass is over."""
        self._early = [*self._early, *indices]
        self._collect(indices)

    def _collect(self, indices: Iterable[int]) -> None:
        """Put what autograd brought next to what was written to the buffers; all else is zero."""
        targets, sources, zero_rows = [], [], []
        for index in indices:
            parameter, buffer = self._parameters[index], self._buffers[index]
            gradient, parameter.grad = parameter.grad, None
            if index in self._zero_rows:
                zero_rows.append(self._zero_rows[index])
            if not buffer.close(gradient) and gradient is not None:
                targets.append(buffer.memory)
                sources.append(gradient)
        if targets:
            torch._foreach_copy_(targets, sources)
        for row in zero_rows:
            row.zero_()

    def whole(self, vector: Tensor) -> dict[str, Tensor]:
        """Return all parameters of the model by name, of which a vector of this layout holds what is trained."""
        return {**{name: exact.clone() for name, (_, exact) in self._still.items()}, **self.named(vector)}

    def named(self, vector: Tensor) -> dict[str, Tensor]:
        """Cut a vector of this layout into named tensors that own their memory."""
        return {span.name: span.of(vector).clone() for span in self.spans}

    def fill(self, vector: Tensor, tensors: dict[str, Tensor]) -> None:
        """Copy named tensors into a vector of this layout. Raises `RuntimeError` naming the first that does not fit."""
        wanted = {span.name: tuple(span.shape) for span in self.spans}
        if extra := tensors.keys() - wanted.keys():
            raise RuntimeError(msg("no parameter is called {name}", min(extra)))
        for name, shape in wanted.items():
            if name not in tensors:
                raise RuntimeError(msg("parameter {name} is missing", name))
            # checked here, since copying would stretch a smaller tensor without a word
            if tuple(tensors[name].shape) != shape:
                shapes = (tuple(tensors[name].shape), shape)
                raise RuntimeError(msg("parameter {name} has the shape {shape}, not {expected}", name, *shapes))
        for span in self.spans:
            span.of(vector).copy_(tensors[span.name])

    def _bind(self, vector: Tensor) -> None:
        for parameter, span in zip(self._parameters, self.spans, strict=True):
            parameter.data = span.of(vector)
        for parameter, exact in self._still.values():
            parameter.data = exact.to(vector.dtype)

    def indices_of(self, parameters: Iterable[nn.Parameter]) -> list[int]:
        """Return the indices of the `spans` of some parameters of the model, in the order of the vector."""
        wanted = {id(parameter) for parameter in parameters}
        return [index for index, parameter in enumerate(self._parameters) if id(parameter) in wanted]

    def ranges(self, indices: Sequence[int]) -> list[slice]:
        """Return which entries of the vector the `spans` of these ascending indices have, in the fewest pieces."""
        pieces: list[slice] = []
        for span in (self.spans[index] for index in indices):
            is_next = pieces and pieces[-1].stop == span.start
            pieces.append(slice(pieces.pop().start if is_next else span.start, span.end))
        return pieces

    def matrix_groups(self) -> list[tuple[int, int, torch.Size]]:
        """List runs of equal matrices: first entry, number of matrices, shape; embeddings are not among them."""
        groups: list[tuple[int, int, torch.Size]] = []
        for span in self.spans:
            start = span.start
            for rows in span.rows:
                shape = torch.Size((rows, span.shape[1]))
                if groups and groups[-1][2] == shape:
                    first, count, _ = groups.pop()
                    groups.append((first, count + 1, shape))
                else:
                    groups.append((start, 1, shape))
                start += shape.numel()
        return groups


def _zero_rows(model: nn.Module, spans: Sequence[Span], gradient: Tensor) -> dict[int, Tensor]:
    """Return the gradients (D,) of the rows of embeddings that stay zero, as views of `gradient`, by index of span."""
    row_of = {id(part.weight): part.zero_row for part in model.modules() if isinstance(part, TokenEmbedding)}
    rows = {name: row_of.get(id(parameter)) for name, parameter in model.named_parameters()}
    return {index: span.of(gradient)[row] for index, span in enumerate(spans) if (row := rows[span.name]) is not None}


def _rows_of_matrices(model: nn.Module) -> dict[str, tuple[int, ...]]:
    """Map the name of every parameter that consists of matrices to their rows; queries, keys and values are three."""
    attentions = [part for part in model.modules() if isinstance(part, MultiHeadAttention) and part.packed]
    packed = {id(part.in_projection.weight): tuple(part.splits) for part in attentions}
    return {
        name: packed.get(id(parameter), (parameter.shape[0],))
        for name, parameter in model.named_parameters()
        if parameter.dim() == 2 and "embedding" not in name and not name.startswith("output")
    }


def _rank(parameter: Tensor, rows: tuple[int, ...]) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    return (0 if rows else 3 - parameter.dim()), tuple(parameter.shape), rows
