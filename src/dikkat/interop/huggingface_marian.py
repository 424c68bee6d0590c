"""MarianMT as stored by Hugging Face, such as OPUS-MT: its names of weights and settings, and ours.

The folder holds config.json, model.safetensors, vocab.json, source.spm and target.spm, and target_vocab.json where the
two sides have a vocabulary each.
"""

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from dikkat.config import DecodingConfig, ModelConfig
from dikkat.interop.checkpoint_folder import Checkpoint, ForeignSettings, read_checkpoint, same
from dikkat.interop.foreign_translator import (
    BIAS,
    OUTPUT,
    SOURCE,
    ForeignTranslator,
    Languages,
    language_code,
    our_weights,
    reordered,
    sized,
    translator_config,
)
from dikkat.interop.piece_vocabulary import VocabularyOrder, side_tokenizers
from dikkat.interop.sentencepiece_file import read_sentencepiece
from dikkat.models.key_table import Row, layer, stacked
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.text.foreign_json import read_json, shown
from dikkat_runtime.text.tokenizer import Tokenizer

FILE = "generation_config.json"
_USUAL: dict[str, object] = {
    "repetition_penalty": 1,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1,
    "min_length": 0,
    "min_new_tokens": 0,
    "diversity_penalty": 0,
    "num_beam_groups": 1,
    "do_sample": False,
    "early_stopping": False,
    "suppress_tokens": [],
    "begin_suppress_tokens": [],
    "forced_bos_token_id": None,
    "exponential_decay_length_penalty": None,
    "sequence_bias": None,
}
"""Settings that change what is written, with the value by which they do not; null does not, either."""


@dataclass(frozen=True, slots=True)
class Generation:
    """Hold how a folder asks to be searched with."""

    length_penalty: float
    left_out: tuple[str, ...]
    """Settings that change what `generate` writes, and that no search of ours follows, in words for people."""


def read_generation(folder: Path, config: ForeignSettings) -> Generation:
    """Read generation_config.json, or the `config` of an older folder, which holds the same settings.

    Raises `DataError` for a length penalty that ours cannot be.
    """
    path = folder / FILE
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
    return Generation(float(penalty), tuple(left_out))


CONSTANTS = ("embed_positions.weight",)
"""The table of sines and cosines, which old files store; it is computed anew."""
SHARED, ENCODER, DECODER = (
    f"model.{part}.weight" for part in ("shared", "encoder.embed_tokens", "decoder.embed_tokens")
)
HEAD, FINAL_BIAS = "lm_head.weight", "final_logits_bias"
UNKNOWN = "<unk>"

_ACTIVATIONS = {
    "swish": "silu", "silu": "silu", "relu": "relu", "gelu": "gelu", "gelu_new": "gelu_tanh",
}  # fmt: skip
_REQUIRED = {
    "normalize_before": False,
    "add_final_layer_norm": False,
    "normalize_embedding": False,
    "static_position_embeddings": True,
    "is_decoder": False,
    "add_bias_logits": False,
    "extra_pos_embeddings": 0,
}
"""Settings of old files that say what all models of this family do, or that never came into use."""


def _attention(ours: str, theirs: str) -> tuple[Row, ...]:
    return (
        *layer(f"{ours}.in_projection", *(f"{theirs}.{part}_proj" for part in "qkv")),
        *layer(f"{ours}.out_projection", f"{theirs}.out_proj"),
    )


_FEED_FORWARD = (
    *layer("feed_forward.inner", "fc1"),
    *layer("feed_forward.outer", "fc2"),
    *layer("feed_forward_residual.norm", "final_layer_norm"),
)
_SELF = (*_attention("self_attention", "self_attn"), *layer("self_residual.norm", "self_attn_layer_norm"))
_CROSS = (*_attention("cross_attention", "encoder_attn"), *layer("cross_residual.norm", "encoder_attn_layer_norm"))


def rows(model: ModelConfig) -> list[Row]:
    """Return the table for a translator of these settings."""
    separate = model.target_vocab_size is not None
    return [
        *([Row(SOURCE, (ENCODER,)), Row(OUTPUT, (DECODER,))] if separate else [Row(OUTPUT, (SHARED,))]),
        Row(BIAS, (FINAL_BIAS,)),
        *stacked((*_SELF, *_FEED_FORWARD), "encoder.blocks", "model.encoder.layers", model.encoder_layers),
        *stacked((*_SELF, *_CROSS, *_FEED_FORWARD), "decoder.blocks", "model.decoder.layers", model.decoder_layers),
    ]


def model_settings(theirs: ForeignSettings) -> dict[str, object]:
    """Return the settings of our model that computes the same. Raises `DataError` where there is none."""
    for name, only in _REQUIRED.items():
        theirs.require(name, only)
    theirs.require("tie_word_embeddings", True)
    heads, hidden = theirs.number("encoder_attention_heads"), theirs.number("encoder_ffn_dim")
    theirs.require("decoder_attention_heads", heads)
    theirs.require("decoder_ffn_dim", hidden)
    separate = theirs.values.get("share_encoder_decoder_embeddings", True) is False
    size = theirs.number("vocab_size")
    return {
        "vocab_size": size,
        "target_vocab_size": theirs.number("decoder_vocab_size", size) if separate else None,
        "model_dim": theirs.number("d_model"),
        "num_heads": heads,
        "feed_forward_dim": hidden,
        "encoder_layers": theirs.number("encoder_layers"),
        "decoder_layers": theirs.number("decoder_layers"),
        "max_positions": theirs.number("max_position_embeddings"),
        "dropout": theirs.number("dropout", 0.1),
        "attention_dropout": theirs.number("attention_dropout", 0.0),
        "activation": theirs.choice("activation_function", "gelu", _ACTIVATIONS),
        "norm_placement": "post",
        "positions": "sinusoidal_halves",
        "scale_embeddings": theirs.values.get("scale_embedding", False) is True,
        "output_bias": True,
    }


