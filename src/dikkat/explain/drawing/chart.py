"""Draw curves and bars as small SVG drawings, which take their colours from the page around them."""

import html
import math
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dikkat.explain.attention_map import AttentionMap, with_written_rows

# Write SVG as plain strings: shapes, escaped text, and an estimate of text widths.


FONT = "'DejaVu Sans', Verdana, 'Segoe UI', system-ui, sans-serif"
"""Every text is measured as if in the first font, the widest of them."""

_NARROW = frozenset("fijlrtI.,:;'|!()[]/ -·")
_WIDE = frozenset("mwMW@%×→+=√…—")


def escaped(text: str) -> str:
    """Return `text` escaped for HTML and XML, in quotes too.

    Characters that XML forbids, controls and lone surrogates become "·".
    """
    forbidden = {mark for mark in text if mark in "\ufffe\uffff" or unicodedata.category(mark) in ("Cc", "Cs")}
    return html.escape("".join(" " if mark in "\t\n" else "·" if mark in forbidden else mark for mark in text))


def text_width(text: str, size: float, *, bold: bool = False) -> float:
    """Return an upper bound of the width of a line of Latin text in `FONT`, in the unit of `size`."""
    ems = sum(0.42 if mark in _NARROW else 0.99 if mark in _WIDE else 0.79 if mark.isupper() else 0.65 for mark in text)
    return ems * size * (1.12 if bold else 1.0)


def clipped(text: str, longest: int) -> str:
    """Return `text`, or its beginning and "…", in at most `longest` characters."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def element(name: str, content: str = "", /, **attributes: object) -> str:
    """Return an element; `content` is SVG already.

    An underscore in the name of an attribute becomes a hyphen; at its end it is dropped.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(_number(value))}"' for key, value in attributes.items()
    )
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def text(x: float, y: float, content: str, **attributes: object) -> str:
    return element("text", escaped(content), x=x, y=y, **attributes)


def path(points: Sequence[tuple[float, float]], **attributes: object) -> str:
    """Return straight lines through `points`."""
    return element("path", d="M" + "L".join(f"{_number(x)} {_number(y)}" for x, y in points), **attributes)


def document(box: tuple[float, float, float, float], parts: Iterable[str], title: str, **attributes: object) -> str:
    """Return a whole drawing: `box` is left, top, width and height; `title` is read by screen readers."""
    attributes |= {"xmlns": "http://www.w3.org/2000/svg", "viewBox": " ".join(map(_number, box)), "role": "img"}
    return element("svg", element("title", escaped(title)) + "".join(parts), **attributes)


