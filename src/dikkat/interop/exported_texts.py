"""Texts of an exported folder: its tokenizers, as the library `tokenizers` reads them, and how long a text may be."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unicodedata import normalize

import tokenizers

from dikkat.config.position_names import ABSOLUTE_POSITIONS
from dikkat.interop.fast_tokenizer import fast_tokenizer_files
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat_runtime.errors import DataError
from dikkat_runtime.run.parts import TARGET_TOKENIZER
from dikkat_runtime.text.casing import has_dotted_i
from dikkat_runtime.text.foreign_tokenizer import AnyTokenizer

TABLE_ROWS = 1024
"""Rows of a table of fixed positions: a longer text is refused."""


def tokenizer_files(translator: TrainedTranslator) -> dict[str, Mapping[str, Any]]:
    """Return the tokenizers of a folder, by their names."""
    settings = translator.tokenizer_settings
    longest, add_eos = longest_text(translator), translator.model.add_source_eos
    files: dict[str, Mapping[str, Any]] = {**fast_tokenizer_files(settings[0], longest, add_eos=add_eos)}
    if len(settings) > 1:
        files[TARGET_TOKENIZER] = settings[1]
    return files


def longest_text(translator: TrainedTranslator) -> int | None:
    """Return the most tokens of a source or a target that the graphs take, a mark included; None is without end."""
    if translator.max_positions is not None:
        return translator.max_positions
    return TABLE_ROWS if translator.model.positions in (*ABSOLUTE_POSITIONS, "rotary") else None


def target_file(translator: TrainedTranslator) -> str:
    """Return the name of the file with the tokenizer of the target, which may be that of both sides."""
    return TARGET_TOKENIZER if len(translator.tokenizer_settings) > 1 else "tokenizer.json"


def lowercases_dotted(settings: Mapping[str, Any], language: str) -> bool:
    """Return whether a tokenizer lower-cases by the rule of Turkish, which the library tokenizers does not know.

    `settings` is its JSON, and `language` that of its texts.
    """
    return '"Lowercase"' in json.dumps(settings) and has_dotted_i(language)


def dotted_lower(text: str) -> str:
    """Return a text in the lower case of Turkish, as the Python of the readme writes it before it is cut."""
    return normalize("NFC", text).replace("İ", "i").replace("I", "ı").lower()


def exported_texts(file: Path, tokenizer: AnyTokenizer, ids: Sequence[Sequence[int]]) -> list[str]:
    """Return the texts of ids by a tokenizer that was written to `file`, read by the library tokenizers.

    Of bytes that make up no character the library writes other marks than `tokenizer`: those texts are the latter's.
    """
    theirs = tokenizers.Tokenizer.from_file(str(file))
    ours = tokenizer.decode_batch(ids)
    return [
        own if "\ufffd" in own else theirs.decode(list(row), skip_special_tokens=False)
        for own, row in zip(ours, ids, strict=True)
    ]


def check_tokenizer(
    run: Path, file: Path, texts: Sequence[str], wanted: Sequence[Sequence[int]], *, dotted: bool, framed: bool = True
) -> None:
    """Compare the ids of a written tokenizer, read by the library tokenizers, with those `wanted`.

    `dotted` says that a text is lower-cased before by the rule of Turkish, and `framed` that the tokenizer adds marks.
    """
    theirs = tokenizers.Tokenizer.from_file(str(file))
    theirs.encode_special_tokens = True
    for text, ids in zip(texts, wanted, strict=True):
        if theirs.encode(dotted_lower(text) if dotted else text, add_special_tokens=framed).ids != list(ids):
            raise DataError("{run}: the exported tokenizer cuts {text} in another way; nothing was written").fill(
                run, repr(text)
            )
