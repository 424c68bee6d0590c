"""Draw the outline of a model as SVG like figure 1 of Vaswani et al. (2017), with the real sizes."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from dikkat.explain.drawing.chart import document, element, path, text, text_width
from dikkat.explain.drawing.outline import Outline, Part, Stack, SubLayer
from dikkat_runtime.errors import msg

_TITLE, _SMALL = 13.0, 11.0
_ARROW = 24.0
_PADDING = 14.0
_LANE = 30.0
"""Space between a box and the frame of its block, where the residual arrow runs."""
_MARGIN = 24.0
_BETWEEN = 84.0
"""Space between two stacks, where the memory is passed on."""
_OUTSIDE = 76.0
"""Space right of a stack: the number of its blocks, and the line between tied matrices."""

_KEY = msg("B batch · S source · T target · D width · H heads · K head width · F hidden width · V vocabulary")
_STYLE = Path(__file__).with_name("model.css").read_text(encoding="utf-8")


def draw_model(outline: Outline) -> str:
    """Return the whole drawing, as wide as its texts need."""
    width = max(_box_width(part) for stack in outline.stacks for part in _parts(stack))
    columns: list[_Column] = []
    left = _MARGIN + (_OUTSIDE if len(outline.stacks) > 1 else 0.0)
    for number, stack in enumerate(outline.stacks):
        # the first of two has its residual arrows on the left, so that they do not meet the memory
        residual_left = number == 0 and len(outline.stacks) > 1
        column = _Column(left, width, residual_left, outline.norm_first)
        column.draw(stack, columns[-1].gives if columns else None)
        columns.append(column)
        left += column.frame_width + _BETWEEN
    right = left - _BETWEEN + _OUTSIDE + (_OUTSIDE if outline.tied else 0.0)
    height = max(-column.y for column in columns)
    parts = [piece for column in columns for piece in column.pieces]
    if outline.tied:
        parts += _tied(columns, right - _MARGIN - 20, joint=outline.joint)
    heading = f"{outline.title}: {outline.parameters:,} parameters"
    footer = [" · ".join(outline.notes), _KEY]
    right = max(right, *(2 * _MARGIN + text_width(line, _SMALL) for line in footer))
    top, bottom = -height - 50.0, 56.0
    box = (0.0, top, right, bottom - top)
    parts = [
        element("style", _STYLE),
        element("rect", class_="paper", x=0, y=top, width=right, height=bottom - top),
        text(_MARGIN, top + 26, heading, class_="title"),
        *parts,
        *(text(_MARGIN, bottom - 26 + 16 * row, line) for row, line in enumerate(footer)),
    ]
    return document(box, parts, heading, class_="model", width=right, height=bottom - top)


@dataclass
class _Column:
    """One stack, drawn upwards from y = 0; `y` is where the next part begins."""

    left: float
    box_width: float
    residual_left: bool
    norm_first: bool
    y: float = 0.0
    pieces: list[str] = field(default_factory=list)
    gives: tuple[float, float] = (0.0, 0.0)
    """Where the output leaves the stack."""
    matrices: dict[str, float] = field(default_factory=dict)
    """Height of the middle of the embedding and of the output."""

    @property
    def frame_width(self) -> float:
        return self.box_width + 2 * _LANE

    @property
    def middle(self) -> float:
        return self.left + self.frame_width / 2

    @property
    def box_left(self) -> float:
        return self.left + _LANE

    def draw(self, stack: Stack, memory: tuple[float, float] | None) -> None:
        """All of `stack`; `memory` is where the output of the stack before leaves it."""
        self._caption(stack.reads)
        for part in stack.below:
            self._arrow()
            self._box(part)
        self._arrow(12.0, head=False)
        self._block(stack, memory)
        for part in stack.above:
            self._arrow()
            self._box(part)
        self._arrow()
        self.gives = (self.middle, self.y)
        self._caption(stack.gives)

    def _block(self, stack: Stack, memory: tuple[float, float] | None) -> None:
        bottom, start = self.y, len(self.pieces)
        for sub_layer in stack.block:
            self._sub_layer(sub_layer, memory)
        self._arrow(12.0, head=False)
        self.pieces.insert(start, self._rect("frame", self.left, self.y, self.frame_width, bottom - self.y, rx=10))
        middle = (bottom + self.y) / 2
        x, anchor = (self.left - 10, "end") if self.residual_left else (self.left + self.frame_width + 10, "start")
        self.pieces += [
            text(x, middle - 4, f"{stack.layers} ×", class_="title", text_anchor=anchor),
            text(x, middle + 13, f"{stack.block_parameters:,}", text_anchor=anchor),
            text(x, middle + 27, "each", text_anchor=anchor),
        ]

    def _sub_layer(self, sub_layer: SubLayer, memory: tuple[float, float] | None) -> None:
        branch = self.y - _ARROW / 2
        if self.norm_first:
            self._arrow()
            self._box(sub_layer.norm)
        self._arrow()
        bottom = self.y
        self._box(sub_layer.part)
        if sub_layer.reads_memory and memory is not None:
            self._read_memory(memory, (bottom + self.y) / 2)
        self._arrow(16.0)
        add = self.y
        self._box(
            Part("norm", "Add") if self.norm_first else replace(sub_layer.norm, title=f"Add & {sub_layer.norm.title}")
        )
        self._residual(branch, (add + self.y) / 2)

    def _box(self, part: Part) -> None:
        lines = [*part.sizes, *([msg("{parameters:,} parameters", part.parameters)] if part.parameters else [])]
        if part.kind == "norm":
            title = " · ".join((part.title, *lines))
            height = 24.0
            lines = []
        else:
            title, height = part.title, 22.0 + 15.0 * len(lines) + (6.0 if lines else 2.0)
        self.y -= height
        kind = "sum" if part.title == "Add" else part.kind
        self.pieces.append(self._rect(kind, self.box_left, self.y, self.box_width, height, rx=5))
        self.pieces.append(text(self.middle, self.y + 16, title, class_="title", text_anchor="middle"))
        for row, line in enumerate(lines, start=1):
            self.pieces.append(text(self.middle, self.y + 17 + 15 * row, line, text_anchor="middle"))
        self.matrices.setdefault(part.kind, self.y + height / 2)

    def _caption(self, words: str) -> None:
        self.y -= 18.0
        self.pieces.append(text(self.middle, self.y + 13, words, text_anchor="middle"))

    def _arrow(self, length: float = _ARROW, *, head: bool = True) -> None:
        top = self.y - length
        self.pieces.append(path([(self.middle, self.y), (self.middle, top)]))
        if head:
            self.pieces.append(_head(self.middle, top, "up"))
        self.y = top

    def _residual(self, start: float, end: float) -> None:
        side = self.box_left if self.residual_left else self.box_left + self.box_width
        lane = side + (-_LANE / 2 if self.residual_left else _LANE / 2)
        self.pieces.append(path([(self.middle, start), (lane, start), (lane, end), (side, end)]))
        self.pieces.append(_head(side, end, "right" if self.residual_left else "left"))

    def _read_memory(self, memory: tuple[float, float], end: float) -> None:
        lane = self.left - _BETWEEN / 2
        top = memory[1] - 26.0
        self.pieces.append(
            path([(memory[0], memory[1] - 18), (memory[0], top), (lane, top), (lane, end), (self.box_left, end)])
        )
        self.pieces.append(_head(self.box_left, end, "right"))
        self.pieces.append(text(lane + 6, end - 6, "K, V"))

    def _rect(self, kind: str, left: float, top: float, width: float, height: float, *, rx: float) -> str:
        return element("rect", class_=kind, x=left, y=top, width=width, height=height, rx=rx)


def _tied(columns: list[_Column], lane: float, *, joint: bool) -> list[str]:
    """Dashed lines between the boxes that are one matrix; of the embeddings only where the vocabulary is joint."""
    first, last = columns[0], columns[-1]
    bottom, top = last.matrices["embedding"], last.matrices["output"]
    side = last.box_left + last.box_width
    pieces = [path([(side, bottom), (lane, bottom), (lane, top), (side, top)], class_="tied")]
    pieces.append(text(lane - 6, bottom - 8, msg("one matrix"), text_anchor="end"))
    if joint and first is not last:
        height = first.matrices["embedding"]
        pieces.append(path([(first.box_left + first.box_width, height), (last.box_left, height)], class_="tied"))
        pieces.append(text(last.left - _BETWEEN / 2, height - 8, msg("one matrix"), text_anchor="middle"))
    return pieces


_HEADS: dict[str, Callable[[float, float], list[tuple[float, float]]]] = {
    "up": lambda x, y: [(x, y), (x - 4, y + 8), (x + 4, y + 8)],
    "right": lambda x, y: [(x, y), (x - 8, y - 4), (x - 8, y + 4)],
    "left": lambda x, y: [(x, y), (x + 8, y - 4), (x + 8, y + 4)],
}


def _head(x: float, y: float, direction: str) -> str:
    return path(_HEADS[direction](x, y), class_="head")


def _parts(stack: Stack) -> list[Part]:
    inside = [
        part
        for sub_layer in stack.block
        for part in (sub_layer.part, replace(sub_layer.norm, title=f"Add & {sub_layer.norm.title}"))
    ]
    return [*stack.below, *inside, *stack.above]


def _box_width(part: Part) -> float:
    count = msg("{parameters:,} parameters", part.parameters)
    title = " · ".join((part.title, count)) if part.kind == "norm" else part.title
    widths = [text_width(title, _TITLE, bold=True), *(text_width(line, _SMALL) for line in (*part.sizes, count))]
    return max(widths) + 2 * _PADDING
