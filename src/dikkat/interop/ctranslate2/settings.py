"""The settings of a Transformer of CTranslate2, which are variables and entries of config.json, and ours."""

import itertools
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.ctranslate2.layout import ACTIVATIONS, DECODER, ENCODER, FINAL_BIAS, GATED, POSITIONS, PROJECTION
from dikkat.interop.ctranslate2.model_file import Array
from dikkat.nn.positions import LAYOUTS, sinusoids
from dikkat_runtime.errors import DataError
from dikkat_runtime.text.foreign_json import shown

FIXED = {
    "encoder/embeddings_merge": 0,
    "encoder/multi_query_attention": 0,
    "decoder/alibi": 0,
    "decoder/alibi_use_positive_positions": 0,
    "decoder/scale_alibi": 0,
}
"""Settings with the only value that our models compute, which a model may leave out."""
_PRESENT = ("num_heads", "pre_norm", "activation")
_IGNORED = ("decoder/alignment_layer", "decoder/alignment_heads")
"""Which heads show the alignment: these compute nothing."""
_NUMBERED = {number: name for name, number in ACTIVATIONS.items()}
_CLOSE = 2e-3
"""Largest difference between a table of sines and its values in float16."""


def described(
    scalars: Mapping[str, Array], arrays: Mapping[str, Array], where: Path, config: ForeignSettings
) -> tuple[dict[str, Any], bool]:
    """Return our settings, and whether decoding begins with a zero embedding, not with that of an entry.

    Raises `DataError` naming the first setting that a model of ours cannot have.
    """
    left = {name: scalar.item() for name, scalar in scalars.items()}
    for name in _IGNORED:
        left.pop(name, None)
    for name, only in FIXED.items():
        _require(where, name, left.pop(name, only), only)
    both = {name: _of_both(where, name, left) for name in _PRESENT}
    number, width = both["activation"], _rows_of(where, arrays, DECODER)[1]
    if number not in _NUMBERED:
        raise DataError("{where}: activation = {name} is not supported", where, shown(str(number)))
    activation = _NUMBERED[number]
    if "encoder/layer_0/ffn/linear_0_noact/weight" in arrays:
        gated = {plain: gate for gate, plain in GATED.items()}
        if activation not in gated:
            raise DataError("{where}: a gated network with {activation} is not supported", where, activation)
        activation = gated[activation]
    scaled = [_scaled(where, f"{stack}/scale_embeddings", left, width) for stack in ("encoder", "decoder")]
    _require(where, "decoder/scale_embeddings", scaled[1], scaled[0])
    zero = bool(left.pop("decoder/start_from_zero_embedding", 0))
    if left:
        name = min(left)
        raise DataError("{where}: {name} = {value} is not supported", where, shown(name), left[name])
    for name, value in {"add_source_bos": False, "multi_query_attention": False, "quantization_type": None}.items():
        # other versions write null, or false, or nothing
        _require(config.path, name, config.values.get(name) or value, value)
    epsilon = config.number("layer_norm_epsilon", 1e-5)
    model = {
        "model_dim": width,
        "num_heads": both["num_heads"],
        "feed_forward_dim": _rows_of(where, arrays, "encoder/layer_0/ffn/linear_0/weight")[0],
        "encoder_layers": _layers(arrays, "encoder"),
        "decoder_layers": _layers(arrays, "decoder"),
        "activation": activation,
        "norm": "layer" if "encoder/layer_0/ffn/layer_norm/beta" in arrays else "rms",
        "norm_placement": "pre" if both["pre_norm"] else "post",
        "norm_eps": epsilon,
        "scale_embeddings": scaled[0],
        "attention_bias": "encoder/layer_0/self_attention/linear_0/bias" in arrays,
        "attention_output_bias": "encoder/layer_0/self_attention/linear_1/bias" in arrays,
        "output_bias": FINAL_BIAS in arrays,
        "dropout": 0.1,
        **_positions(where, arrays, width),
        **_tied(where, arrays),
    }
    return model, zero


def adds_source_eos(config: ForeignSettings, starts_from_zero: bool, *, is_packaged: bool) -> bool:
    """Return whether a source ends with the end mark, which CTranslate2 or the tokenizer may put there.

    A package has a tokenizer that puts nothing there. Beside it, a model that starts from zero is one of Marian, whose
    sources always end with the mark. Raises `DataError` for a model whose tokenizer may add marks of any kind.
    """
    adds = config.values.get("add_source_eos", False)
    if not isinstance(adds, bool):
        raise DataError("{path}: add_source_eos = {value} is neither true nor false", config.path, shown(repr(adds)))
    if adds or is_packaged:
        return adds
    if starts_from_zero:
        return True
    start, begin = (config.values.get(name, "<s>") for name in ("decoder_start_token", "bos_token"))
    if start != begin:
        raise DataError(
            "{path}: add_source_eos = false with decoder_start_token = {start} is not supported: the tokenizer "
            "of such a model puts marks around a source, and the folder does not say which"
        ).fill(config.path, shown(repr(start)))
    return False


