"""A model as a list of named parts with their sizes and parameters, ready to be drawn.

An encoder-decoder is two stacks. A classifier or a language model is one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from dikkat_runtime.errors import plural
from dikkat_runtime.localization import localized, translated

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


# Write the outline of a model as lines of text, in order of computation.

_Row = tuple[str, str, str]


def outline_as_text(outline: Outline) -> str:
    """Return a table of part, sizes and parameters; those of a block are for one of its repetitions."""
    rows = [row for stack in outline.stacks for row in _stack(stack, outline.norm_first)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    table = [f"{name:{widths[0]}}  {sizes:{widths[1]}}  {count:>{widths[2]}}".rstrip() for name, sizes, count in rows]
    total = f"{outline.title}: {localized(plural(outline.parameters, 'parameter'))}; {', '.join(outline.notes)}"
    return "\n".join([total, *table]) + "\n"


def _stack(stack: Stack, norm_first: bool) -> list[_Row]:
    rows = [("", "", ""), (stack.name, stack.reads, "")]
    rows += [row for part in stack.below for row in _part(part, 2)]
    rows.append(
        (
            translated("  {layers} × block", stack.layers),
            "",
            translated("{block_parameters:,} each", stack.block_parameters),
        )
    )
    for sub_layer in stack.block:
        inside, norm = (
            [*_part(sub_layer.part, 4), (translated("    + what went in"), "", "")],
            _part(sub_layer.norm, 4),
        )
        rows += [*norm, *inside] if norm_first else [*inside, *norm]
    rows += [row for part in stack.above for row in _part(part, 2)]
    return [*rows, (translated("  gives"), stack.gives, translated("{parameters:,} in all", stack.parameters))]


def _part(part: Part, indent: int) -> list[_Row]:
    """A line for each size, the count on the first."""
    first, *others = part.sizes or ("",)
    count = f"{part.parameters:,}" if part.parameters else ""
    return [(" " * indent + part.title, first, count), *(("", other, "") for other in others)]


# Say what an outline of a model holds in the spoken language.


def localized_outline(outline: Outline) -> Outline:
    """Return the outline with every name and fact in the spoken language; the title stays, which is a user's name."""
    return replace(
        outline, stacks=tuple(map(_localized_stack, outline.stacks)), notes=tuple(map(localized, outline.notes))
    )


def _localized_stack(stack: Stack) -> Stack:
    return replace(
        stack,
        name=_said(stack.name),
        reads=_said(stack.reads),
        gives=_said(stack.gives),
        below=tuple(map(_localized_part, stack.below)),
        block=tuple(map(_sub_layer, stack.block)),
        above=tuple(map(_localized_part, stack.above)),
    )


def _sub_layer(sub_layer: SubLayer) -> SubLayer:
    return replace(sub_layer, part=_localized_part(sub_layer.part), norm=_localized_part(sub_layer.norm))


def _localized_part(part: Part) -> Part:
    return replace(part, title=_said(part.title), sizes=tuple(map(_said, part.sizes)))


def _said(text: str) -> str:
    return translated(text)
