"""Read zip archives of strangers within bounds, and the documents in them: e-books and files of OpenDocument."""

import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise
from pathlib import PurePosixPath

from dikkat_runtime.documents.decoded_file import DecodedFile, TextDocument
from dikkat_runtime.documents.html import page_document
from dikkat_runtime.documents.segments import Content, Edit, Item, Options, Segment, Tag, is_language, plain, render
from dikkat_runtime.documents.xml_nodes import Node, decode_xml, escaper, matching, text_items, xml_nodes
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.text.placeholders import has_words

MAX_ARCHIVE_SIZE = 512 << 20
"""Bytes of all entries together, unpacked."""
MAX_ENTRIES = 10_000
_MAX_DEPTH = 16
"""Most paragraphs, links and changes inside each other; Word nests two or three."""
_SMALL, _MAX_RATIO = 1 << 20, 100
"""Bytes of text that every document may have, and how many more for each of its bytes; Word's own stay below 50."""


@dataclass(frozen=True)
class Archive:
    """The entries of an archive with their content, in order."""

    entries: list[tuple[zipfile.ZipInfo, bytes]]
    comment: bytes
    data: bytes
    """The whole file."""

    @classmethod
    def read(cls, data: bytes, name: str) -> "Archive":
        """Unpack an archive.

        Raises `DataError` for one that is damaged, encrypted, too large, or has paths that lead outside.
        """
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as file:
                infos = file.infolist()
                _check(infos, name)
                entries, left = [], MAX_ARCHIVE_SIZE
                for info in infos:
                    with file.open(info) as entry:
                        content = entry.read(left + 1)
                    left -= len(content)
                    if left < 0:
                        raise DataError("{name}: unpacks to more than {max_archive_size} MiB; not read").fill(
                            name, MAX_ARCHIVE_SIZE >> 20
                        )
                    entries.append((info, content))
                return cls(entries, file.comment, data)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, OSError) as error:
            raise DataError("{name}: damaged, or not a zip archive ({error})", name, error) from None

    def write(self, changed: Mapping[str, bytes]) -> bytes:
        """Return the archive with other contents of some entries; all else stays."""
        if all(content == changed.get(info.filename, content) for info, content in self.entries):
            return self.data
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w") as file:
            file.comment = self.comment
            for info, content in self.entries:
                copy = zipfile.ZipInfo(info.filename, info.date_time)
                for key in ("compress_type", "external_attr", "comment", "create_system"):
                    setattr(copy, key, getattr(info, key))
                file.writestr(copy, changed.get(info.filename, content))
        return target.getvalue()


def _check(infos: list[zipfile.ZipInfo], name: str) -> None:
    if len(infos) > MAX_ENTRIES:
        raise DataError("{name}: an archive of {count:,} entries; not read", name, len(infos))
    if sum(info.file_size for info in infos) > MAX_ARCHIVE_SIZE:
        raise DataError("{name}: unpacks to more than {max_archive_size} MiB; not read", name, MAX_ARCHIVE_SIZE >> 20)
    for info in infos:
        path = PurePosixPath(info.filename.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in info.filename:
            raise DataError(
                "{name}: the entry {entry} leads outside of the archive; not read", name, repr(info.filename)
            )
        if info.flag_bits & 1:
            raise DataError("{name}: is encrypted; save it without a password", name)


@dataclass
class ArchiveDocument:
    """The parts of an archive that hold text, each with its share of the segments."""

    archive: Archive
    parts: list[tuple[str, TextDocument]]
    segments: Sequence[Segment]
    remarks: Counter[str]
    markup: bool = False

    @classmethod
    def read(
        cls, archive: Archive, name: str, parts: re.Pattern[str],
        read: Callable[[str, bytes], TextDocument | None], remarks: Counter[str],
    ) -> "ArchiveDocument":  # fmt: skip
        """Read each entry whose path is one of the `parts`. Raises `DataError` where they unpack to absurdly much."""
        entries = [(info.filename, content) for info, content in archive.entries if parts.fullmatch(info.filename)]
        if sum(len(content) for _, content in entries) > _SMALL + _MAX_RATIO * len(archive.data):
            raise DataError(
                "{name}: unpacks to more than {max_ratio} times its size, as no document does; not read"
            ).fill(name, _MAX_RATIO)
        documents = [(path, document) for path, content in entries if (document := read(path, content)) is not None]
        for _, document in documents:
            if document.remarks is not remarks:
                remarks.update(document.remarks)
        segments = [segment for _, document in documents for segment in document.segments]
        return cls(archive, documents, segments, remarks)

    def write(self, translations: Sequence[Content]) -> bytes:
        remaining = iter(translations)
        written = {path: part.write(list(islice(remaining, len(part.segments)))) for path, part in self.parts}
        return self.archive.write(written)


def check_depth(file: DecodedFile, nodes: Sequence[Node], partner: Mapping[int, int], names: Set[str]) -> None:
    """Raise `DataError` where elements of these names stand inside each other deeper than any program writes them."""
    ends: list[int] = []
    for number, node in enumerate(nodes):
        if node.kind == "open" and node.local in names:
            while ends and ends[-1] < number:
                ends.pop()
            ends.append(partner[number])
            if len(ends) > _MAX_DEPTH:
                where = f"{file.name}:{file.line(node.start)}"
                raise DataError("{where}: {tag} nested deeper than {max_depth}; take it out of the others").fill(
                    where, node.local, _MAX_DEPTH
                )


# E-books (W3C, EPUB 3.3; IDPF, OPF 2.0.1 with NCX): the chapters are pages of HTML.

_BOOK_PARTS = re.compile(r".*\.(?:xhtml|html?|xml|ncx|opf)", re.IGNORECASE)
_PAGE = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<\?xml[^>]*>|<!--.{0,1000}?-->|<!DOCTYPE[^>]*>|\s)*<html\b", re.DOTALL)
_TITLES = frozenset(("text", "dc:title", "dc:description"))
_PROTECTED = re.compile(rb"""URI\s*=\s*["'][^"']*\.(?:x?html?|xml)["']""")


