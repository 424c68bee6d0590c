"""Write a translator as Marian has it: a `.npz` file, its vocabularies as SentencePiece models, and a `decoder.yml`.

Marian knows neither the padding nor the begin: its decoder starts from a vector of zeros, and their entries are left
out, so that the probabilities of the others sum to 1.
"""

import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dikkat.config import ModelConfig
from dikkat.interop import marian
from dikkat.interop.exported_texts import require_same_ids
from dikkat.interop.foreign_translator import BIAS, OUTPUT, SOURCE, TARGET, ForeignTranslator
from dikkat.interop.marian import read_marian
from dikkat.interop.marian_npz import OPTIONS
from dikkat.interop.marian_options import ACTIVATIONS, NORM_EPS, Option, model_options, options_text
from dikkat.interop.marian_shortlist import binary_shortlist
from dikkat.interop.parity import SAMPLES, Parity, check_parity, whole_folder
from dikkat.interop.piece_vocabulary import VocabularyOrder
from dikkat.interop.sentencepiece_file import pieces_of, sentencepiece_file
from dikkat.interop.text_parity import write_files
from dikkat.interop.trained_translator import TrainedTranslator, plain_attention, refuse_settings
from dikkat.models.key_table import to_theirs
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.errors import DataError, UsageError, msg
from dikkat_runtime.run.config import read_config, section
from dikkat_runtime.special_tokens import BOS_ID, SPECIAL_TOKENS

_CONFIG = "decoder.yml"
_LEFT_OUT = 2
"""Entries that Marian has not: the padding and the begin."""
SHORTLIST = "lex.s2t.bin"
_READER = msg("dikkat's own reader")


def export_marian(translator: TrainedTranslator, out: Path, count: int = SAMPLES) -> Parity:
    """Write the folder `out`, and compare it with the run by `count` sentences before it is there.

    Raises `UsageError` naming the settings that Marian does not compute, `DataError` where the folder computes
    something else, and `CannotCreateError` or `DiskError`; nothing is then written.
    """
    _check(translator)
    with whole_folder(out) as folder:
        write_files(folder, _files(translator))
        return _compared(translator, folder, count)


def their_weights(translator: TrainedTranslator) -> dict[str, Tensor]:
    """Return the weights by the names of Marian, with each vocabulary in its order."""
    rows = marian.rows(_written(translator.model))
    ours = translator.weights_of(rows)
    for name in (SOURCE, TARGET, OUTPUT, BIAS):
        if name in ours:
            ours[name] = _order(len(ours[name])).theirs(ours[name])
    return to_theirs(rows, ours)


def _order(size: int) -> VocabularyOrder:
    """Return the order of a vocabulary of `size` entries of ours: the end is their first, the unknown their second."""
    return VocabularyOrder.of(size - _LEFT_OUT, end=0, unknown=1)


def _listed(translator: TrainedTranslator) -> bytes | None:
    """Return the shortlist of a run as Marian has it; None where there is none, or it cannot be the same."""
    shortlist, model = translator.shortlist(), translator.model
    if shortlist is None or translator.vocabularies == "shared_ids":
        return None
    sizes = [model.vocab_size] if model.target_vocab_size is None else [model.vocab_size, model.target_vocab_size]
    return binary_shortlist(shortlist, tuple(map(_order, sizes)))


def _written(model: ModelConfig) -> ModelConfig:
    """Return the settings that the file has: a bias of the output, and two vocabularies where matrices are three."""
    target_size = model.target_vocab_size if model.tie_embeddings else model.target_vocab_size or model.vocab_size
    return model.model_copy(update={"output_bias": True, "target_vocab_size": target_size})


