"""Stream the segments of XLIFF files of any size, with their translations and states."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from dikkat_runtime.documents.inline_codes import Elements
from dikkat_runtime.documents.segments import Content
from dikkat_runtime.documents.xml_nodes import matching
from dikkat_runtime.documents.xml_stream import stream_elements
from dikkat_runtime.errors import DataError

_ANNOUNCED = frozenset(("xliff", "file"))
_UNITS = frozenset(("trans-unit", "unit"))


@dataclass(frozen=True, slots=True)
class BilingualSegment:
    """A source, its translation (empty where there is none), and its state as the file calls it."""

    source: Content
    target: Content
    line: int
    state: str
    is_machine_made: bool
    languages: tuple[str, str]
    """The languages of source and target in the file; empty where it names none."""


def stream_xliff(file: BinaryIO, name: str, remarks: Counter[str]) -> Iterator[BilingualSegment]:
    """Yield the segments of XLIFF 1.2 and 2.x, in constant memory. Raises `DataError` as `stream_elements` does."""
    languages, is_known = ("", ""), False
    for element in stream_elements(file, name, _UNITS, _ANNOUNCED, remarks):
        attributes = element.opening.attributes
        if element.opening.local in _ANNOUNCED:
            is_known = is_known or element.opening.local == "xliff"
            stated = (
                attributes.get(first, attributes.get(second, known))
                for first, second, known in zip(
                    ("source-language", "target-language"), ("srcLang", "trgLang"), languages, strict=True
                )
            )
            languages = next(stated), next(stated)
            continue
        unit = _Unit(element.nodes, matching(element.nodes))
        units = unit.cut_segments() if element.opening.local == "trans-unit" else unit.segments()
        for source, target, state, is_machine_made in units:
            yield BilingualSegment(source, target, element.line, state, is_machine_made, languages)
    if not is_known:
        raise DataError("{name}: holds no <xliff>, so it is not an XLIFF file", name)


Bilingual = tuple[Content, Content, str, bool]


class _Unit(Elements):
    """The nodes of a unit."""

    def cut_segments(self) -> Iterator[Bilingual]:
        """Yield the segments of a unit of XLIFF 1.2, whole or as another tool has cut it."""
        source, target, cut = (self.child(0, name) for name in ("source", "target", "seg-source"))
        attributes = {} if target is None else self.nodes[target].attributes
        state, is_machine_made = attributes.get("state", ""), "mt" in attributes.get("state-qualifier", "").split("-")
        ours, theirs = (self._marked(parent) for parent in (cut, target))
        if not ours or not theirs:
            yield self.content(source), self.content(target), state, is_machine_made
        for name, element in ours.items():
            yield self.content(element), self.content(theirs.get(name)), state, is_machine_made

    def segments(self) -> Iterator[Bilingual]:
        """Yield the segments of a unit of XLIFF 2.x."""
        for number in self.children(0):
            if self.nodes[number].local != "segment":
                continue
            attributes = self.nodes[number].attributes
            source, target = (self.content(self.child(number, name)) for name in ("source", "target"))
            yield source, target, attributes.get("state", ""), attributes.get("subState", "").startswith("mt:")

    def _marked(self, parent: int | None) -> dict[str, int]:
        segments: dict[str, int] = {}
        end = -1
        for number in () if parent is None else range(parent + 1, self.partner[parent]):
            node = self.nodes[number]
            is_segment = node.local == "mrk" and node.attributes.get("mtype") == "seg" and number in self.partner
            if is_segment and number > end:
                segments[node.attributes.get("mid", "")] = number
                end = self.partner[number]
        return segments
