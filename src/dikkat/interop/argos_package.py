"""Packages of Argos Translate (`.argosmodel`): a zip of a CTranslate2 folder, its tokenizer, and metadata.json."""

from __future__ import annotations

import stat
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath

from dikkat.interop.ctranslate2.reading import read_ctranslate2
from dikkat.interop.foreign_settings import ForeignSettings
from dikkat.interop.foreign_translator import ForeignTranslator, Languages, language_code
from dikkat_runtime.errors import DataError, DikkatError
from dikkat_runtime.files import write_errors
from dikkat_runtime.text.foreign_json import require_regular, shown

SUFFIX = ".argosmodel"
METADATA, MODEL, PIECES, BPE = "metadata.json", "model", "sentencepiece.model", "bpe.model"
_UNREAD = ("stanza", "minisbd", "spacy", "README.md")
"""What finds the ends of sentences there; dikkat finds them by itself."""
_MOST_FILES = 1 << 12
_MOST_GROWTH = 50
"""Weights hardly shrink in a zip: a package that is so many times larger unpacked is an attack."""
_MOST_BYTES = 1 << 33
_CHUNK = 1 << 20


def is_argos(path: Path) -> bool:
    """Return whether a path is a package of Argos, or a folder that one was unpacked to."""
    if path.is_dir():
        return (path / METADATA).is_file() and (path / MODEL).is_dir()
    return path.suffix == SUFFIX


def read_argos(path: Path) -> ForeignTranslator:
    """Read the translator in a package, or in the folder that it was unpacked to.

    Raises `MissingInputError`, or `DataError` for a damaged zip, a file outside it, or what dikkat does not compute.
    """
    if path.is_dir():
        return _translator(path)
    require_regular(path)
    with unpacked(path) as folder:
        try:
            return _translator(folder)
        except DikkatError as error:
            # the folder is gone when this is read
            raise type(error)(str(error).replace(str(folder), str(path))) from None


def _translator(folder: Path) -> ForeignTranslator:
    metadata = ForeignSettings.read(folder / METADATA)
    if metadata.values.get("type", "translate") != "translate":
        raise DataError(f"{metadata.path}: type = {shown(repr(metadata.values['type']))} is no translator")
    if metadata.values.get("target_prefix"):
        raise DataError(f"{metadata.path}: target_prefix is not something that dikkat computes: it begins every output")
    if not (folder / PIECES).exists() and (folder / BPE).exists():
        raise DataError(f"{folder / BPE}: the tokenizer of Moses with subword-nmt is not read; only {PIECES} is")
    codes = (language_code(metadata.values.get(name)) for name in ("from_code", "to_code"))
    translator = read_ctranslate2(folder / MODEL, Languages(*codes), folder / PIECES)
    unread = tuple(name for name in _UNREAD[:-1] if (folder / name).exists())
    return replace(translator, toolkit="Argos Translate", left_out=(*translator.left_out, *unread))


@contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """Yield a folder with the files of a package that are read, which is removed afterwards.

    Raises `DataError` for a damaged zip, or one that names files elsewhere or unpacks to many times its size.
    """
    with tempfile.TemporaryDirectory(prefix="dikkat-argos-") as name:
        folder = Path(name)
        try:
            with zipfile.ZipFile(path) as archive:
                for entry, parts in _wanted(path, archive):
                    _extract(archive, entry, folder.joinpath(*parts))
        except DikkatError:
            raise
        # zipfile raises whatever a damaged header leads to
        except Exception as error:
            raise DataError(f"{path}: not a readable zip ({shown(str(error))})") from None
        yield folder


def _wanted(path: Path, archive: zipfile.ZipFile) -> list[tuple[zipfile.ZipInfo, tuple[str, ...]]]:
    """The files that are read, each with its path in the one folder of the package."""
    entries = archive.infolist()
    size, packed = sum(entry.file_size for entry in entries), sum(entry.compress_size for entry in entries)
    if len(entries) > _MOST_FILES or size > min(_MOST_BYTES, _MOST_GROWTH * max(packed, 1 << 16)):
        raise DataError(f"{path}: not a package: it has {len(entries):,} files that unpack to {size:,} bytes")
    roots, wanted = set(), []
    for entry in entries:
        parts = PurePosixPath(entry.filename).parts
        if "\\" in entry.filename or entry.filename.startswith("/") or ".." in parts or not parts:
            raise DataError(f"{path}: names a file outside the package: {shown(entry.filename)}")
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise DataError(f"{path}: holds a link: {shown(entry.filename)}")
        roots.add(parts[0])
        inside = parts[1:]
        if not entry.is_dir() and inside and (inside[0] == MODEL or (len(inside) == 1 and inside[0] not in _UNREAD)):
            wanted.append((entry, inside))
    if len(roots) != 1:
        raise DataError(f"{path}: not a package: it must hold one folder with {METADATA}, not {len(roots)}")
    return wanted


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
