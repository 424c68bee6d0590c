"""Say what an outline of a model holds in the spoken language."""

from __future__ import annotations

from dataclasses import replace

from dikkat.explain.drawing.outline import Outline, Part, Stack, SubLayer
from dikkat_runtime.localization import localized
from dikkat_runtime.messages import msg


def localized_outline(outline: Outline) -> Outline:
    """Return the outline with every name and fact in the spoken language; the title stays, which is a user's name."""
    return replace(outline, stacks=tuple(map(_stack, outline.stacks)), notes=tuple(map(localized, outline.notes)))


def _stack(stack: Stack) -> Stack:
    return replace(
        stack,
        name=_said(stack.name),
        reads=_said(stack.reads),
        gives=_said(stack.gives),
        below=tuple(map(_part, stack.below)),
        block=tuple(map(_sub_layer, stack.block)),
        above=tuple(map(_part, stack.above)),
    )


def _sub_layer(sub_layer: SubLayer) -> SubLayer:
    return replace(sub_layer, part=_part(sub_layer.part), norm=_part(sub_layer.norm))


def _part(part: Part) -> Part:
    return replace(part, title=_said(part.title), sizes=tuple(map(_said, part.sizes)))


def _said(text: str) -> str:
    return localized(msg(text))
