"""Unpack a zip of a stranger: no file outside its folder, no link, nothing that grows to many times its size."""

import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from dikkat_runtime.errors import DataError, DikkatError
from dikkat_runtime.files import write_errors
from dikkat_runtime.text.foreign_json import require_regular, shown

Parts = tuple[str, ...]
Choose = Callable[[list[Parts]], dict[Parts, Parts]]
"""Of the paths of all files those that are read, each with its path in the folder; raises `DataError`."""
_MAX_FILES = 1 << 12
_MAX_GROWTH = 50
"""Weights hardly shrink in a zip: a package that is so many times larger unpacked is an attack."""
_MAX_BYTES = 1 << 33
_CHUNK = 1 << 20


@contextmanager
def unpacked(path: Path, choose: Choose) -> Iterator[Path]:
    """Yield a folder with the files of a package that are read, which is removed afterwards.

    Raises `DataError` for a damaged zip, or one that names files elsewhere or unpacks to many times its size. Errors of
    dikkat about the folder name the package instead.
    """
    require_regular(path)
    with tempfile.TemporaryDirectory(prefix="dikkat-import-") as name:
        folder = Path(name)
        try:
            with zipfile.ZipFile(path) as archive:
                entries = _checked(path, archive)
                for parts, inside in choose(list(entries)).items():
                    _extract(archive, entries[parts], folder.joinpath(*inside))
        except DikkatError:
            raise
        # zipfile raises whatever a damaged header leads to
        except Exception as error:
            raise DataError("{path}: not a readable zip ({error})", path, shown(str(error))) from None
        try:
            yield folder
        except DikkatError as error:
            # the folder is gone when this is read
            raise type(error)(error.args[0].replaced(str(folder), str(path))) from None


def _checked(path: Path, archive: zipfile.ZipFile) -> dict[Parts, zipfile.ZipInfo]:
    """Return all files by their paths, none of which leads out of the package."""
    entries = archive.infolist()
    size = sum(entry.file_size for entry in entries)
    # what a zip says of its parts may be more than there is
    packed = min(sum(entry.compress_size for entry in entries), path.stat().st_size)
    if len(entries) > _MAX_FILES or size > min(_MAX_BYTES, _MAX_GROWTH * max(packed, 1 << 16)):
        raise DataError(
            "{path}: not a package: it has {count:,} files that unpack to {size:,} bytes", path, len(entries), size
        )
    files = {}
    for entry in entries:
        parts = PurePosixPath(entry.filename).parts
        if "\\" in entry.filename or entry.filename.startswith("/") or ".." in parts or not parts:
            raise DataError("{path}: names a file outside the package: {filename}", path, shown(entry.filename))
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise DataError("{path}: holds a link: {filename}", path, shown(entry.filename))
        if not entry.is_dir():
            files[parts] = entry
    return files


def _extract(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, target: Path) -> None:
    left = entry.file_size
    with write_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(entry) as source, target.open("xb") as out:
            while chunk := source.read(_CHUNK):
                left -= len(chunk)
                if left < 0:
                    raise ValueError(f"{entry.filename} is larger than it says")
                out.write(chunk)
