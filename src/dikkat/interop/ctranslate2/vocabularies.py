"""The vocabularies of a CTranslate2 folder, and the tokenizers next to them, which it does not know itself."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.piece_vocabulary import VocabularyOrder, side_tokenizers
from dikkat.interop.sentencepiece_file import read_sentencepiece
from dikkat_runtime.engine.shortlist import Shortlist
from dikkat_runtime.errors import DataError, MissingInputError
from dikkat_runtime.run.parts import TARGET_TOKENIZER
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, SPECIAL_TOKENS, UNK_ID
from dikkat_runtime.text.foreign_json import MAX_BYTES, read_json, read_regular, shown
from dikkat_runtime.text.tokenizer import Tokenizer

# The shortlist of a run as CTranslate2 has it: `vmap.txt`, whose words it writes alone with `use_vmap=True`.
#
# A line is a piece of the source, a tab, and words of the target with spaces between them; those of the line that
# begins with the tab may always be written (src/vocabulary_map.cc).

VMAP = "vmap.txt"
_PARTS_LINES = re.compile(r"[ \t\r\n]|^$")
"""What no name of an entry may hold."""


def vmap_file(
    shortlist: Shortlist, sources: Sequence[str], targets: Sequence[str], *, reads_unknown: bool
) -> bytes | None:
    """Return the file of a shortlist; `sources` and `targets` are the entries of both sides by their ids.

    Returns None where CTranslate2 would choose among other words. It always allows the unknown; it looks up a piece
    that it does not know by its own text, so that the unknown has no words, which matters where a source may hold it
    (`reads_unknown`); and it cannot read names with white space.
    """
    lists = [shortlist.words[start:end] for start, end in zip(shortlist.starts[:-1], shortlist.starts[1:], strict=True)]
    # the end mark is added to a source after the look-up
    always = np.union1d(shortlist.always, lists[EOS_ID])
    if UNK_ID not in always or (reads_unknown and np.setdiff1d(lists[UNK_ID], always).size):
        return None
    named = [
        (sources[piece], words) for piece, words in enumerate(lists) if words.size and piece not in (EOS_ID, UNK_ID)
    ]
    written = {targets[word] for word in np.union1d(always, shortlist.words)}
    if any(map(_PARTS_LINES.search, (*written, *(name for name, _ in named)))):
        return None
    lines = [f"{name}\t{' '.join(targets[word] for word in words)}\n" for name, words in [("", always), *named]]
    return "".join(lines).encode()


# Checksums of an exported folder, kept in its config.json: CTranslate2 has none, and reads flipped bits as weights.

OWN, SUMS, SETTINGS = "dikkat", "sha256", "config.json"
"""Our entry of config.json, in which an export keeps what CTranslate2 does not ask for, and the checksums in it."""
_MAX_SIZE = 1 << 34


def with_checksums(config: Mapping[str, Any], files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the settings with the checksum of each file, and of themselves."""
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    return {**config, OWN: {**config[OWN], SUMS: {**sums, SETTINGS: _own_sum(config)}}}


def check_checksums(folder: Path, config: Mapping[str, Any]) -> None:
    """Raise `DataError` naming a file of the folder that is not as it was written."""
    sums = config[OWN].get(SUMS)
    if not isinstance(sums, dict) or SETTINGS not in sums:
        raise DataError("{folder}: damaged: it has lost its checksums; export the model anew", folder / SETTINGS)
    for name, wanted in sums.items():
        if Path(name).name != name:
            raise DataError("{folder}: names a file outside the folder: {name}", folder / SETTINGS, shown(name))
        actual = (
            _own_sum(config) if name == SETTINGS else hashlib.sha256(read_regular(folder / name, _MAX_SIZE)).hexdigest()
        )
        if actual != wanted:
            raise DataError(
                "{folder}: damaged: its content does not match its checksum; export the model anew", folder / name
            )


def _own_sum(config: Mapping[str, Any]) -> str:
    own = {name: value for name, value in config[OWN].items() if name != SUMS}
    return hashlib.sha256(json.dumps({**config, OWN: own}, sort_keys=True).encode()).hexdigest()


SHARED, SIDES = "shared_vocabulary", ("source_vocabulary", "target_vocabulary")
OWN_TOKENIZER = "tokenizer.json"
MARKS = ("<blank>", "<s>", "</s>", "<unk>")
"""The special entries, in the order of our ids, as programs with SentencePiece spell them."""
PIECES = (("source.spm", "target.spm"), ("sentencepiece.model",))
"""Files with the pieces of each side, or one of both."""


