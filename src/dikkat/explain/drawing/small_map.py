"""Draw one attention map as a small SVG: dark cells are large weights, labels on both axes."""

from __future__ import annotations

from dikkat.explain.attention_map import AttentionMap, with_written_rows
from dikkat.explain.drawing.svg import clipped, document, element, text, text_width

_CELL, _SIZE = 14.0, 10.5
_MAX_LENGTH = 14
_VISIBLE = 0.02
"""Weight below which a cell is left blank."""

MAP_STYLE = f"""
.map {{ font: {_SIZE}px "DejaVu Sans", Verdana, system-ui, sans-serif; flex: none; }}
.map text {{ fill: var(--ink); }}
.map .paper {{ fill: none; stroke: var(--line); }}
.map .cell {{ fill: var(--c0); }}
"""
"""Style that a page with maps needs, besides --ink, --line and --c0."""


def small_map(attention_map: AttentionMap) -> str:
    """Return the drawing: queries down, keys across; a cell is as opaque as its weight.

    The rows of cross-attention are labelled with the tokens that they wrote.
    """
    attention_map = with_written_rows(attention_map)
    queries, keys = (
        [clipped(token, _MAX_LENGTH) for token in tokens]
        for tokens in (attention_map.query_tokens, attention_map.key_tokens)
    )
    left = max(text_width(token, _SIZE) for token in queries) + 6
    below = max(text_width(token, _SIZE) for token in keys) + 6
    width, height = _CELL * len(keys), _CELL * len(queries)
    cells = [
        element(
            "rect", x=left + _CELL * column, y=_CELL * row, width=_CELL, height=_CELL, class_="cell",
            fill_opacity=min(1.0, float(weight)),
        )
        for row, weights in enumerate(attention_map.weights)
        for column, weight in enumerate(weights)
        if weight >= _VISIBLE
    ]  # fmt: skip
    names = [text(left - 4, _CELL * row + 11, token, text_anchor="end") for row, token in enumerate(queries)]
    for column, token in enumerate(keys):
        x, y = left + _CELL * column + 11, height + 5
        names.append(text(x, y, token, text_anchor="end", transform=f"rotate(-90 {x:g} {y:g})"))
    frame = element("rect", x=left, y=0, width=width, height=height, class_="paper")
    size = (left + width + 1, height + below)
    title = f"{attention_map.stack} {attention_map.kind}-attention, layer {attention_map.layer + 1}"
    return document((0.0, -1.0, size[0], size[1] + 1), [*cells, frame, *names], title, class_="map",
                    width=size[0], height=size[1] + 1)  # fmt: skip
