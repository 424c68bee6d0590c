"""Read zip archives of strangers within bounds, and write them entry by entry."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from dikkat_runtime.errors import DataError

MAX_ARCHIVE_SIZE = 512 << 20
"""Bytes of all entries together, unpacked."""
MAX_ENTRIES = 10_000


@dataclass(frozen=True)
class Archive:
    """The entries of an archive with their content, in order."""

    entries: list[tuple[zipfile.ZipInfo, bytes]]
    comment: bytes

    @classmethod
    def read(cls, data: bytes, name: str) -> Archive:
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
                return cls(entries, file.comment)
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, OSError) as error:
            raise DataError("{name}: damaged, or not a zip archive ({error})", name, error) from None

    def content(self, path: str) -> bytes | None:
        """Return the content of one entry, or None."""
        return next((content for info, content in self.entries if info.filename == path), None)

    def write(self, changed: Mapping[str, bytes]) -> bytes:
        """Return the archive with other contents of some entries; all else stays."""
        target = io.BytesIO()
        with zipfile.ZipFile(target, "w") as file:
            file.comment = self.comment
            for info, content in self.entries:
                copy = zipfile.ZipInfo(info.filename, info.date_time)
                copy.compress_type, copy.external_attr, copy.comment = (
                    info.compress_type,
                    info.external_attr,
                    info.comment,
                )
                copy.create_system, copy.extra = info.create_system, b""
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
