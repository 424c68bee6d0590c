"""Texts of an exported folder: its tokenizers, as the library `tokenizers` reads them, and how long a text may be."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unicodedata import normalize

import tokenizers

from dikkat.config.model import ABSOLUTE_POSITIONS
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat_runtime.errors import DataError
from dikkat_runtime.run.parts import TARGET_TOKENIZER
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, SPECIAL_TOKENS
from dikkat_runtime.text.casing import has_dotted_i
from dikkat_runtime.text.foreign_tokenizer import AnyTokenizer

# Read the texts that exports write: the programs and readmes next to a model, with fields in braces.

_FOLDER = Path(__file__).with_name("texts")


def template(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def chosen_lines(name: str, reasons: Mapping[str, object], **fields: object) -> list[str]:
    """Return the lines of a template, each after a reason and a colon, whose reason is true, with their fields."""
    lines = (line.partition(": ") for line in template(name).splitlines())
    return [text.format(**fields) for reason, _, text in lines if reasons.get(reason)]


# Write a tokenizer as Hugging Face's fast tokenizers and transformers.js read it.

MAX_LENGTH = 512
"""Most tokens of a text, as the folders of OPUS-MT say."""


def fast_tokenizer_files(
    settings: Mapping[str, Any], max_length: int | None, *, add_bos: bool = False, add_eos: bool = True
) -> dict[str, dict[str, Any]]:
    """Return tokenizer.json, which puts a begin mark before a text or an end mark after it, and its settings.

    `settings` is the JSON of a tokenizer of ours, whose ids stay. A text is cut at `max_length` tokens, the marks
    included, unless that is None.
    """
    limit: dict[str, Any] = {} if max_length is None else {"model_max_length": max_length}
    names = dict(zip(("pad", "bos", "eos", "unk"), SPECIAL_TOKENS, strict=True))
    marks = {"bos": BOS_ID} if add_bos else {}
    marks |= {"eos": EOS_ID} if add_eos else {}
    begin, end = ([{"SpecialToken": {"id": names[mark], "type_id": 0}}] * (mark in marks) for mark in ("bos", "eos"))
    texts = [{"Sequence": {"id": side, "type_id": 0}} for side in "AB"]
    template = {
        "type": "TemplateProcessing",
        "single": [*begin, texts[0], *end],
        "pair": [*begin, *texts, *end],
        "special_tokens": {
            names[mark]: {"id": names[mark], "ids": [number], "tokens": [names[mark]]} for mark, number in marks.items()
        },
    }
    return {
        "tokenizer.json": {**settings, "post_processor": template},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **{f"{name}_token": entry for name, entry in names.items()},
            **limit,
            "split_special_tokens": True,
            "clean_up_tokenization_spaces": False,
            "model_input_names": ["input_ids", "attention_mask"],
        },
    }


TABLE_ROWS = 1024
"""Rows of a table of fixed positions: a longer text is refused."""


def tokenizer_files(translator: TrainedTranslator) -> dict[str, Mapping[str, Any]]:
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
    return [
        own if "\ufffd" in own else theirs.decode(list(row), skip_special_tokens=False)
        for own, row in zip(tokenizer.decode_batch(ids), ids, strict=True)
    ]


def check_tokenizer(
    run: Path, file: Path, texts: Sequence[str], wanted: Sequence[Sequence[int]], *, dotted: bool, framed: bool = True
) -> None:
    """Compare the ids of a written tokenizer, read by the library tokenizers, with those `wanted`.

    `dotted` says that a text is lower-cased before by the rule of Turkish, and `framed` that the tokenizer adds marks.
    """
    theirs = tokenizers.Tokenizer.from_file(str(file))
    theirs.encode_special_tokens = True
    read = [dotted_lower(text) if dotted else text for text in texts]
    require_same_ids(run, texts, wanted, [one.ids for one in theirs.encode_batch(read, add_special_tokens=framed)])


def require_same_ids(
    run: Path, texts: Sequence[str], wanted: Sequence[Sequence[int]], ids: Sequence[Sequence[int]]
) -> None:
    """Raise `DataError` naming the first of the `texts` whose `ids` are not those `wanted`."""
    for text, own, other in zip(texts, wanted, ids, strict=True):
        if list(own) != list(other):
            raise DataError(
                "{run}: the exported tokenizer splits {text} differently; nothing was written", run, repr(text)
            )
