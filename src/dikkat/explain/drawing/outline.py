"""A model as a list of named parts with their sizes and parameters, ready to be drawn.

An encoder-decoder is two stacks. A classifier or a language model is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PartKind = Literal["embedding", "positions", "attention", "recurrence", "feed_forward", "norm", "output", "softmax"]


@dataclass(frozen=True, slots=True)
class Part:
    """Hold one box of a drawing."""

    kind: PartKind
    title: str
    sizes: tuple[str, ...] = ()
    """Facts about the part, a line each."""
    parameters: int = 0
    """Trained numbers that no part before it has; a tied matrix counts where it comes first."""


@dataclass(frozen=True, slots=True)
class SubLayer:
    """Hold one part inside a residual sum, with its norm."""

    part: Part
    norm: Part
    reads_memory: bool = False
    """Whether its keys and values come from the stack before."""

    @property
    def parameters(self) -> int:
        """Return the parameters of part and norm."""
        return self.part.parameters + self.norm.parameters


@dataclass(frozen=True, slots=True)
class Stack:
    """Hold the parts from ids to hidden states or logits, lowest first."""

    name: str
    reads: str
    """Name of the input, with its shape."""
    below: tuple[Part, ...]
    """Embedding and positions."""
    layers: int
    block: tuple[SubLayer, ...]
    """The sub-layers of each of the `layers` blocks, in order."""
    above: tuple[Part, ...]
    """Final norm and output."""
    gives: str
    """Name of the output, with its shape."""

    @property
    def block_parameters(self) -> int:
        """Return the parameters of one block."""
        return sum(sub_layer.parameters for sub_layer in self.block)

    @property
    def parameters(self) -> int:
        """Return the parameters of the stack."""
        return self.layers * self.block_parameters + sum(part.parameters for part in self.below + self.above)


@dataclass(frozen=True, slots=True)
class Outline:
    """Hold a whole model."""

    title: str
    stacks: tuple[Stack, ...]
    """Stacks in order of computation; each but the first reads the output of the one before."""
    norm_first: bool
    """Whether a norm stands before its sub-layer (pre-norm), or after the sum (post-norm)."""
    tied: bool
    """Whether the embedding of what is written and the output are one matrix."""
    notes: tuple[str, ...]
    joint: bool = True
    """Whether the embedding of what is read is that matrix too, where the model is tied."""

    @property
    def parameters(self) -> int:
        """Return the parameters of the model."""
        return sum(stack.parameters for stack in self.stacks)
