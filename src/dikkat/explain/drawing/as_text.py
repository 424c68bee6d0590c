"""Write the outline of a model as lines of text, in order of computation."""

from __future__ import annotations

from dikkat.explain.drawing.outline import Outline, Part, Stack
from dikkat_runtime.localization import localized
from dikkat_runtime.messages import msg, plural

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
            localized(msg("  {layers} × block").fill(stack.layers)),
            "",
            localized(msg("{block_parameters:,} each").fill(stack.block_parameters)),
        )
    )
    for sub_layer in stack.block:
        inside, norm = (
            [*_part(sub_layer.part, 4), (localized(msg("    + what went in")), "", "")],
            _part(sub_layer.norm, 4),
        )
        rows += [*norm, *inside] if norm_first else [*inside, *norm]
    rows += [row for part in stack.above for row in _part(part, 2)]
    return [
        *rows,
        (localized(msg("  gives")), stack.gives, localized(msg("{parameters:,} in all").fill(stack.parameters))),
    ]


def _part(part: Part, indent: int) -> list[_Row]:
    """A line for each size, the count on the first."""
    first, *others = part.sizes or ("",)
    count = f"{part.parameters:,}" if part.parameters else ""
    return [(" " * indent + part.title, first, count), *(("", other, "") for other in others)]
