"""Memory where a backward pass writes the gradient of a parameter, instead of autograd adding it to zeros."""

import torch
from torch import Tensor

_ATTRIBUTE = "grad_buffer"


class GradientBuffer:
    """The gradient of one parameter, of its shape; the attribute `grad_buffer` of the parameter.

    Kernels that can write a gradient claim rows of it while it is open; autograd learns nothing of these. Adding to
    zeros would take three more passes over memory.
    """

    def __init__(self, memory: Tensor) -> None:
        self.memory = torch.atleast_1d(memory)
        self._is_open = False
        self._claimed: list[tuple[int, int]] = []

    def open(self) -> None:
        """Begin a backward pass: no row is claimed."""
        self._is_open = True
        self._claimed.clear()

    def claim(self, rows: slice | None = None) -> Tensor | None:
        """Return the memory of these rows of the first dimension, to be overwritten; all rows are the default.

        None, where autograd must take the gradient: the buffer is closed, or one of the rows was claimed before.
        """
        start, end, _ = (rows or slice(None)).indices(self.memory.shape[0])
        if not self._is_open or any(first < end and start < last for first, last in self._claimed):
            return None
        self._claimed.append((start, end))
        return self.memory if rows is None else self.memory[start:end]

    def close(self, gradient: Tensor | None) -> bool:
        """End the pass: `gradient`, what autograd brought, is added to claimed rows, and unclaimed rows become zero.

        Returns False, and writes nothing, where no row was claimed and there is a gradient: it is the whole of it, to
        be copied by the caller.
        """
        self._is_open = False
        if gradient is not None and not self._claimed:
            return False
        last = 0
        for start, end in [*sorted(self._claimed), (self.memory.shape[0], self.memory.shape[0])]:
            if last < start:
                self.memory[last:start].zero_()
            last = end
        if gradient is not None:
            self.memory.add_(gradient)
        return True


Buffers = tuple[GradientBuffer | None, GradientBuffer | None]
"""Of a weight and its bias."""


def attach_buffer(parameter: Tensor, memory: Tensor) -> GradientBuffer:
    """Give a parameter a buffer in `memory`, of its shape, and return the buffer."""
    buffer = GradientBuffer(memory)
    setattr(parameter, _ATTRIBUTE, buffer)
    return buffer


def claim(buffer: GradientBuffer | None, rows: slice | None) -> Tensor | None:
    """Claim rows of a buffer; None where there is no buffer, or none to be had."""
    return None if buffer is None else buffer.claim(rows)


def grad_buffer(parameter: Tensor | None) -> GradientBuffer | None:
    return getattr(parameter, _ATTRIBUTE, None)
