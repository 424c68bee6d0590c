"""Which foreign `tokenizer.json` is used: of known components, with the ids 0 to n - 1, each once.

What others could hold costs time or memory without bound: patterns that backtrack, replacements that grow, ids near
2^32. The families that are imported need none of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dikkat.errors import DataError
from dikkat.text.foreign_json import read_json, shown

_KNOWN = {
    "model": {"WordPiece", "WordLevel", "BPE"},
    "normalizer": {"Sequence", "BertNormalizer", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Strip"},
    "pre_tokenizer": {
        "Sequence", "BertPreTokenizer", "ByteLevel", "Whitespace", "WhitespaceSplit", "Punctuation", "Digits",
    },
    "post_processor": {"Sequence", "BertProcessing", "RobertaProcessing", "TemplateProcessing", "ByteLevel"},
    "decoder": {"Sequence", "WordPiece", "ByteLevel", "Fuse", "BPEDecoder", "Strip"},
}  # fmt: skip
_LISTS = ("normalizers", "pretokenizers", "processors", "decoders")
_MOST_COMPONENTS = 16
_LONGEST_FRAME = 16
_LONGEST_WORD = 1000
"""WordPiece takes time that grows with the square of a word's length."""


def check_foreign_tokenizer(path: Path) -> None:
    """Raise `MissingInputError` or `DataError`, naming the file and what in it is not used."""
    content = read_json(path, "a readable tokenizer")
    try:
        complaint = next(_complaints(content), None)
    except (TypeError, AttributeError, LookupError, ValueError) as error:
        complaint = f"its content is not that of a tokenizer: {shown(str(error))}"
    if complaint is not None:
        raise DataError(f"{path}: not a readable tokenizer ({complaint})")


def _complaints(content: Mapping[str, Any]) -> Iterator[str]:
    for part, known in _KNOWN.items():
        components = list(_components(content.get(part), part))
        for kind in components:
            if kind not in known:
                yield f"dikkat does not use the {part} {shown(kind)}; it uses {', '.join(sorted(known))}"
        if len(components) > _MOST_COMPONENTS:
            yield f"{len(components):,} components in its {part}"
    model = content["model"]
    if model.get("dropout"):
        yield "its model drops merges at random"
    if int(model.get("max_input_chars_per_word") or 0) > _LONGEST_WORD:
        yield f"its longest word has more than {_LONGEST_WORD:,} characters"
    yield from _wrong_ids(model["vocab"], content.get("added_tokens") or [])
    frame = content.get("post_processor") or {}
    if max(len(frame.get("single") or []), len(frame.get("pair") or [])) > _LONGEST_FRAME:
        yield f"it puts more than {_LONGEST_FRAME} special tokens around a text"


def _components(component: Mapping[str, Any] | None, part: str) -> Iterator[str]:
    """The types of a component and of those inside it."""
    if component is None:
        return
    # old files leave out the type of the model
    kind = component.get("type") or ("BPE" if "merges" in component else "WordPiece") if part == "model" else None
    yield str(kind or component["type"])
    for name in _LISTS:
        for inner in component.get(name) or []:
            yield from _components(inner, "")


def _wrong_ids(vocabulary: Mapping[str, int], added: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    tokens = dict(vocabulary)
    for each in added:
        token, number = each["content"], each["id"]
        if not token:
            yield "one of its added tokens is empty"
        if tokens.setdefault(token, number) != number:
            yield f'its token "{shown(token)}" has two ids'
    ids = list(tokens.values())
    if not ids:
        yield "the vocabulary is empty"
    if not all(type(number) is int for number in ids):
        yield "an id is no whole number"
    elif sorted(ids) != list(range(len(ids))):
        yield f"the ids of its {len(ids):,} tokens are not 0 to {len(ids) - 1:,}, each once"
