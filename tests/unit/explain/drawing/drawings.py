"""Reading a drawing back: its boxes, its texts, and how wide these really are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from xml.etree import ElementTree

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

SVG = "{http://www.w3.org/2000/svg}"
PARTS = {"embedding", "positions", "attention", "feed_forward", "norm", "sum", "output", "softmax"}


@dataclass(frozen=True)
class Box:
    """A rectangle, in the units of the drawing."""

    kind: str
    left: float
    top: float
    right: float
    bottom: float

    def holds(self, other: Box) -> bool:
        inside_across = self.left <= other.left and other.right <= self.right
        return inside_across and self.top <= other.top and other.bottom <= self.bottom

    def meets(self, other: Box) -> bool:
        apart_across = self.right <= other.left or other.right <= self.left
        return not (apart_across or self.bottom <= other.top or other.bottom <= self.top)


def read(drawing: str) -> ElementTree.Element:
    """The root; raises where the drawing is not well-formed XML."""
    return ElementTree.fromstring(drawing)


def paper(drawing: str) -> Box:
    left, top, width, height = map(float, read(drawing).attrib["viewBox"].split())
    return Box("paper", left, top, left + width, top + height)


def boxes(drawing: str, kinds: set[str] = PARTS) -> list[Box]:
    result = []
    for item in read(drawing).iter(f"{SVG}rect"):
        if item.attrib["class"] in kinds:
            x, y, width, height = (float(item.attrib[name]) for name in ("x", "y", "width", "height"))
            result.append(Box(item.attrib["class"], x, y, x + width, y + height))
    return result


def texts(drawing: str) -> list[tuple[str, Box]]:
    """Every text with the box that its letters fill in the widest font of the list, as matplotlib measures it."""
    result = []
    for item in read(drawing).iter(f"{SVG}text"):
        content = item.text or ""
        is_title = item.attrib.get("class") == "title"
        size = 13.0 if is_title else 11.0
        width = real_width(content, size, bold=is_title)
        shift = {"middle": width / 2, "end": width}.get(item.attrib.get("text-anchor", ""), 0.0)
        x, y = float(item.attrib["x"]) - shift, float(item.attrib["y"])
        result.append((content, Box("text", x, y - 0.76 * size, x + width, y + 0.24 * size)))
    return result


@cache
def real_width(content: str, size: float, *, bold: bool = False) -> float:
    font = FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")
    # a trailing space has no outline, and a dollar sign would start a formula
    return float(TextPath((0, 0), content.replace("$", "S"), size=size, prop=font).get_extents().width)
