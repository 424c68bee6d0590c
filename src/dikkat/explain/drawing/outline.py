"""A model as a list of named parts with their sizes and parameters: what a drawing of it shows.

An encoder-decoder is two stacks. A classifier or a language model is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PartKind = Literal["embedding", "positions", "attention", "feed_forward", "norm", "output", "softmax"]


@dataclass(frozen=True, slots=True)
class Part:
    """One box of a drawing."""

    kind: PartKind
    title: str
    sizes: tuple[str, ...] = ()
    """What is worth knowing of it, a line each."""
    parameters: int = 0
    """Trained numbers that no part before it has; a tied matrix counts where it comes first."""


@dataclass(frozen=True, slots=True)
class SubLayer:
    """One part inside a residual sum, with its norm."""

    part: Part
    norm: Part
    reads_memory: bool = False
    """Whether its keys and values come from the stack before."""

    @property
    def parameters(self) -> int:
        return self.part.parameters + self.norm.parameters


@dataclass(frozen=True, slots=True)
class Stack:
    """From ids to hidden states or logits, lowest part first."""

    name: str
    reads: str
    """What goes in, with its shape."""
    below: tuple[Part, ...]
    """Embedding and positions."""
    layers: int
    block: tuple[SubLayer, ...]
    """The sub-layers of each of the `layers` blocks, in order."""
    above: tuple[Part, ...]
    """Final norm, output."""
    gives: str
    """What comes out, with its shape."""

    @property
    def block_parameters(self) -> int:
        """Of one block."""
        return sum(each.parameters for each in self.block)

    @property
    def parameters(self) -> int:
        return self.layers * self.block_parameters + sum(part.parameters for part in self.below + self.above)


@dataclass(frozen=True, slots=True)
class Outline:
    """A whole model."""

    title: str
    stacks: tuple[Stack, ...]
    """In order of computation; each but the first reads what the one before gives."""
    norm_first: bool
    """Whether a norm stands before its sub-layer (pre-norm), or after the sum (post-norm)."""
    tied: bool
    """Whether the embedding of what is written and the output are one matrix."""
    notes: tuple[str, ...]
    joint: bool = True
    """Whether the embedding of what is read is that matrix too, where the model is tied."""

    @property
    def parameters(self) -> int:
        return sum(stack.parameters for stack in self.stacks)