def read_huggingface_marian(folder: Path, theirs: ForeignSettings) -> ForeignTranslator:
    """Read the translator in a folder with the settings `theirs`. Raises `MissingInputError` or `DataError`."""
    model = translator_config(model_settings(theirs), theirs.path)
    checkpoint, table = read_checkpoint(folder, (), (), CONSTANTS), rows(model)
    # by names, shapes and types first: numbers are read only where the whole file fits
    our_weights(table, _each_once(checkpoint, model), model, theirs.path, checkpoint.path)
    orders, tokenizers = _vocabularies(folder, theirs, model)
    generation = read_generation(folder, theirs)
    ours = our_weights(table, _each_once(checkpoint.loaded(), model), model, theirs.path, checkpoint.path)
    return ForeignTranslator(
        msg("MarianMT of Hugging Face"),
        sized(model, orders),
        reordered(ours, orders),
        tuple(table),
        orders,
        tokenizers,
        DecodingConfig(length_penalty=generation.length_penalty, thorough=True),
        _languages(folder),
        generation.left_out,
    )


def _each_once(checkpoint: Checkpoint, model: ModelConfig) -> dict[str, Tensor]:
    """The weights without those that are stored a second time. Raises `DataError` where one of these differs."""
    weights = dict(checkpoint.weights)
    kept, *copies = (SHARED, ENCODER, DECODER, HEAD) if model.target_vocab_size is None else (DECODER, HEAD)
    for name in copies:
        copy = weights.pop(name, None)
        if copy is not None and not same(copy, weights.setdefault(kept, copy)):
            raise DataError("{path}: {name} must be equal to {other}, but differs from it", checkpoint.path, name, kept)
    if model.target_vocab_size is not None:
        # that of the source, which old files call the shared one
        copy = weights.pop(SHARED, None)
        if copy is not None and not same(copy, weights.setdefault(ENCODER, copy)):
            raise DataError(
                "{path}: {name} must be equal to {other}, but differs from it", checkpoint.path, SHARED, ENCODER
            )
    if FINAL_BIAS in weights and weights[FINAL_BIAS].dim() == 2:
        # (1, V) -> (V,)
        weights[FINAL_BIAS] = weights[FINAL_BIAS].flatten()
    return weights


def _vocabularies(
    folder: Path, theirs: ForeignSettings, model: ModelConfig
) -> tuple[tuple[VocabularyOrder, ...], tuple[Tokenizer, ...]]:
    """The order of ids and the tokenizer of each side, or one of both where they are the same."""
    names = ("vocab.json",) if model.target_vocab_size is None else ("vocab.json", "target_vocab.json")
    sizes = (model.vocab_size, model.target_vocab_size or 0)
    orders, lists = [], []
    for name, size in zip(names, sizes, strict=False):
        lists.append(_entries(folder / name, size))
        orders.append(_order(theirs, lists[-1], folder / name))
    models = [read_sentencepiece(folder / f"{side}.spm") for side in ("source", "target")]
    return side_tokenizers(models, orders, lists)


def _entries(path: Path, size: int) -> list[str]:
    """The entries of a vocabulary by their ids. Raises `DataError` unless these are 0 to `size` - 1, each once."""
    vocabulary = read_json(path, "a vocabulary")
    if not isinstance(vocabulary, dict) or not all(type(number) is int for number in vocabulary.values()):
        raise DataError("{path}: must be one object of entries and their ids", path)
    if len(vocabulary) != size or set(vocabulary.values()) != set(range(size)):
        raise DataError("{path}: its {count:,} entries do not have the ids 0 to {size:,} of the model").fill(
            path, len(vocabulary), size - 1
        )
    return sorted(vocabulary, key=vocabulary.__getitem__)


def _order(theirs: ForeignSettings, vocabulary: list[str], path: Path) -> VocabularyOrder:
    padding, end = theirs.number("pad_token_id"), theirs.number("eos_token_id")
    theirs.require("decoder_start_token_id", padding)
    if UNKNOWN not in vocabulary:
        raise DataError("{path}: has no entry {entry}", path, UNKNOWN)
    special = (padding, end, vocabulary.index(UNKNOWN))
    if len(set(special)) < 3 or not all(type(one) is int and 0 <= one < len(vocabulary) for one in special):
        raise DataError("{path}: pad_token_id and eos_token_id must be two entries of {name}", theirs.path, path.name)
    return VocabularyOrder.of(len(vocabulary), padding=padding, end=end, unknown=special[2])


def _languages(folder: Path) -> Languages:
    path = folder / "tokenizer_config.json"
    settings = ForeignSettings.read(path).values if path.exists() else {}
    return Languages(*(language_code(settings.get(f"{side}_lang")) for side in ("source", "target")))
