"""Read XLIFF 1.2 and 2.x, and the dialects of Trados (`.sdlxliff`) and Memsource (`.mxliff`).

A translation is marked as made by a machine and to be reviewed; approved, final or untranslatable texts stay.
Source: OASIS, XLIFF 1.2 (2008) and XLIFF 2.1 (2018).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from dikkat_runtime.documents.bilingual_xml import Elements, stream_elements, with_states
from dikkat_runtime.documents.decoded_file import DecodedFile, TextDocument
from dikkat_runtime.documents.messages import icu_segments
from dikkat_runtime.documents.segments import Content, Edit, Edits, Options, Segment, is_language, plain, render
from dikkat_runtime.documents.xml_nodes import Node, decode_xml, escaped, matching, xml_nodes
from dikkat_runtime.errors import DataError, msg

_KEPT_STATES = frozenset(("final", "signed-off", "translated", "reviewed"))
_STRUCTURE = frozenset(("file", "group", "unit", "trans-unit", "segment", "source", "seg-source", "target"))
_MACHINE_MADE = ' state="needs-review-translation" state-qualifier="leveraged-mt"'
INSIDE = "units inside another unit, not translated"


@dataclass
class _File(Elements):
    file: DecodedFile
    is_second: bool
    """True if it is XLIFF 2.x."""
    remarks: Counter[str]
    segments: list[Segment] = field(default_factory=list)


def read_xliff(data: bytes, name: str, options: Options) -> TextDocument:
    """Read units that have no translation yet. Raises `DataError` with line and byte position."""
    decoded = decode_xml(data, name)
    remarks: Counter[str] = Counter()
    nodes = xml_nodes(decoded, remarks)
    root = next((node for node in nodes if node.kind in ("open", "empty")), None)
    if root is None or root.local != "xliff":
        raise DataError("{name}: its root is <{tag}>, not <xliff>", name, root.name if root else "")
    file = _File(nodes, matching(nodes), decoded, root.attributes.get("version", "1.2").startswith("2"), remarks)
    seen: set[str] = set()
    translatable, is_read = [True], True
    end_of_unit = -1
    for number, node in enumerate(nodes):
        if node.kind == "open":
            states = {"no": False, "yes": True}
            translatable.append(states.get(node.attributes.get("translate", ""), translatable[-1]))
            if node.local == "file":
                seen = set()
                is_read = _check_language(file, node if "source-language" in node.attributes else root, options)
            if node.local in ("unit", "trans-unit") and number < end_of_unit:
                remarks[INSIDE] += 1
            elif node.local in ("unit", "trans-unit"):
                end_of_unit = file.partner[number]
                identity = node.attributes.get("id", "")
                if identity in seen:
                    remarks[msg("units whose id occurs twice in their file")] += 1
                seen.add(identity)
                if not is_read:
                    continue
                if not translatable[-1]:
                    remarks[msg("units that are not to be translated")] += 1
                elif file.is_second:
                    _read_unit(file, number)
                else:
                    _read_trans_unit(file, number)
        elif node.kind == "close":
            translatable.pop()
    segments = icu_segments(file.segments, options.target_language, remarks)
    return TextDocument(decoded, segments, remarks, errors="xmlcharrefreplace")


def _check_language(file: _File, node: Node, options: Options) -> bool:
    """Return whether the units of a file are in the language that the model reads."""
    stated = node.attributes.get("source-language") or node.attributes.get("srcLang", "")
    if is_language(stated, options.source_language):
        return True
    language = options.source_language
    file.remarks[msg("files in {stated}, while the model reads {language}; left as they are", stated, language)] += 1
    return False


def _read_trans_unit(file: _File, unit: int) -> None:
    """Read a unit of XLIFF 1.2, whole or in the segments that another tool has cut."""
    node = file.nodes[unit]
    source, target = file.child(unit, "source"), file.child(unit, "target")
    if source is None or file.nodes[source].kind == "empty":
        return
    state = file.nodes[target].attributes.get("state", "") if target is not None else ""
    if node.attributes.get("approved") == "yes" or state in ("final", "signed-off"):
        file.remarks[msg("units that are approved or final")] += 1
        return
    cut = file.child(unit, "seg-source")
    if cut is not None and target is not None and file.nodes[target].kind == "open":
        _read_cut(file, unit, cut, target)
        return
    if target is not None and _has_text(file, target) and not state.startswith(("new", "needs-translation")):
        file.remarks[msg("units that are translated already")] += 1
        return
    read = source if cut is None else cut
    edits = _target_edits(file, source, read, target, _MACHINE_MADE)
    file.segments.append(Segment(file.content(read), edits, file.file.line(node.start)))


def _target_edits(file: _File, source: int, before: int, target: int | None, states: str = "") -> Edits:
    """Return the edits that write a target with these attributes; where there is none it follows `before`."""
    if target is not None:
        return file.replacing(target, states)

    def edits(translation: Content) -> Iterable[Edit]:
        end = file.nodes[file.partner[before]].end
        name = f"{file.nodes[source].name.removesuffix('source')}target"
        yield Edit(end, end, f"{_indentation(file, source)}<{name}{states}>{render(translation, escaped)}</{name}>")

    return edits


def _read_cut(file: _File, unit: int, cut: int, target: int) -> None:
    """Read the segments of a unit whose target has an element for each, as in `.sdlxliff`."""
    ours, theirs = _marked_segments(file, cut), _marked_segments(file, target)
    kept = _locked_segments(file, unit)
    for name, source in ours.items():
        segment = theirs.get(name)
        if segment is None:
            file.remarks[msg("segments without a place in their target")] += 1
        elif name in kept:
            file.remarks[msg("segments that are locked or confirmed")] += 1
        elif _has_text(file, segment):
            file.remarks[msg("segments that are translated already")] += 1
        else:
            edits = file.replacing(segment)
            file.segments.append(Segment(file.content(source), edits, file.file.line(file.nodes[source].start)))


def _marked_segments(unit: Elements, parent: int | None) -> dict[str, int]:
    """Return the outermost marked segments inside an element by their names; none without one."""
    segments: dict[str, int] = {}
    end = -1
    for number in () if parent is None else range(parent + 1, unit.partner[parent]):
        node = unit.nodes[number]
        is_segment = node.local == "mrk" and node.attributes.get("mtype") == "seg" and number in unit.partner
        if is_segment and number > end:
            segments[node.attributes.get("mid", "")] = number
            end = unit.partner[number]
    return segments


def _locked_segments(file: _File, unit: int) -> set[str]:
    """Return the segments that Trados marks as locked or confirmed."""
    return {
        node.attributes.get("id", "")
        for node in file.nodes[unit : file.partner[unit]]
        if node.name == "sdl:seg"
        and (node.attributes.get("locked") == "true" or node.attributes.get("conf", "").startswith("Approved"))
    }


def _read_unit(file: _File, unit: int) -> None:
    for number in file.children(unit):
        node = file.nodes[number]
        if node.local != "segment":
            continue
        source, target = file.child(number, "source"), file.child(number, "target")
        if source is None or file.nodes[source].kind == "empty":
            continue
        state = node.attributes.get("state", "initial")
        if state in _KEPT_STATES or (target is not None and _has_text(file, target)):
            file.remarks[msg("segments that are translated already")] += 1
            continue
        edits = _segment_edits(file, number, source, target)
        file.segments.append(Segment(file.content(source), edits, file.file.line(node.start)))


def _segment_edits(file: _File, segment: int, source: int, target: int | None) -> Edits:
    opening, write = file.nodes[segment], _target_edits(file, source, source, target)

    def edits(translation: Content) -> Iterable[Edit]:
        head = with_states(opening.raw, ' state="translated" subState="mt:unreviewed"')
        return [Edit(opening.start, opening.end, head), *write(translation)]

    return edits


def _indentation(file: _File, element: int) -> str:
    """Return the white space before an element that begins a line."""
    before = file.nodes[element - 1]
    return before.raw if before.kind == "text" and before.raw.isspace() and "\n" in before.raw else ""


def _has_text(file: _File, element: int) -> bool:
    """Return whether a target holds text, or parts of the file that a translation must not replace."""
    inside = file.nodes[element + 1 : file.partner[element]]
    is_structured = any(node.local in _STRUCTURE or node.attributes.get("mtype") == "seg" for node in inside)
    return is_structured or bool(plain(file.content(element)).strip())


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
            source_language = attributes.get("source-language", attributes.get("srcLang", languages[0]))
            target_language = attributes.get("target-language", attributes.get("trgLang", languages[1]))
            languages = source_language, target_language
            continue
        unit = _Unit(element.nodes, matching(element.nodes))
        units = unit.cut_segments() if element.opening.local == "trans-unit" else unit.segments()
        for source, target, state, is_machine_made in units:
            yield BilingualSegment(source, target, element.line, state, is_machine_made, languages)
    if not is_known:
        raise DataError("{name}: holds no <xliff>, so it is not an XLIFF file", name)


Bilingual = tuple[Content, Content, str, bool]


class _Unit(Elements):
    def cut_segments(self) -> Iterator[Bilingual]:
        """Yield the segments of a unit of XLIFF 1.2, whole or as another tool has cut it."""
        source, target, cut = (self.child(0, name) for name in ("source", "target", "seg-source"))
        attributes = {} if target is None else self.nodes[target].attributes
        state, is_machine_made = attributes.get("state", ""), "mt" in attributes.get("state-qualifier", "").split("-")
        ours, theirs = (_marked_segments(self, parent) for parent in (cut, target))
        if not ours or not theirs:
            yield self.content(source), self.content(target), state, is_machine_made
        for name, element in ours.items():
            yield self.content(element), self.content(theirs.get(name)), state, is_machine_made

    def segments(self) -> Iterator[Bilingual]:
        for number in self.children(0):
            if self.nodes[number].local != "segment":
                continue
            attributes = self.nodes[number].attributes
            source, target = (self.content(self.child(number, name)) for name in ("source", "target"))
            yield source, target, attributes.get("state", ""), attributes.get("subState", "").startswith("mt:")