def read_epub(data: bytes, name: str, options: Options) -> ArchiveDocument:
    """Read the chapters and titles of a book. Raises `DataError` for no book, and for one that is protected."""
    archive = Archive.read(data, name)
    paths = {info.filename: content for info, content in archive.entries}
    if "META-INF/container.xml" not in paths:
        raise DataError("{name}: not an e-book: it has no META-INF/container.xml", name)
    if _PROTECTED.search(paths.get("META-INF/encryption.xml", b"")):
        raise DataError("{name}: is protected against copying; only its publisher can open it", name)

    def read(path: str, content: bytes) -> TextDocument | None:
        where = f"{name}/{path}"
        if path.lower().endswith((".ncx", ".opf")):
            return _titles(content, where, options)
        if path.startswith("META-INF/") or not _PAGE.match(content[:4096]):
            return None
        return page_document(decode_xml(content, where), options)

    return ArchiveDocument.read(archive, name, _BOOK_PARTS, read, Counter())


def _titles(data: bytes, name: str, options: Options) -> TextDocument:
    """Read the titles of a book, or of its contents, and its language, which becomes that of the translation."""
    file, remarks = decode_xml(data, name), Counter[str]()
    nodes, segments, also = xml_nodes(file, remarks), list[Segment](), list[Edit]()
    for before, node in pairwise(nodes):
        if before.kind != "open" or node.kind != "text":
            continue
        text = node.text
        if before.name in _TITLES and has_words(text):
            write = partial(render, escape=escaper(node.raw))
            segments.append(file.segment(node.start, node.end, (text,), write))
        elif before.name == "dc:language" and options.target_language and is_language(text, options.source_language):
            also.append(Edit(node.start, node.end, options.target_language.replace("_", "-")))
    return TextDocument(file, segments, remarks, also, markup=False, errors="xmlcharrefreplace")


# OpenDocument (OASIS, OpenDocument 1.3, part 3): paragraphs, headings, cells, notes and text boxes.

_OPEN_PARTS = re.compile(r"(?:[^/]+/)?(?:content|styles)\.xml")
_TEXTS = frozenset(("p", "h"))
_PAIRED = frozenset(("span", "a", "meta", "meta-field", "ruby-base"))
_VOID = (
    "bookmark|bookmark-start|bookmark-end|reference-mark|reference-mark-start|reference-mark-end|s|soft-page-break|"
    "annotation-end|change|change-start|change-end|frame|custom-shape|note|annotation|line-break|tab"
)
_MARKS = frozenset(_VOID.split("|"))
_KEPT = frozenset(("tracked-changes", "script", "forms"))
FORMULAS = msg("cells whose text a formula computes, left as they are")


def read_open_document(data: bytes, name: str, options: Options) -> ArchiveDocument:
    """Read all paragraphs with text. Raises `DataError` for no OpenDocument file, and for an encrypted one."""
    archive = Archive.read(data, name)
    paths = {info.filename: content for info, content in archive.entries}
    if "content.xml" not in paths:
        raise DataError("{name}: not an OpenDocument file: it has no content.xml", name)
    if b"encryption-data" in paths.get("META-INF/manifest.xml", b""):
        raise DataError("{name}: is encrypted; save it without a password", name)
    remarks: Counter[str] = Counter()
    return ArchiveDocument.read(
        archive, name, _OPEN_PARTS, lambda path, content: _part(content, f"{name}/{path}", remarks), remarks
    )


def _part(data: bytes, name: str, remarks: Counter[str]) -> TextDocument:
    file = decode_xml(data, name)
    nodes = xml_nodes(file, remarks)
    partner = matching(nodes)
    check_depth(file, nodes, partner, _TEXTS | _PAIRED)
    segments: list[Segment] = []
    skipped = -1
    for number, node in enumerate(nodes):
        if node.kind != "open" or number < skipped:
            continue
        is_formula = node.local == "table-cell" and "table:formula" in node.attributes
        if is_formula or node.local in _KEPT:
            skipped = partner[number]
            remarks[FORMULAS] += is_formula
        elif node.local in _TEXTS:
            start, end = node.end, nodes[partner[number]].start
            content = _content(nodes, partner, number + 1, partner[number])
            if has_words(plain(content)):
                write = partial(render, escape=escaper(file.text[start:end]))
                segments.append(file.segment(start, end, content, write))
    return TextDocument(file, segments, markup=False, errors="xmlcharrefreplace")


def _content(nodes: Sequence[Node], partner: dict[int, int], first: int, last: int) -> Content:
    """Return text and tags; other elements than spans and marks stand for a word, such as fields."""
    items: list[Item] = []
    number, closes = first, dict[int, int]()
    while number < last:
        node, end = nodes[number], partner.get(number, number)
        if node.kind in ("text", "cdata"):
            items += text_items(node.raw) if node.kind == "text" else [node.text]
        elif node.kind == "open" and node.local in _PAIRED:
            items.append(Tag("open", node.raw, number + 1))
            closes[end] = number + 1
        elif number in closes:
            items.append(Tag("close", node.raw, closes[number]))
        else:
            raw = "".join(other.raw for other in nodes[number : end + 1])
            is_mark, ends = node.local in _MARKS or node.kind == "other", node.local in ("line-break", "tab")
            items.append(Tag("void" if is_mark else "word", raw, number + 1, ends, start=node.start))
            number = end
        number += 1
    return tuple(item for item in items if item != "")
