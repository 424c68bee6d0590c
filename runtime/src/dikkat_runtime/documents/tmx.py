"""Read translation memories (`.tmx`): units that lack the model's target language are translated into it.

Source: LISA/GALA, TMX 1.4b (2005).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

from dikkat_runtime.documents.bilingual_xml import Elements, stream_elements
from dikkat_runtime.documents.decoded_file import TextDocument
from dikkat_runtime.documents.segments import Content, Edit, Edits, Options, Segment, plain, render
from dikkat_runtime.documents.xml_nodes import Node, decode_xml, escaped, matching, quoted, xml_nodes
from dikkat_runtime.errors import DataError, UsageError, msg

T = TypeVar("T")


def read_tmx(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the units with a text in the source language and none in the target language.

    Raises `DataError` with line and byte position, and `UsageError` where no language is known.
    """
    if not options.source_language or not options.target_language:
        raise UsageError("{name}: the model does not name its languages", name)
    file = decode_xml(data, name)
    remarks: Counter[str] = Counter()
    nodes = xml_nodes(file, remarks)
    root = next((node for node in nodes if node.kind in ("open", "empty")), None)
    if root is None or root.local != "tmx":
        raise DataError("{name}: its root is <{tag}>, not <tmx>", name, root.name if root else "")
    elements = Elements(nodes, matching(nodes))
    segments: list[Segment] = []
    end_of_unit, written = -1, _written_language(nodes, options.target_language)
    for number, node in enumerate(nodes):
        if node.kind == "open" and node.local == "tu" and number > end_of_unit:
            end_of_unit = elements.partner[number]
            texts = _texts(elements, number)
            source = of_language(texts, options.source_language)
            target = of_language(texts, options.target_language)
            if source is None or not plain(elements.content(source[1])).strip():
                remarks[msg("units without a text in {language}", options.source_language)] += 1
            elif any(_holds_units(elements, text[1]) for text in (source, target) if text is not None):
                remarks[msg("units that hold other units, not translated")] += 1
            elif target is not None and plain(elements.content(target[1])).strip():
                remarks[msg("units that are translated already")] += 1
            else:
                edits = _edits(elements, source[0], target, written)
                segments.append(Segment(elements.content(source[1]), edits, file.line(node.start)))
    return TextDocument(file, segments, remarks, errors="xmlcharrefreplace")


@dataclass(frozen=True, slots=True)
class MemoryUnit:
    """A unit of a memory: one text in each language."""

    elements: Elements
    segments: dict[str, tuple[int, int]]
    """By the tags of languages, as the file writes them."""
    line: int
    source_language: str
    """The language in the header; empty or `*all*` where it names none."""

    def content(self, language: str) -> Content | None:
        """Return the text in a language, or None."""
        numbers = of_language(self.segments, language)
        return None if numbers is None else self.elements.content(numbers[1])


def stream_tmx(file: BinaryIO, name: str, remarks: Counter[str]) -> Iterator[MemoryUnit]:
    """Yield the units of a memory of any size, in constant memory. Raises `DataError` as `stream_elements` does."""
    source_language, units = "", 0
    for element in stream_elements(file, name, frozenset(("tu",)), frozenset(("header",)), remarks):
        if element.opening.local == "header":
            source_language = element.opening.attributes.get("srclang", "")
            continue
        units += 1
        elements = Elements(element.nodes, matching(element.nodes))
        yield MemoryUnit(elements, _texts(elements, 0), element.line, source_language)
    if not units:
        raise DataError("{name}: holds no translation unit, so it is not a translation memory (.tmx)", name)


Texts = dict[str, tuple[int, int]]
"""For each language the numbers of its `tuv` and its `seg`."""


def _texts(elements: Elements, unit: int) -> Texts:
    texts: Texts = {}
    language, variant = "", unit
    number = unit + 1
    while number < elements.partner[unit]:
        node = elements.nodes[number]
        if node.kind == "open" and node.local == "tuv":
            language, variant = node.attributes.get("xml:lang", node.attributes.get("lang", "")), number
        elif node.kind in ("open", "empty") and node.local in ("seg", "tu"):
            if node.local == "seg":
                texts.setdefault(language, (variant, number))
            number = elements.partner[number]
        number += 1
    return texts


def of_language(texts: Mapping[str, T], language: str) -> T | None:
    """Return the text of a language, or of a variant: `en-US` and `en` are of `en`, `en` is of `en-GB`, `en-US` not."""
    if language in texts:
        return texts[language]
    wanted = language.lower().replace("_", "-")
    codes = {code.lower().replace("_", "-"): entry for code, entry in texts.items()}
    variants = [entry for code, entry in codes.items() if code.partition("-")[0] == wanted]
    known = [codes[code] for code in (wanted, wanted.partition("-")[0]) if code in codes]
    return next(iter([*known, *variants]), None)


def _written_language(nodes: list[Node], language: str) -> str:
    """Return the target language as the memory names it; a memory may name a variant."""
    stated = Counter(
        node.attributes.get("xml:lang", node.attributes.get("lang", "")) for node in nodes if node.local == "tuv"
    )
    return next((code for code, _ in stated.most_common() if of_language({code: code}, language)), language)


def _holds_units(elements: Elements, segment: int) -> bool:
    inside = elements.nodes[segment + 1 : elements.partner[segment]]
    return any(node.local in ("tu", "tuv", "seg") for node in inside)


def _edits(elements: Elements, variant: int, target: tuple[int, int] | None, language: str) -> Edits:
    if target is not None:
        return elements.replacing(target[1])
    nodes = elements.nodes

    def edits(translation: Content) -> Iterable[Edit]:
        end = nodes[elements.partner[variant]].end
        before = nodes[variant - 1]
        lead = before.raw if before.kind == "text" and before.raw.isspace() else ""
        code = "xml:lang" if "xml:lang" in nodes[variant].attributes else "lang"
        head = f'<tuv {code}="{quoted(language)}" creationid="dikkat">'
        yield Edit(end, end, f"{lead}{head}<seg>{render(translation, escaped)}</seg></tuv>")

    return edits
