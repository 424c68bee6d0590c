"""The vocabularies of a CTranslate2 folder, and the tokenizers beside them, which it does not know itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dikkat.interop.ctranslate2.checksums import OWN
from dikkat.interop.foreign_settings import ForeignSettings
from dikkat.interop.piece_vocabulary import VocabularyOrder, side_tokenizers
from dikkat.interop.sentencepiece_file import read_sentencepiece
from dikkat_runtime.errors import DataError, MissingInputError
from dikkat_runtime.run.parts import TARGET_TOKENIZER
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, SPECIAL_TOKENS, UNK_ID
from dikkat_runtime.text.foreign_json import MAX_BYTES, read_json, read_regular, shown
from dikkat_runtime.text.tokenizer import Tokenizer

SHARED, SIDES = "shared_vocabulary", ("source_vocabulary", "target_vocabulary")
OWN_TOKENIZER = "tokenizer.json"
MARKS = ("<blank>", "<s>", "</s>", "<unk>")
"""The special entries, in the order of our ids, as programs with SentencePiece spell them."""
PIECES = (("source.spm", "target.spm"), ("sentencepiece.model",))
"""Files with the pieces of each side, or one of both."""


@dataclass(frozen=True, slots=True)
class Vocabularies:
    """Hold what a text becomes ids by."""

    orders: tuple[VocabularyOrder, ...]
    tokenizers: tuple[Tokenizer, ...]


def read_entries(folder: Path, config: ForeignSettings) -> tuple[list[str], ...]:
    """Return the entries by their ids: one list for both sides where they are the same.

    CTranslate2 puts the unknown behind the others where a list lacks it. Raises `MissingInputError` or `DataError`
    naming the file.
    """
    lists = [_listed(folder, name) for name in (SHARED, *SIDES)]
    unknown = config.values.get("unk_token", "<unk>")
    for one in lists:
        if one is not None and isinstance(unknown, str) and unknown not in one:
            one.append(unknown)
    if lists[0] is not None:
        return (lists[0],)
    if lists[1] is None or lists[2] is None:
        raise MissingInputError("{folder}: there is no {shared}.json, nor {sides}.json and {sides2}.json").fill(
            folder, SHARED, SIDES[0], SIDES[1]
        )
    return (lists[1],) if lists[1] == lists[2] else (lists[1], lists[2])


def read_vocabularies(
    folder: Path,
    config: ForeignSettings,
    entries: Sequence[list[str]],
    *,
    starts_from_zero: bool,
    count: int,
    pieces: Path | None = None,
) -> Vocabularies:
    """Return the order of ids of `count` vocabularies, 1 or 2, and the tokenizers that the files beside them make.

    `pieces` is the SentencePiece model of both sides where it stands elsewhere.

    Raises `MissingInputError` where there is no tokenizer, and `DataError` for marks that no entry has.
    """
    lists = [entries[min(side, len(entries) - 1)] for side in range(count)]
    if all(tuple(one[: len(SPECIAL_TOKENS)]) == SPECIAL_TOKENS for one in entries):
        return _own(folder, config, entries, lists)
    if len(entries) > count:
        raise DataError("{folder}: has two vocabularies, but one matrix for both").fill(folder)
    orders = tuple(_order(config, one, starts_from_zero) for one in lists)
    files = next((names for names in PIECES if all((folder / name).exists() for name in names)), ())
    models = [read_sentencepiece(path) for path in ([folder / name for name in files] if pieces is None else [pieces])]
    if not models:
        raise MissingInputError(
            "{folder}: CTranslate2 keeps no tokenizer; put source.spm and target.spm next to model.bin, or the "
            "sentencepiece.model of both sides"
        ).fill(folder)
    return Vocabularies(*side_tokenizers(models, orders, lists))


def _own(
    folder: Path, config: ForeignSettings, entries: Sequence[list[str]], lists: Sequence[list[str]]
) -> Vocabularies:
    """Those of a folder that dikkat wrote, whose ids are ours."""
    marks = {"decoder_start_token": SPECIAL_TOKENS[1], "eos_token": SPECIAL_TOKENS[EOS_ID]}
    for name, only in marks.items():
        config.require(name, only)
    names = (OWN_TOKENIZER, TARGET_TOKENIZER)[: max(len(entries), len(lists))]
    tokenizers = [Tokenizer.load(folder / name) for name in names]
    for name, tokenizer, own in zip(names, tokenizers, entries if len(entries) == len(names) else lists, strict=True):
        if tokenizer.entries != own:
            raise DataError("{folder}: has other entries than the vocabulary next to it").fill(folder / name)
    return Vocabularies(tuple(VocabularyOrder(tuple(range(len(one)))) for one in lists), tuple(tokenizers))


def _listed(folder: Path, name: str) -> list[str] | None:
    path = folder / f"{name}.json"
    entries: list[str]
    if path.exists():
        entries = read_json(path, "a vocabulary")
        if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
            raise DataError("{path}: must be a list of entries").fill(path)
    elif (path := folder / f"{name}.txt").exists():
        try:
            entries = read_regular(path, MAX_BYTES).decode("utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError:
            raise DataError("{path}: is not text in UTF-8").fill(path) from None
        # CTranslate2 takes off the returns of Windows only where every line has one
        if all(entry.endswith("\r") for entry in entries):
            entries = [entry.removesuffix("\r") for entry in entries]
    else:
        return None
    if len(set(entries)) < len(entries):
        raise DataError("{path}: an entry is there twice").fill(path)
    return entries


def _order(config: ForeignSettings, entries: Sequence[str], starts_from_zero: bool) -> VocabularyOrder:
    ids = {entry: number for number, entry in enumerate(entries)}
    marks = {}
    wanted = {"eos_token": "</s>", "unk_token": "<unk>"} | ({} if starts_from_zero else {"decoder_start_token": "<s>"})
    for name, default in wanted.items():
        token = config.values.get(name, default)
        if not isinstance(token, str) or token not in ids:
            raise DataError("{path}: {name} = {token} must be an entry of the vocabulary").fill(
                config.path, name, shown(repr(token))
            )
        marks[name] = ids[token]
    begin, end, unknown = marks.get("decoder_start_token"), marks["eos_token"], marks["unk_token"]
    is_ours = OWN in config.values and tuple(entries[: len(MARKS)]) == MARKS
    if is_ours and (begin, end, unknown) == (BOS_ID, EOS_ID, UNK_ID):
        # dikkat wrote the folder in the order of its own ids, in which the padding is no entry that is written
        return VocabularyOrder(tuple(range(len(entries))))
    return VocabularyOrder.of(len(entries), end=end, unknown=unknown, padding=begin)