def read_entries(folder: Path, config: ForeignSettings) -> tuple[list[str], ...]:
    """Return the entries by their ids: one list for both sides where they are the same.

    CTranslate2 puts the unknown after the others where a list lacks it. Raises `MissingInputError` or `DataError`
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
        raise MissingInputError("{folder}: there is no {shared}.json, nor {source}.json and {target}.json").fill(
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
) -> tuple[tuple[VocabularyOrder, ...], tuple[Tokenizer, ...]]:
    """Return the order of ids of `count` vocabularies, 1 or 2, and the tokenizers that the files next to them make.

    `pieces` is the SentencePiece model of both sides where it stands elsewhere.

    Raises `MissingInputError` where there is no tokenizer, and `DataError` for marks that no entry has.
    """
    lists = [entries[min(side, len(entries) - 1)] for side in range(count)]
    if all(tuple(one[: len(SPECIAL_TOKENS)]) == SPECIAL_TOKENS for one in entries):
        return _own(folder, config, entries, lists)
    if len(entries) > count:
        raise DataError("{folder}: has two vocabularies, but one matrix for both", folder)
    orders = tuple(_order(config, one, starts_from_zero) for one in lists)
    files = next((names for names in PIECES if all((folder / name).exists() for name in names)), ())
    models = [read_sentencepiece(path) for path in ([folder / name for name in files] if pieces is None else [pieces])]
    if not models:
        raise MissingInputError(
            "{folder}: CTranslate2 keeps no tokenizer; put source.spm and target.spm next to model.bin, or the "
            "sentencepiece.model of both sides"
        ).fill(folder)
    return side_tokenizers(models, orders, lists)


def _own(
    folder: Path, config: ForeignSettings, entries: Sequence[list[str]], lists: Sequence[list[str]]
) -> tuple[tuple[VocabularyOrder, ...], tuple[Tokenizer, ...]]:
    """Those of a folder that dikkat wrote, whose ids are ours."""
    for name, only in {"decoder_start_token": SPECIAL_TOKENS[1], "eos_token": SPECIAL_TOKENS[EOS_ID]}.items():
        config.require(name, only)
    names = (OWN_TOKENIZER, TARGET_TOKENIZER)[: max(len(entries), len(lists))]
    tokenizers = [Tokenizer.load(folder / name) for name in names]
    for name, tokenizer, own in zip(names, tokenizers, entries if len(entries) == len(names) else lists, strict=True):
        if tokenizer.entries != own:
            raise DataError("{folder}: has other entries than the vocabulary next to it", folder / name)
    return tuple(VocabularyOrder(tuple(range(len(one)))) for one in lists), tuple(tokenizers)


def _listed(folder: Path, name: str) -> list[str] | None:
    path = folder / f"{name}.json"
    entries: list[str]
    if path.exists():
        entries = read_json(path, "a vocabulary")
        if not isinstance(entries, list) or not all(isinstance(entry, str) for entry in entries):
            raise DataError("{path}: must be a list of entries", path)
    elif (path := folder / f"{name}.txt").exists():
        try:
            entries = read_regular(path, MAX_BYTES).decode("utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError:
            raise DataError("{path}: is not text in UTF-8", path) from None
        # CTranslate2 takes off the returns of Windows only where every line has one
        if all(entry.endswith("\r") for entry in entries):
            entries = [entry.removesuffix("\r") for entry in entries]
    else:
        return None
    if len(set(entries)) < len(entries):
        raise DataError("{path}: an entry occurs twice", path)
    return entries


def _order(config: ForeignSettings, entries: Sequence[str], starts_from_zero: bool) -> VocabularyOrder:
    ids = {entry: number for number, entry in enumerate(entries)}
    marks = {}
    wanted = {"eos_token": "</s>", "unk_token": "<unk>"} | ({} if starts_from_zero else {"decoder_start_token": "<s>"})
    for name, default in wanted.items():
        token = config.values.get(name, default)
        if not isinstance(token, str) or token not in ids:
            raise DataError(
                "{path}: {name} = {token} must be an entry of the vocabulary", config.path, name, shown(repr(token))
            )
        marks[name] = ids[token]
    begin, end, unknown = marks.get("decoder_start_token"), marks["eos_token"], marks["unk_token"]
    is_ours = OWN in config.values and tuple(entries[: len(MARKS)]) == MARKS
    if is_ours and (begin, end, unknown) == (BOS_ID, EOS_ID, UNK_ID):
        # dikkat wrote the folder in the order of its own ids, in which the padding is not an entry that is written
        return VocabularyOrder(tuple(range(len(entries))))
    return VocabularyOrder.of(len(entries), end=end, unknown=unknown, padding=begin)
