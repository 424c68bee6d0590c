"""Translators of the families of Hugging Face whose tokenizer is a tokenizer.json: T5, BART, mBART, PEGASUS, M2M100.

Ids are put into our order: padding, begin, end, unknown, then the others in theirs. Languages that a source or a target
begins with are entries of the vocabulary: that of the source is typed before the text, that of the target is fixed.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers

from dikkat.config import DecodingConfig
from dikkat.interop.checkpoint_folder import ForeignSettings, read_checkpoint
from dikkat.interop.family import Family, table
from dikkat.interop.foreign_translator import (
    ForeignTranslator,
    Languages,
    our_shapes,
    our_weights,
    reordered,
    sized,
    translator_config,
)
from dikkat.interop.huggingface_marian import read_generation
from dikkat.interop.piece_vocabulary import VocabularyOrder
from dikkat.models.factory import Factory
from dikkat_runtime.errors import DataError
from dikkat_runtime.special_tokens import SPECIAL_TOKENS
from dikkat_runtime.text.tokenizer import Tokenizer, read_tokenizer

_UNKNOWN = ("<unk>", "[UNK]", "<|endoftext|>")


def read_pair(folder: Path, theirs: ForeignSettings, family: Family, target: str | None = None) -> ForeignTranslator:
    """Read the translator in a folder with the settings `theirs`, which writes the language `target` where it can.

    Raises `MissingInputError` or `DataError` naming the first weight, setting or entry that does not fit.
    """
    checkpoint = read_checkpoint(theirs.path.parent, family.prefixes, family.heads, family.constants)
    model = translator_config(family.settings(theirs, checkpoint.weights), theirs.path)
    if max(model.encoder_layers, model.decoder_layers) > len(checkpoint.weights):
        raise DataError("{settings}: describes more layers than {name} has weights for").fill(
            theirs.path, checkpoint.path.name
        )
    rows = table(family.keys(model, theirs), our_shapes(model, Factory.encoder_decoder, theirs.path), model)
    # by names, shapes and types first: numbers are read only where the whole file fits
    our_weights(rows, checkpoint.weights, model, theirs.path, checkpoint.path)
    path = folder / "tokenizer.json"
    content = read_tokenizer(path)[0]
    order = _order(theirs, content, model.vocab_size, path)
    tokenizer = reordered_tokenizer(content, order)
    forced = theirs.values.get("forced_bos_token_id") if target is None else _entry(content, target, path)
    sizes = sized(model, (order,))
    if isinstance(forced, int):
        sizes = sizes.model_copy(update={"target_prefix": order.rows.index(forced, len(SPECIAL_TOKENS))})
    generation = read_generation(folder, theirs)
    ours = our_weights(rows, checkpoint.loaded().weights, model, theirs.path, checkpoint.path)
    return ForeignTranslator(
        "Hugging Face",
        sizes,
        reordered(ours, (order,)),
        tuple(rows),
        (order,),
        (tokenizer,),
        DecodingConfig(length_penalty=generation.length_penalty, thorough=True),
        Languages(),
        generation.left_out,
    )


def _order(theirs: ForeignSettings, content: Mapping[str, Any], size: int, path: Path) -> VocabularyOrder:
    padding, end = theirs.number("pad_token_id"), theirs.number("eos_token_id")
    begin = theirs.number("decoder_start_token_id", padding)
    entries = _entries(content)
    unknown = next((entries[name] for name in _UNKNOWN if name in entries), None)
    if unknown is None or not all(isinstance(one, int) and 0 <= one < size for one in (padding, end, begin)):
        raise DataError("{path}: must have an unknown entry, and those of {settings} for padding and end").fill(
            path, theirs.path.name
        )
    if max(entries.values()) >= size:
        raise DataError("{tokenizer}: has {size} entries, but the model has only {vocab_size}").fill(
            path, max(entries.values()) + 1, size
        )
    special = (padding, begin, end, unknown)
    return VocabularyOrder((*special, *(number for number in range(size) if number not in special)))


def _entries(content: Mapping[str, Any]) -> dict[str, int]:
    """Return the ids of all entries of a tokenizer."""
    vocabulary = content["model"]["vocab"]
    listed = vocabulary if isinstance(vocabulary, dict) else {entry[0]: at for at, entry in enumerate(vocabulary)}
    return {**listed, **{entry["content"]: entry["id"] for entry in content.get("added_tokens", [])}}


def _entry(content: Mapping[str, Any], name: str, path: Path) -> int:
    entries = _entries(content)
    if name not in entries:
        raise DataError("{path}: has no entry {name}", path, name)
    return entries[name]


def reordered_tokenizer(content: Mapping[str, Any], order: VocabularyOrder) -> Tokenizer:
    """Return the tokenizer with its entries in our order, those with a meaning of their own by our names."""
    by_id = {number: name for name, number in _entries(content).items()}
    count = len(SPECIAL_TOKENS)
    names = [*SPECIAL_TOKENS, *(by_id.get(row, f"<unused{row}>") for row in order.rows[count:])]
    model = dict(content["model"])
    if isinstance(model["vocab"], dict):
        model |= {"vocab": {name: number for number, name in enumerate(names)}, "unk_token": SPECIAL_TOKENS[3]}
        del_unknown = content["model"].get("unk_token") is None
        model["unk_token"] = None if del_unknown else SPECIAL_TOKENS[3]
    else:
        scores = dict(map(tuple, model["vocab"]))
        least = min(scores.values())
        model |= {"vocab": [[name, scores.get(name, least)] for name in names], "unk_id": 3}
    special = {by_id.get(row): SPECIAL_TOKENS[number] for number, row in enumerate(order.rows[:count])}
    added = [
        {**entry, "id": names.index(special.get(entry["content"], entry["content"])), "special": False}
        for entry in content.get("added_tokens", [])
        if entry["content"] not in special
    ]
    marks = [
        {"id": number, "content": name, "special": True, "normalized": False, "single_word": False, "lstrip": False,
         "rstrip": False}
        for number, name in enumerate(SPECIAL_TOKENS)
    ]  # fmt: skip
    whole = {**content, "model": model, "added_tokens": [*marks, *sorted(added, key=lambda entry: entry["id"])]}
    whole |= {"post_processor": None, "truncation": None, "padding": None}
    return Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(whole)), whole)
