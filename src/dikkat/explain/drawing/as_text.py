"""Write the outline of a model as lines of text, in order of computation."""

from __future__ import annotations

from dikkat.explain.drawing.outline import Outline, Part, Stack
from dikkat_runtime.errors import plural
from dikkat_runtime.localization import localized

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
    rows.append((localized(f"  {stack.layers} × block"), "", localized(f"{stack.block_parameters:,} each")))
    for sub_layer in stack.block:
        inside, norm = [*_part(sub_layer.part, 4), (localized("    + what went in"), "", "")], _part(sub_layer.norm, 4)
        rows += [*norm, *inside] if norm_first else [*inside, *norm]
    rows += [row for part in stack.above for row in _part(part, 2)]
    return [*rows, (localized("  gives"), stack.gives, localized(f"{stack.parameters:,} in all"))]


def _part(part: Part, indent: int) -> list[_Row]:
    """A line for each size, the count on the first."""
    first, *others = part.sizes or ("",)
    count = f"{part.parameters:,}" if part.parameters else ""
    return [(" " * indent + part.title, first, count), *(("", other, "") for other in others)]