def _files(translator: TrainedTranslator) -> dict[str, bytes]:
    settings, model = translator.tokenizer_settings, translator.model
    names = ("vocab.spm",) if len(settings) == 1 else ("source.spm", "target.spm")
    files = {
        name: sentencepiece_file(pieces_of(own, all_entries=True), own)
        for name, own in zip(names, settings, strict=True)
    }
    sizes = [size - _LEFT_OUT for size in (model.vocab_size, model.target_vocab_size or model.vocab_size)]
    arrays: dict[str, Any] = {name: _array(tensor) for name, tensor in their_weights(translator).items()}
    arrays[OPTIONS] = np.frombuffer(model_options(_written(model), sizes).encode() + b"\0", np.int8)
    npz = io.BytesIO()
    np.savez(npz, **arrays)
    languages = translator.languages
    # as the files of Firefox, from whose names the languages are known
    pair = f".{languages.source}{languages.target}" if len(languages.source) == len(languages.target) == 2 else ""
    decoder: dict[str, Option] = {
        "relative-paths": "true",
        "models": [f"model{pair}.npz"],
        "vocabs": [names[0], names[-1]],
        "beam-size": str(BeamOptions().beam_size),
        "normalize": str(translator.length_penalty),
    }
    listed = _listed(translator)
    if listed is not None:
        files[SHORTLIST] = listed
        # without the check of offsets, which takes that of an empty last list for damage
        decoder["shortlist"] = [SHORTLIST, "0"]
    return {**files, f"model{pair}.npz": npz.getvalue(), _CONFIG: options_text(decoder).encode()}


def _array(tensor: Tensor) -> NDArray[np.float32]:
    """Return a matrix as it is, and a vector (D,) as (1, D)."""
    return np.ascontiguousarray(tensor.float().numpy().reshape(-1, tensor.shape[-1]))


def _check(translator: TrainedTranslator) -> None:
    starts_from_zero = not translator.network.target_embedding.weight[BOS_ID].any()
    refuse_settings(
        translator,
        "Marian",
        {
            "norm": "layer",
            "norm_placement": "post",
            "norm_eps": NORM_EPS,
            "positions": "sinusoidal_concatenated",
            "activation": tuple(ACTIVATIONS.values()),
            **plain_attention(translator.model),
            "scale_embeddings": True,
            "add_source_eos": True,
            "target_prefix": None,
        },
        {"tokenizer.kind": (_kind(translator), "unigram"), "model.start_from_zero": (bool(starts_from_zero), True)},
    )
    if any(len(settings["added_tokens"]) > len(SPECIAL_TOKENS) for settings in translator.tokenizer_settings):
        raise UsageError(
            "{run}: its sources begin with the mark of a language, such as >>fra<<, which SentencePiece does not look "
            "up; export it with --to ctranslate2"
        ).fill(translator.run)


def _kind(translator: TrainedTranslator) -> str:
    if translator.has_pieces:
        return "unigram"
    return str(section(read_config(translator.run), "tokenizer", translator.run).get("kind", "bpe"))


def _compared(translator: TrainedTranslator, folder: Path, count: int) -> Parity:
    """Compare the run with what is imported of the folder: weights, ids, logits and texts."""
    foreign = read_marian(folder)
    written, texts = their_weights(translator), translator.samples(count)
    for name, weight in foreign.theirs().items():
        if not torch.equal(weight, written[name]):
            raise DataError(
                "{run}: the weight {name} is not written as it is; nothing was written", translator.run, name
            )
    if (folder / SHORTLIST).exists():
        _check_listed(translator, foreign, texts)
    with tempfile.TemporaryDirectory(prefix="dikkat-marian-") as name:
        foreign.write(Path(name) / "run", folder, _READER)
        again = TrainedTranslator.open(Path(name) / "run")
    ours, theirs = (one.tokenizers[0].encode_batch(texts) for one in (translator, again))
    require_same_ids(translator.run, texts, ours, theirs)
    return check_parity(
        translator, _READER, lambda lines: again.tokenizers[-1].decode_batch(again.greedy(lines)), again.logits, texts
    )


def _check_listed(translator: TrainedTranslator, foreign: ForeignTranslator, texts: Sequence[str]) -> None:
    """Raise `DataError` unless the words that a translation of each text may consist of are read back."""
    ours, theirs = translator.shortlist(), foreign.shortlist
    for text, ids in zip(texts, translator.tokenizers[0].encode_batch(texts), strict=True):
        if ours is None or theirs is None or not np.array_equal(ours.of(ids), theirs.of(ids)):
            raise DataError(
                "{run}: the shortlist has other words for {text}; nothing was written", translator.run, repr(text)
            )