def scalars_of(model: ModelConfig) -> dict[str, Array]:
    """Return the variables without sizes of a model of ours; decoding begins with the embedding of `<bos>`."""
    common = {
        "num_heads": np.int16(model.num_heads),
        "pre_norm": np.int8(model.norm_placement == "pre"),
        "activation": np.int8(ACTIVATIONS[GATED.get(model.activation, model.activation)]),
        "scale_embeddings": np.int8(model.scale_embeddings),
    }
    scalars = {
        f"{stack}/{name}": np.asarray(value) for stack in ("encoder", "decoder") for name, value in common.items()
    }
    own = {
        "decoder/alignment_layer": np.int16(-1),
        "decoder/alignment_heads": np.int16(1),
        "decoder/start_from_zero_embedding": np.int8(0),
    }
    return scalars | {
        name: np.asarray(value) for name, value in (*own.items(), *((n, np.int8(v)) for n, v in FIXED.items()))
    }


def _of_both(where: Path, name: str, left: dict[str, Any]) -> Any:
    """A setting that both stacks have, and the same."""
    values = [left.pop(f"{stack}/{name}", None) for stack in ("encoder", "decoder")]
    if values[0] is None:
        raise DataError("{where}: the setting encoder/{name} is missing", where, name)
    _require(where, f"decoder/{name}", values[1], values[0])
    return values[0]


def _scaled(where: Path, name: str, left: dict[str, Any], width: int) -> bool:
    """Whether embeddings are multiplied by sqrt(D): a flag, or the factor itself."""
    value = left.pop(name, 1)
    if isinstance(value, float) and math.isclose(value, math.sqrt(width), rel_tol=1e-5):
        return True
    if value not in (0, 1):
        raise DataError("{where}: {name} = {value} is not supported; only sqrt({width}) is").fill(
            where, name, value, width
        )
    # the factor 1 of a float changes nothing
    return value == 1 and not isinstance(value, float)


def _layers(arrays: Mapping[str, Array], stack: str) -> int:
    return next(count for count in itertools.count() if f"{stack}/layer_{count}/ffn/linear_0/weight" not in arrays)


def _positions(where: Path, arrays: Mapping[str, Array], width: int) -> dict[str, Any]:
    """Our name of the positions: fixed ones are known by their values, all others are learned."""
    tables = [arrays.get(name) for name in POSITIONS]
    if tables[0] is None or tables[1] is None:
        raise DataError(
            "{where}: {positions} is missing; relative positions, and those that CTranslate2 computes by itself, "
            "are not supported"
        ).fill(where, POSITIONS[tables[0] is not None])
    if not np.array_equal(tables[0], tables[1]):
        raise DataError(
            "{where}: has other positions for its decoder than for its encoder, but dikkat has one table for both",
            where,
        )
    if tables[0].ndim != 2 or tables[0].shape[1] != width:
        raise DataError("{where}: {positions} does not have {width:,} columns", where, POSITIONS[0], width)
    for name, layout in LAYOUTS.items():
        fixed = sinusoids(len(tables[0]), width, layout).numpy()
        if np.abs(fixed - tables[0].astype(np.float32)).max(initial=0) < _CLOSE:
            return {"positions": name}
    return {"positions": "learned", "max_positions": len(tables[0])}


def _tied(where: Path, arrays: Mapping[str, Array]) -> dict[str, Any]:
    """Which of the three matrices with a row for each entry are one."""
    source, target, output = (arrays[name] for name in (ENCODER, DECODER, PROJECTION) if _rows_of(where, arrays, name))
    tied, joint = np.array_equal(target, output), np.array_equal(source, target)
    sizes = {"vocab_size": len(source)}
    if len(source) != len(target) or (tied and not joint):
        sizes["target_vocab_size"] = len(target)
    return {**sizes, "tie_embeddings": tied}


def _rows_of(where: Path, arrays: Mapping[str, Array], name: str) -> tuple[int, int]:
    if name not in arrays:
        raise DataError("{where}: the weight {name} is missing", where, name)
    if arrays[name].ndim != 2:
        raise DataError("{where}: the weight {name} must be a matrix", where, name)
    rows, columns = arrays[name].shape
    return rows, columns


def _require(where: Path, name: str, value: object, only: object) -> None:
    if value != only:
        raise DataError("{where}: {name} = {value} is not supported; only {supported} is").fill(
            where, name, shown(str(value)), only
        )
