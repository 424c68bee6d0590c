"""Translators of the families of Hugging Face: MarianMT, T5, BART, mBART, PEGASUS, M2M100.

The tokenizer is a tokenizer.json, the SentencePiece models and vocab.json of OPUS-MT, or the bytes of ByT5. Ids are put
into our order: padding, begin, end, unknown, then the others in theirs. Languages that a source or a target begins with
are entries of the vocabulary: that of the source is typed before the text, that of the target is fixed.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import tokenizers
from torch import Tensor

from dikkat.config import DecodingConfig, ModelConfig
from dikkat.interop.checkpoint_folder import Checkpoint, ForeignSettings, read_checkpoint, same
from dikkat.interop.family import Family, settings_of, table
from dikkat.interop.foreign_translator import (
    ForeignTranslator,
    Languages,
    checked_settings,
    language_code,
    our_shapes,
    our_weights,
    reordered,
    sized,
)
from dikkat.interop.piece_vocabulary import VocabularyOrder, side_tokenizers
from dikkat.interop.sentencepiece_file import read_sentencepiece
from dikkat.models.factory import Factory
from dikkat.models.key_table import Row
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.special_tokens import SPECIAL_TOKENS
from dikkat_runtime.text.foreign_json import read_json, shown
from dikkat_runtime.text.tokenizer import BYTE_OF, Tokenizer, read_tokenizer

_GENERATION = "generation_config.json"
_USUAL: dict[str, object] = {
    "repetition_penalty": 1, "no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1, "min_length": 0, "min_new_tokens": 0, "diversity_penalty": 0,
    "num_beam_groups": 1, "do_sample": False, "early_stopping": False, "suppress_tokens": [],
    "begin_suppress_tokens": [], "exponential_decay_length_penalty": None, "sequence_bias": None,
}  # fmt: skip
"""Settings that change what is written, with the value by which they do not; null does not, either."""


def read_generation(folder: Path, config: ForeignSettings) -> tuple[ForeignSettings, float, tuple[str, ...]]:
    """Read generation_config.json, or the `config` of an older folder, which holds the same settings.

    Returns them, the length penalty and, in words for people, the settings that change what `generate` writes and that
    no search of ours follows. Raises `DataError` for a length penalty that ours cannot be.
    """
    path = folder / _GENERATION
    settings = ForeignSettings.read(path) if path.exists() else config
    penalty = settings.number("length_penalty", 1.0)
    if not 0 <= penalty <= 5:
        raise DataError("{path}: length_penalty must be between 0 and 5, not {penalty}", settings.path, penalty)
    named = [
        name for name, usual in _USUAL.items() if (value := settings.values.get(name)) is not None and value != usual
    ]
    padding = config.values.get("pad_token_id")
    # the padding is never written here, either
    if settings.values.get("bad_words_ids") not in (None, [], [[padding]]):
        named.append("bad_words_ids")
    left_out = (
        msg("{name} = {value} of {file}, which the search here does not apply").fill(
            name, shown(str(settings.values[name])), settings.path.name
        )
        for name in named
    )
    return settings, float(penalty), tuple(left_out)


_UNKNOWN = ("<unk>", "[UNK]", "<|endoftext|>")
_COPIES = ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")


def read_pair(folder: Path, theirs: ForeignSettings, family: Family) -> ForeignTranslator:
    """Read the translator in a folder with the settings `theirs`.

    Raises `MissingInputError` or `DataError` naming the first weight, setting or entry that does not fit.
    """
    checkpoint = read_checkpoint(theirs.path.parent, family.prefixes, family.heads, family.constants)
    model = checked_settings(ModelConfig, settings_of(family, theirs, checkpoint.weights), theirs.path)
    rows = table(family.keys(model, theirs), our_shapes(model, Factory.encoder_decoder, theirs.path), model)
    # by names, shapes and types first: numbers are read only where the whole file fits
    our_weights(rows, _each_once(checkpoint, rows), model, theirs.path, checkpoint.path)
    generation, length_penalty, left_out = read_generation(folder, theirs)
    start, forced = (generation.values.get(name) for name in ("decoder_start_token_id", "forced_bos_token_id"))
    theirs = (
        theirs if start is None else ForeignSettings(theirs.path, {**theirs.values, "decoder_start_token_id": start})
    )
    orders, cutters = _vocabularies(folder, theirs, model)
    sizes = sized(model, orders)
    if forced is not None:
        if forced not in (others := orders[-1].rows[len(SPECIAL_TOKENS) :]):
            raise DataError("{path}: no text begins with forced_bos_token_id = {value}", generation.path, shown(forced))
        sizes = sizes.model_copy(update={"target_prefix": others.index(forced) + len(SPECIAL_TOKENS)})
    ours = our_weights(rows, _each_once(checkpoint.loaded(), rows), model, theirs.path, checkpoint.path)
    return ForeignTranslator(
        "Hugging Face",
        sizes,
        reordered(ours, orders),
        tuple(rows),
        orders,
        cutters,
        DecodingConfig(length_penalty=length_penalty, thorough=True),
        Languages(*(language_code(_tokenizer_settings(folder).get(f"{side}_lang")) for side in ("source", "target"))),
        left_out,
    )


def _each_once(checkpoint: Checkpoint, rows: Sequence[Row]) -> dict[str, Tensor]:
    """Return the weights without matrices that are stored a second time. Raises `DataError` where one differs."""
    weights, used = dict(checkpoint.weights), {name for row in rows for name in row.theirs}
    prefix = "model." if f"model.{_COPIES[0]}" in weights or f"model.{_COPIES[1]}" in used else ""
    shared, encoder, decoder = (prefix + name for name in _COPIES)
    for name in (shared, encoder, decoder, "lm_head.weight"):
        if name in used or name not in weights:
            continue
        kept = shared if shared in used else encoder if name == shared else decoder
        copy = weights.pop(name)
        if not same(copy, weights.setdefault(kept, copy)):
            raise DataError("{path}: {name} must be equal to {other}, but differs from it", checkpoint.path, name, kept)
    return weights


def _vocabularies(
    folder: Path, theirs: ForeignSettings, model: ModelConfig
) -> tuple[tuple[VocabularyOrder, ...], tuple[Tokenizer, ...]]:
    """Return the order of ids and the tokenizer of each side, or one of both where they are the same."""
    path, size = folder / "tokenizer.json", model.vocab_size
    is_of_bytes = _tokenizer_settings(folder).get("tokenizer_class") == "ByT5Tokenizer"
    if not (folder / "source.spm").exists() and (path.exists() or model.target_vocab_size is None):
        content = _byte_content(size) if is_of_bytes else read_tokenizer(path)[0]
        order = _order(theirs, _entries(content), size, path)
        return (order,), (reordered_tokenizer(content, order),)
    names = ("vocab.json", "target_vocab.json")[: 1 if model.target_vocab_size is None else 2]
    orders, lists = [], []
    for name, entries in zip(names, (size, model.target_vocab_size or 0), strict=False):
        lists.append(_listed_entries(folder / name, entries))
        numbers = {entry: number for number, entry in enumerate(lists[-1])}
        orders.append(_order(theirs, numbers, entries, folder / name))
    pieces = [read_sentencepiece(folder / f"{side}.spm") for side in ("source", "target")]
    return side_tokenizers(pieces, orders, lists)


def _tokenizer_settings(folder: Path) -> Mapping[str, Any]:
    path = folder / "tokenizer_config.json"
    return ForeignSettings.read(path).values if path.exists() else {}


def _byte_content(size: int) -> Mapping[str, Any]:
    """Return the tokenizer of ByT5: three marks, the bytes, and ids that no text has."""
    entries = ["<pad>", "</s>", "<unk>", *sorted(BYTE_OF, key=BYTE_OF.__getitem__)]
    entries += [f"<extra_id_{number}>" for number in range(size - len(entries))]
    vocabulary = {entry: number for number, entry in enumerate(entries)}
    inner = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, [], unk_token="<unk>"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    content: Mapping[str, Any] = json.loads(inner.to_str())
    return content


def _order(theirs: ForeignSettings, entries: Mapping[str, int], size: int, path: Path) -> VocabularyOrder:
    padding, end = theirs.number("pad_token_id"), theirs.number("eos_token_id")
    begin = theirs.number("decoder_start_token_id", theirs.number("bos_token_id", padding))
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


def _listed_entries(path: Path, size: int) -> list[str]:
    """Return the entries of a vocabulary by id. Raises `DataError` unless these are 0 to `size` - 1, each once."""
    vocabulary = read_json(path, "a vocabulary")
    if not isinstance(vocabulary, dict) or not all(type(number) is int for number in vocabulary.values()):
        raise DataError("{path}: must be one object of entries and their ids", path)
    if len(vocabulary) != size or set(vocabulary.values()) != set(range(size)):
        raise DataError("{path}: its {count:,} entries do not have the ids 0 to {size:,} of the model").fill(
            path, len(vocabulary), size - 1
        )
    return sorted(vocabulary, key=vocabulary.__getitem__)


def _entries(content: Mapping[str, Any]) -> dict[str, int]:
    vocabulary = content["model"]["vocab"]
    listed = vocabulary if isinstance(vocabulary, dict) else {entry[0]: at for at, entry in enumerate(vocabulary)}
    return {**listed, **{entry["content"]: entry["id"] for entry in content.get("added_tokens", [])}}


def reordered_tokenizer(content: Mapping[str, Any], order: VocabularyOrder) -> Tokenizer:
    """Return the tokenizer with its entries in our order, those with a meaning of their own by our names."""
    count = len(SPECIAL_TOKENS)
    first, entries = order.rows[:count], _entries(content).items()
    by_id = {number: name for name, number in entries if number in first or name not in SPECIAL_TOKENS}
    names = [*SPECIAL_TOKENS, *(by_id.get(row, f"<unused{row}>") for row in order.rows[count:])]
    model = dict(content["model"])
    if isinstance(model["vocab"], dict):
        model["vocab"] = {name: number for number, name in enumerate(names)}
        model["unk_token"] = None if content["model"].get("unk_token") is None else SPECIAL_TOKENS[3]
    else:
        scores = dict(map(tuple, model["vocab"]))
        least = min(scores.values())
        model |= {"vocab": [[name, scores.get(name, least)] for name in names], "unk_id": 3}
    special = {by_id.get(row): SPECIAL_TOKENS[number] for number, row in enumerate(first)}
    added = [
        {**entry, "id": names.index(special.get(entry["content"], entry["content"])), "special": False}
        for entry in content.get("added_tokens", [])
        if entry["content"] not in (*special, *SPECIAL_TOKENS)
    ]
    marks = [
        {"id": number, "content": name, "special": True, "normalized": False, "single_word": False, "lstrip": False,
         "rstrip": False}
        for number, name in enumerate(SPECIAL_TOKENS)
    ]  # fmt: skip
    whole = {**content, "model": model, "added_tokens": [*marks, *sorted(added, key=lambda entry: entry["id"])]}
    whole |= {"post_processor": None, "truncation": None, "padding": None}
    return Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(whole)), whole)
