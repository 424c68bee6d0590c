"""Packages of Argos Translate (`.argosmodel`): a zip of a CTranslate2 folder, its tokenizer, and metadata.json."""

import io
import json
import tempfile
import zipfile
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.ctranslate2.agreement import Checked, Precision, check_export, exported_files, spelled_prefix
from dikkat.interop.ctranslate2.reading import PREFIX, read_ctranslate2, with_target_prefix
from dikkat.interop.ctranslate2.vocabularies import VMAP
from dikkat.interop.ctranslate2.writing import opened
from dikkat.interop.foreign_translator import ForeignTranslator, Languages, language_code
from dikkat.interop.guarded_zip import Parts, unpacked
from dikkat.interop.paths import require_nothing_at
from dikkat.interop.sentencepiece_file import entries_of, pieces_of, sentencepiece_file, with_named
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat_runtime.errors import DataError, DikkatError, UsageError, msg
from dikkat_runtime.files import make_folder, write_atomically, write_errors
from dikkat_runtime.server.languages import language_name
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


_VERSION, _PROGRAM_VERSION = "1000.0", "1.9"
"""Above the versions of public packages, by which LibreTranslate would replace one of the same languages."""
_UNCHANGED = (1980, 1, 1, 0, 0, 0)
"""Time of every file, the earliest that a zip has, so that one model gives one package."""


def export_argos(run: Path, out: Path, precision: Precision) -> Checked:
    """Write the package `out`, a file that ends in .argosmodel, and return how it was checked.

    Raises `UsageError` naming a setting that a package cannot have, `DataError` where it does not translate as the run
    does, and `CannotCreateError` or `DiskError`; nothing is then written.
    """
    if out.suffix != SUFFIX:
        raise UsageError("{out}: a package of Argos is a file that ends in {suffix}; give such an --out", out, SUFFIX)
    require_nothing_at(out)
    translator = opened(run)
    _refuse(translator)
    content = _zipped(package_files(translator, precision))
    with tempfile.TemporaryDirectory(prefix="dikkat-argos-") as name:
        package = Path(name) / out.name
        with write_errors(package):
            package.write_bytes(content)
        with opened_package(package) as folder:
            checked = check_export(translator, read_argos(folder), folder / MODEL, precision)
    # another may have written there meanwhile
    require_nothing_at(out)
    with write_errors(out):
        make_folder(out.parent)
    write_atomically(out, content)
    return checked


def package_files(translator: TrainedTranslator, precision: Precision) -> dict[str, bytes]:
    """Return the files of a package by their names, in one folder."""
    source, target = translator.languages.source, translator.languages.target
    root = f"translate-{source}_{target}-{_VERSION.replace('.', '_')}"
    settings, prefix = translator.tokenizer_settings[0], spelled_prefix(translator)
    metadata = package_metadata(translator.languages) | ({} if prefix is None else {PREFIX: prefix})
    files = {
        METADATA: (json.dumps(metadata, indent=1) + "\n").encode(),
        # Argos cuts and joins by one model, and its translations hold pieces of the target
        PIECES: sentencepiece_file(
            with_named(pieces_of(settings), entries_of(translator.tokenizer_settings[-1])), settings
        ),
        "README.md": f"# {translator.run.resolve().name}\n\nA translator made by dikkat.\n".encode(),
    }
    model = exported_files(translator, precision, with_tokenizers=False)
    files |= {f"{MODEL}/{name}": content for name, content in model.items()}
    return {f"{root}/{name}": content for name, content in files.items()}


def package_metadata(languages: Languages) -> dict[str, str]:
    """Return the content of metadata.json, with the English names of the languages, or their codes."""
    return {
        "package_version": _VERSION,
        "argos_version": _PROGRAM_VERSION,
        "from_code": languages.source,
        "from_name": language_name(languages.source),
        "to_code": languages.target,
        "to_name": language_name(languages.target),
    }


def _refuse(translator: TrainedTranslator) -> None:
    if not translator.has_pieces:
        raise UsageError(
            "{run}: Argos cuts a text by SentencePiece, which a tokenizer.kind other than unigram does not follow; "
            "train one with --set tokenizer.kind=unigram, or export it with --to ctranslate2"
        ).fill(translator.run)
    if not (translator.languages.source and translator.languages.target):
        raise UsageError(
            "{run}: a package of Argos names its languages; set data.source_language and data.target_language in its "
            "config.json, and remove its manifest.json, the checksum of the old one"
        ).fill(translator.run)
    if len(translator.tokenizers) == 2 and translator.tokenizer_settings[1]["model"]["byte_fallback"]:
        raise UsageError(
            "{run}: Argos has one SentencePiece model for both sides, which does not write the bytes of the second; "
            "export it with --to ctranslate2"
        ).fill(translator.run)


def _zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name, _UNCHANGED), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()
