"""Packages of Argos Translate (`.argosmodel`): a zip of a CTranslate2 folder, its tokenizer, and metadata.json."""

from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.ctranslate2.reading import PREFIX, read_ctranslate2, with_target_prefix
from dikkat.interop.ctranslate2.vocabularies import VMAP
from dikkat.interop.foreign_translator import ForeignTranslator, Languages, language_code
from dikkat.interop.guarded_zip import Parts, unpacked
from dikkat_runtime.errors import DataError, DikkatError, msg
from dikkat_runtime.text.foreign_json import require_regular, shown

SUFFIX = ".argosmodel"
METADATA, MODEL, PIECES, BPE = "metadata.json", "model", "sentencepiece.model", "bpe.model"
_UNREAD = ("stanza", "minisbd", "spacy", "README.md")
"""What finds the ends of sentences there; dikkat finds them by itself."""


def is_argos(path: Path) -> bool:
    """Return whether a path is a package of Argos, or a folder that one was unpacked to."""
    if path.is_dir():
        return (path / METADATA).is_file() and (path / MODEL).is_dir()
    return path.suffix.lower() == SUFFIX


def read_argos(path: Path) -> ForeignTranslator:
    """Read the translator in a package, or in the folder that it was unpacked to.

    Raises `MissingInputError`, or `DataError` for a damaged zip, a file outside it, or what dikkat does not compute.
    """
    if path.is_dir():
        return _translator(path)
    require_regular(path)
    with opened_package(path) as folder:
        try:
            return _translator(folder)
        except DikkatError as error:
            # the folder is gone when this is read
            raise type(error)(error.args[0].replaced(str(folder), str(path))) from None


def _translator(folder: Path) -> ForeignTranslator:
    metadata = ForeignSettings.read(folder / METADATA)
    if metadata.values.get("type", "translate") != "translate":
        raise DataError(
            '{path}: type must be "translate", not {value}', metadata.path, shown(repr(metadata.values["type"]))
        )
    if not (folder / PIECES).exists() and (folder / BPE).exists():
        raise DataError(
            "{folder}: the tokenizer of Moses with subword-nmt is not supported; only {pieces} is", folder / BPE, PIECES
        )
    codes = (language_code(metadata.values.get(name)) for name in ("from_code", "to_code"))
    translator = read_ctranslate2(folder / MODEL, Languages(*codes), folder / PIECES)
    # Argos Translate writes any word
    unread = tuple(name for name in (*_UNREAD[:-1], f"{MODEL}/{VMAP}") if (folder / name).exists())
    translator = with_target_prefix(translator, metadata.values.get(PREFIX) or None, metadata.path)
    return replace(translator, toolkit=msg("Argos Translate"), left_out=(*translator.left_out, *unread))


def opened_package(path: Path) -> AbstractContextManager[Path]:
    """Yield a folder with the files of a package that are read; see `unpacked`."""
    return unpacked(path, lambda files: _chosen(path, files))


def _chosen(path: Path, files: list[Parts]) -> dict[Parts, Parts]:
    """Return the files that are read, each with its path in the one folder of the package."""
    roots = {parts[0] for parts in files}
    if len(roots) != 1:
        raise DataError(
            "{path}: not a package: it must hold one folder with {file}, not {count}", path, METADATA, len(roots)
        )
    inside = {parts: parts[1:] for parts in files if len(parts) > 1}
    return {
        parts: rest for parts, rest in inside.items() if rest[0] == MODEL or (len(rest) == 1 and rest[0] not in _UNREAD)
    }
