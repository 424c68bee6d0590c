"""OPUS-MT as the project publishes it: a zip of a Marian model, decoder.yml, vocabulary and SentencePiece models."""

from dataclasses import replace
from pathlib import Path

from dikkat.interop.foreign_translator import ForeignTranslator
from dikkat.interop.guarded_zip import Parts, unpacked
from dikkat.interop.marian import read_marian
from dikkat_runtime.errors import DataError

SUFFIX = ".zip"
_READ = (".npz", ".yml", ".spm")
_BPE = (".bpe", ".tcmodel")


def is_opus(path: Path) -> bool:
    """Return whether a path is a zip."""
    return path.suffix.lower() == SUFFIX and not path.is_dir()


def read_opus(path: Path) -> ForeignTranslator:
    """Read the translator in a zip.

    Raises `MissingInputError`, or `DataError` for a damaged zip, a file outside it, or what dikkat does not compute.
    """
    with unpacked(path, lambda files: _chosen(path, files)) as folder:
        return replace(read_marian(folder), toolkit="OPUS-MT")


def _chosen(path: Path, files: list[Parts]) -> dict[Parts, Parts]:
    """Return the files next to decoder.yml that are read, which all stand in one folder, or in none."""
    decoders = [parts for parts in files if parts[-1] == "decoder.yml"]
    if len(decoders) != 1:
        raise DataError(
            "{path}: not a package of OPUS-MT: it must hold one decoder.yml, not {count}", path, len(decoders)
        )
    files_there = [parts for parts in files if parts[:-1] == decoders[0][:-1]]
    if any(parts[-1].endswith(_BPE) for parts in files_there) and not any(
        parts[-1].endswith(".spm") for parts in files_there
    ):
        raise DataError(
            "{path}: the tokenizer of Moses with subword-nmt is not supported; only SentencePiece (.spm) is", path
        )
    return {parts: parts[-1:] for parts in files_there if parts[-1].endswith(_READ)}