def _number(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


# Draw one attention map as a small SVG: dark cells are large weights, labels on both axes.

_CELL, _MAP_SIZE = 14.0, 10.5
_MAX_LENGTH = 14
_VISIBLE = 0.02
"""Weight below which a cell is left blank."""

MAP_STYLE = Path(__file__).with_name("map.css").read_text(encoding="utf-8")
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
    left = max(text_width(token, _MAP_SIZE) for token in queries) + 6
    below = max(text_width(token, _MAP_SIZE) for token in keys) + 6
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


_WIDTH, _HEIGHT = 420.0, 250.0
"""Small enough to stay legible on a phone, which shows a drawing narrower than this."""
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 14.0, 44.0, 42.0
_SIZE = 12.0

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Labels:
    """Hold the texts of a chart."""

    title: str
    x: str
    series: tuple[str, ...]
    """One or two names."""


def line_chart(labels: Labels, series: Sequence[Points]) -> str:
    """Return one or two curves over common axes. Raises `ValueError` without a single point."""
    axes = _Axes(labels, [point for points in series for point in points], from_zero=False)
    for number, points in enumerate(series):
        pixels = [axes.at(x, y) for x, y in points]
        axes.pieces.append(path(pixels, class_=f"curve c{number}"))
        for (x, y), (left, top) in zip(points, pixels, strict=True):
            axes.pieces.append(
                element(
                    "circle",
                    element("title", f"{labels.series[number]}: {x:,.6g}, {y:,.4g}"),
                    cx=left, cy=top, r=3, class_=f"f{number}",
                )
            )  # fmt: skip
    return axes.as_svg()


def histogram(labels: Labels, edges: Sequence[float], counts: Sequence[Sequence[int]]) -> str:
    """Return bars for one or two series side by side; `counts[i]` has one number for each gap of `edges`."""
    axes = _Axes(labels, [(edges[0], 0.0), (edges[-1], float(max(max(row) for row in counts)))], from_zero=True)
    for number, row in enumerate(counts):
        for index, count in enumerate(row):
            (left, bottom), (right, _) = axes.at(edges[index], 0.0), axes.at(edges[index + 1], 0.0)
            width = (right - left) * 0.9 / len(counts)
            top = axes.at(0.0, float(count))[1]
            named = element("title", f"{labels.series[number]} {edges[index]:g}–{edges[index + 1]:g}: {count:,}")
            axes.pieces.append(
                element(
                    "rect", named,
                    x=left + number * width, y=top, width=max(width, 0.5), height=bottom - top, class_=f"f{number}",
                )
            )  # fmt: skip
    return axes.as_svg()


class _Axes:
    """Frame, ticks, title and legend around points."""

    def __init__(self, labels: Labels, points: Points, *, from_zero: bool) -> None:
        if not points:
            raise ValueError(f'there is nothing to draw in "{labels.title}"')
        self.labels = labels
        xs, ys = zip(*points, strict=True)
        self.x_ticks = _ticks(min(xs), max(xs))
        self.y_ticks = _ticks(0.0 if from_zero else min(ys), max(ys))
        self.x_range = (min(self.x_ticks[0], *xs), max(self.x_ticks[-1], *xs))
        self.y_range = (min(self.y_ticks[0], *ys), max(self.y_ticks[-1], *ys))
        self.pieces: list[str] = []

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The place of a point in the drawing."""
        right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
        return (_LEFT + (right - _LEFT) * _share(x, self.x_range), bottom - (bottom - _TOP) * _share(y, self.y_range))

    def as_svg(self) -> str:
        right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
        frame = [text(_LEFT, 15, self.labels.title, font_weight="bold")]
        for tick in self.y_ticks:
            height = self.at(self.x_range[0], tick)[1]
            frame.append(path([(_LEFT, height), (right, height)], class_="grid"))
            frame.append(text(_LEFT - 6, height + 4, _tick_label(tick), text_anchor="end"))
        for tick in self.x_ticks:
            x = self.at(tick, self.y_range[0])[0]
            frame.append(path([(x, bottom), (x, bottom + 4)], class_="grid"))
            anchor = "end" if x > right - 12 else "middle"
            frame.append(text(x, bottom + 17, _tick_label(tick), text_anchor=anchor))
        frame.append(text((_LEFT + right) / 2, _HEIGHT - 8, self.labels.x, text_anchor="middle"))
        title = f"{self.labels.title}: {', '.join(self.labels.series)}"
        return document((0.0, 0.0, _WIDTH, _HEIGHT), [*frame, *self._legend(), *self.pieces], title, class_="chart")

    def _legend(self) -> list[str]:
        pieces, left = [], _LEFT
        for number, name in enumerate(self.labels.series):
            pieces.append(element("rect", x=left, y=24, width=12, height=8, class_=f"f{number}"))
            pieces.append(text(left + 17, 32, name))
            left += 17 + text_width(name, _SIZE) + 18
        return pieces


def _share(value: float, limits: tuple[float, float]) -> float:
    low, high = limits
    return 0.5 if high == low else (value - low) / (high - low)


def _ticks(low: float, high: float) -> list[float]:
    """Four or so round numbers that span `low` to `high`."""
    if high <= low:
        return [low]
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough)
    # a hair over a tick, as a BLEU of 100.00000000000004, asks for no further one
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


def _tick_label(value: float) -> str:
    return f"{value:,.6g}"
