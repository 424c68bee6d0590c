"""Read zip archives of strangers within bounds, and write them entry by entry."""

import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice
from pathlib import PurePosixPath

from dikkat_runtime.documents.decoded_file import DecodedFile, TextDocument
from dikkat_runtime.documents.segments import Content, Segment
from dikkat_runtime.documents.xml_nodes import Node
from dikkat_runtime.errors import DataError

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
                "{name}: unpacks to more than {max_ratio} times its size, as no document does; not read",
                name,
                _MAX_RATIO,
            )
        documents = [(path, document) for path, content in entries if (document := read(path, content)) is not None]
        for _, document in documents:
            if document.remarks is not remarks:
                remarks.update(document.remarks)
        segments = [segment for _, document in documents for segment in document.segments]
        return cls(archive, documents, segments, remarks)

    def write(self, translations: Sequence[Content]) -> bytes:
        """Return the document with one translation for each segment."""
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
                raise DataError(
                    "{where}: {tag} nested deeper than {max_depth}; take it out of the others",
                    where,
                    node.local,
                    _MAX_DEPTH,
                )
