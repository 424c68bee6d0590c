"""The files of an exported folder: model, vocabularies, tokenizers, settings with checksums."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from dikkat.config import ModelConfig
from dikkat.interop.ctranslate2.checksums import OWN, with_checksums
from dikkat.interop.ctranslate2.layout import POSITIONS, copies, joined, rows
from dikkat.interop.ctranslate2.model_file import Array, ModelFile, model_file_bytes
from dikkat.interop.ctranslate2.quantization import SCALE, quantized
from dikkat.interop.ctranslate2.reading import CONFIG, MODEL, PREFIX
from dikkat.interop.ctranslate2.settings import LAYOUTS, scalars_of
from dikkat.interop.ctranslate2.vocabularies import MARKS, OWN_TOKENIZER, PIECES, SHARED, SIDES
from dikkat.interop.foreign_translator import BIAS, OUTPUT
from dikkat.interop.piece_vocabulary import NEVER
from dikkat.interop.sentencepiece_writing import entries_of, pieces_of, sentencepiece_file, with_named
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat.models.key_table import to_theirs
from dikkat.nn.positions import sinusoids
from dikkat_runtime.run.parts import TARGET_TOKENIZER
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID, SPECIAL_TOKENS, UNK_ID
from dikkat_runtime.text.pieces import HIDDEN

Precision = Literal["float32", "int8"]
_POSITIONS = 1024
"""Rows of a table of fixed positions, as long as a source may be: CTranslate2 cuts a source there."""


def exported_files(
    translator: TrainedTranslator, precision: Precision, *, with_tokenizers: bool = True
) -> dict[str, bytes]:
    """Return the files of a folder by their names, the settings with the checksums of the others last.

    A run whose tokenizers have the shape of SentencePiece has its models there, and any other its tokenizer.json.
    """
    files = {MODEL: model_file_bytes(variables(translator.model, translator.weights, precision))}
    lists = spelled_entries(translator)
    names = (SHARED,) if len(lists) == 1 else SIDES
    for name, entries in zip(names, lists, strict=True):
        files[f"{name}.json"] = _json(entries)
    if with_tokenizers:
        files |= tokenizer_files(translator)
    return {**files, CONFIG: _json(with_checksums(_config(translator), files))}


def spelled_entries(translator: TrainedTranslator) -> list[list[str]]:
    """Return the entries of the vocabulary by their ids, of both sides or of each, as its tokenizer spells them."""
    lists = [tokenizer.entries for tokenizer in translator.tokenizers]
    if translator.has_pieces:
        lists = [_pieces(entries) for entries in lists]
    return lists[:1] if lists[0] == lists[-1] else lists


def spelled_prefix(translator: TrainedTranslator) -> str | None:
    """Return the entry that every output begins with, as the vocabulary spells it; None where there is none."""
    number = translator.model.target_prefix
    return None if number is None else spelled_entries(translator)[-1][number]


def tokenizer_files(translator: TrainedTranslator) -> dict[str, bytes]:
    """Return the files that a text is cut by."""
    settings = translator.tokenizer_settings
    if not translator.has_pieces:
        return {name: _json(one) for name, one in zip((OWN_TOKENIZER, TARGET_TOKENIZER), settings, strict=False)}
    names = PIECES[0] if len(settings) == 2 else PIECES[1]
    pieces = [pieces_of(one) for one in settings]
    # a translation may hold pieces of the source, too, where both sides have one vocabulary
    pieces[-1] = with_named(pieces[-1], entries_of(settings[-1]))
    return {name: sentencepiece_file(own, one) for name, own, one in zip(names, pieces, settings, strict=True)}


def named_weights(model: ModelConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights by the names of our table, with a bias that keeps the padding and the begin unwritten."""
    ours = dict(weights)
    bias = ours[BIAS].clone() if model.output_bias else ours[OUTPUT].new_zeros(len(ours[OUTPUT]))
    # as in our engines, these are never written
    bias[[PAD_ID, BOS_ID]] = NEVER
    ours[BIAS] = bias
    return to_theirs(rows(model.model_copy(update={"output_bias": True})), ours)


def variables(model: ModelConfig, weights: Mapping[str, Tensor], precision: Precision) -> ModelFile:
    """Return the model of these settings and weights as CTranslate2 has it."""
    theirs = joined(named_weights(model, weights))
    if model.positions in LAYOUTS:
        theirs[POSITIONS[1]] = sinusoids(_POSITIONS, model.model_dim, LAYOUTS[model.positions])
    arrays: dict[str, Array] = {name: tensor.to(torch.float32).numpy() for name, tensor in theirs.items()}
    aliases = copies(model)
    if precision == "int8":
        arrays = quantized(arrays)
        scaled = {alias: name for alias, name in aliases.items() if name + SCALE in arrays}
        aliases |= {alias + SCALE: name + SCALE for alias, name in scaled.items()}
    return ModelFile(arrays | scalars_of(model), aliases)


def _pieces(entries: Sequence[str]) -> list[str]:
    """Entries without the mark that hides a piece of the other side, where that leaves each once."""
    taken = {*MARKS, *(entry for entry in entries if not entry.startswith(HIDDEN))}
    spelled = list(MARKS)
    for entry in entries[len(MARKS) :]:
        plain = entry.removeprefix(HIDDEN)
        hidden = plain != entry and plain in taken
        spelled.append(entry if hidden or entry in MARKS else plain)
        taken.add(plain)
    return spelled


def _config(translator: TrainedTranslator) -> dict[str, Any]:
    spelled = MARKS if translator.has_pieces else SPECIAL_TOKENS
    marks = {"bos": BOS_ID, "eos": EOS_ID, "unk": UNK_ID, "decoder_start": BOS_ID}
    return {
        **{f"{mark}_token": spelled[number] for mark, number in marks.items()},
        "add_source_bos": False,
        "add_source_eos": translator.model.add_source_eos,
        "layer_norm_epsilon": translator.model.norm_eps,
        "multi_query_attention": False,
        OWN: {
            **({} if (prefix := spelled_prefix(translator)) is None else {PREFIX: prefix}),
            "source_language": translator.languages.source,
            "target_language": translator.languages.target,
            "length_penalty": translator.length_penalty,
            "thorough": translator.thorough,
        },
    }


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")
