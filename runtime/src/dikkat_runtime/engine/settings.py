"""Read the settings of a model from config.json and check them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dikkat_runtime.engine.position_tables import SINUSOIDAL
from dikkat_runtime.engine.products import GATED
from dikkat_runtime.errors import DataError, UsageError, msg
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.native.library import ACTIVATIONS
from dikkat_runtime.special_tokens import EOS_ID


def rotated(x: Array, cosines: Array, sines: Array) -> Array:
    """Rotate each pair (2j, 2j+1) of heads (B, H, T, K) by the angles of positions (T, K/2)."""
    even, odd = x[..., 0::2], x[..., 1::2]
    result = np.empty_like(x)
    result[..., 0::2] = even * cosines - odd * sines
    result[..., 1::2] = even * sines + odd * cosines
    return result


Allowed = Mapping[str, tuple[object, ...]]
"""The values of each setting that can be computed, the default first; any other needs PyTorch."""

IMPORTED: Allowed = {
    "first_norm": (True,),
    "parallel_residual": (False,),
    "query_key_norm": (None,),
    "rotary_frequencies": (None,),
    "window_rotary_frequencies": (None,),
    "layer_kinds": (None,),
    "attention_softcap": (None,),
    "logit_softcap": (None,),
    "embedding_dim": (None,),
    "relative_span": (None,),
    "relative_range": (None,),
    "relative_bias": (False,),
    "output_transform": (None,),
    "shared_positions": (True,),
}
"""Settings of imported models alone."""
NATIVE: Allowed = {
    **IMPORTED,
    "activation": tuple(ACTIVATIONS),
    "norm": ("layer",),
    "norm_placement": ("pre", "post"),
    "positions": (*SINUSOIDAL, "learned"),
    "score": ("scaled_dot", "dot"),
    "selection": ("soft",),
    "attention_window": (None,),
    "embedding_norm": (False,),
    "output_bias": (False, True),
    "positions_in_every_layer": (False,),
    "decoder_memory": ("attention", "ssru"),
    "add_source_eos": (True, False),
}
"""The settings that the kernels compute."""
_BY_STACKS = ("rotary_frequencies", "window_rotary_frequencies", "layer_kinds", "attention_window", "logit_softcap")
_WHOLE_OR_NONE = ("target_vocab_size", "relative_span", "relative_range", "embedding_dim")
STACK: Allowed = {
    **{name: values for name, values in NATIVE.items() if name not in (*_BY_STACKS, *_WHOLE_OR_NONE)},
    "norm": ("layer", "rms"),
    "embedding_norm": (False, True),
    "decoder_memory": ("attention",),
    "add_source_eos": (True,),
    "activation": (*ACTIVATIONS, *GATED),
    "norm_placement": ("pre", "post", "output", "both"),
    "parallel_residual": (False, True),
    "query_key_norm": (None, "head", "all"),
    "positions": (*SINUSOIDAL, "learned", "rotary", "none"),
    "score": ("scaled_dot", "dot", "disentangled"),
    "first_norm": (True, False),
    "relative_bias": (False, True),
    "output_transform": (None, "gelu", "gelu_tanh", "relu", "silu", "tanh"),
}
"""The settings that stacks of classifiers and language models compute."""
_IGNORED = frozenset(
    {"dropout", "attention_dropout", "global_tokens", "attention_bias", "attention_output_bias", "start_from_zero"}
)
"""Settings that matter in training alone, or follow from the weights."""
MAX_VALUE = 1 << 24
"""Largest size in a model; no model that one machine trains has a larger one."""


class NeedsTorchError(UsageError):
    """The error of a model with a setting that only the torch engine computes."""

    def __init__(self, where: str, setting: str) -> None:
        super().__init__(msg("{where}: this runtime does not compute {name}; use dikkat with PyTorch", where, setting))
        self.reason = msg("it does not compute {setting}", setting)


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The shape of a model; the names are those of `config.json`."""

    vocab_size: int
    """Entries of the vocabulary; of the source's where there are two."""
    target_vocab_size: int | None
    """Entries of the target's vocabulary where there are two."""
    model_dim: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    feed_forward_dim: int
    encoder_layers: int
    decoder_layers: int
    max_positions: int
    norm_eps: float
    activation: str
    norm: str
    norm_placement: str
    positions: str
    inverse_temperature: float
    """Beta, which multiplies the scores of attention."""
    scale_embeddings: bool
    embedding_norm: bool
    tie_embeddings: bool
    output_bias: bool
    decoder_memory: str
    """What a decoder block remembers by: "attention", or the recurrent unit "ssru"."""
    add_source_eos: bool
    """Whether a source ends with `<eos>`."""
    rotary_frequencies: tuple[float, ...] | None
    """Radians a position by which each pair of a head turns; None for the usual ones."""
    window_rotary_frequencies: tuple[float, ...] | None
    """Those of layers with a window; None for the same."""
    attention_window: int | None
    """How many positions away attention sees; None for everywhere."""
    global_tokens: int
    """First positions that see all and are seen by all in spite of the window."""
    layer_kinds: tuple[str, ...]
    """Attention of each layer, "full", "window" or "unrotated", beginning anew after the last."""
    parallel_residual: bool
    """Whether both parts of a block read its input."""
    first_norm: bool
    """Whether the first attention reads its input through a norm."""
    relative_bias: bool
    """Whether attention has a bias of buckets of distances."""
    relative_span: int | None
    """Vectors of distances on each side, with which queries and keys are compared; None for none."""
    relative_range: int | None
    """The distance that the last of them reaches; None where each distance has one."""
    embedding_dim: int | None
    """The width of the embeddings where a layer widens them; None for that of the model."""
    output_transform: str | None
    """The non-linearity of a layer before the output matrix; None for no layer."""
    query_key_norm: str | None
    """The norm of queries and keys: of each "head", of "all" together, or None."""
    logit_softcap: float | None
    """The limit of the logits; None for none."""
    target_prefix: int | None
    """The token that every target begins with, which is never shown; None where there is none."""

    @property
    def output_size(self) -> int:
        """V, the size of the target vocabulary."""
        return self.vocab_size if self.target_vocab_size is None else self.target_vocab_size

    @property
    def embedding_width(self) -> int:
        """E, the width of the embeddings."""
        return self.embedding_dim or self.model_dim

    @property
    def source_matrix(self) -> str:
        """The name of the weights that embed the source."""
        is_output = self.tie_embeddings and self.target_vocab_size is None
        return "output_weight" if is_output else "source_embedding.weight"

    @property
    def target_matrix(self) -> str:
        """The name of the weights that embed the target."""
        return "output_weight" if self.tie_embeddings else "target_embedding.weight"


def model_settings(config: Mapping[str, Any], where: str, allowed: Allowed) -> ModelSettings:
    """Return the shape that the section `model` of a run's settings describes.

    Raises `DataError` for a damaged section, and `UsageError` for a model with a setting that is not `allowed`.
    """
    model = config.get("model")
    if not isinstance(model, dict):
        raise DataError("{where}: damaged: it has no section `model`; restore the file", where)
    fields = set(ModelSettings.__dataclass_fields__)
    known, chosen = {*allowed, *_IGNORED, *fields}, fields.difference((*_BY_STACKS, "target_prefix"))
    if unknown := sorted(set(model) - known):
        raise UsageError(
            "{where}: model.{setting} is a setting that this runtime does not know; upgrade it", where, unknown[0]
        )
    for name, values in allowed.items():
        if model.get(name, values[0]) not in values:
            _needs_torch(where, name, model[name])
    heads, width = _whole(model, "num_heads", where), _whole(model, "model_dim", where)
    groups = _optional(model, "num_kv_heads", where) or heads
    if groups != heads and allowed is NATIVE:
        _needs_torch(where, "num_kv_heads", groups)
    if heads % groups:
        raise DataError("{where}: damaged: model.num_kv_heads {groups} does not divide model.num_heads {heads}").fill(
            where, groups, heads
        )
    head_dim = _optional(model, "head_dim", where) or width // heads
    usual = 1.0 / math.sqrt(head_dim) if model.get("score", "scaled_dot") == "scaled_dot" else 1.0
    sizes = ("vocab_size", "feed_forward_dim", "encoder_layers", "decoder_layers", "max_positions")
    own: dict[str, Any] = {name: model.get(name, values[0]) for name, values in allowed.items() if name in chosen}
    own |= {name: _whole(model, name, where) for name in sizes} | {"target_prefix": _target_prefix(model, where)}
    own |= {name: _optional(model, name, where) for name in _WHOLE_OR_NONE}
    return ModelSettings(
        **own,
        model_dim=width,
        num_heads=heads,
        num_kv_heads=groups,
        head_dim=head_dim,
        norm_eps=_number(model, "norm_eps", 1e-5, where),
        inverse_temperature=_number(model, "inverse_temperature", usual, where),
        scale_embeddings=bool(model.get("scale_embeddings", True)),
        tie_embeddings=bool(model.get("tie_embeddings", True)),
        rotary_frequencies=_frequencies(model, "rotary_frequencies", head_dim, where),
        window_rotary_frequencies=_frequencies(model, "window_rotary_frequencies", head_dim, where),
        attention_window=_optional(model, "attention_window", where, 0),
        global_tokens=int(_number(model, "global_tokens", 0, where)),
        layer_kinds=_layer_kinds(model, where),
        logit_softcap=None if model.get("logit_softcap") is None else _number(model, "logit_softcap", 1.0, where),
    )


def _layer_kinds(model: Mapping[str, Any], where: str) -> tuple[str, ...]:
    kinds = model.get("layer_kinds")
    if kinds is None:
        return ("full" if model.get("attention_window") is None else "window",)
    if not isinstance(kinds, list | tuple) or not kinds or not set(kinds) <= {"full", "window", "unrotated"}:
        raise DataError("{where}: damaged: model.layer_kinds is {kinds}; restore the file", where, repr(kinds))
    return tuple(kinds)


def _frequencies(model: Mapping[str, Any], name: str, head_dim: int, where: str) -> tuple[float, ...] | None:
    value = model.get(name)
    if value is None:
        return None
    if not isinstance(value, list | tuple) or 2 * len(value) != head_dim:
        raise DataError(
            "{where}: damaged: model.{name} must be {count} numbers; restore the file", where, name, head_dim // 2
        )
    if not all(type(number) in (int, float) and 0 <= number <= MAX_VALUE for number in value):
        raise DataError("{where}: damaged: model.{name} must be numbers of at least 0; restore the file").fill(
            where, name
        )
    return tuple(map(float, value))


def _target_prefix(model: Mapping[str, Any], where: str) -> int | None:
    value = model.get("target_prefix")
    if value is None:
        return None
    size = next(size for size in (model.get("target_vocab_size"), model.get("vocab_size")) if size is not None)
    if type(value) is not int or type(size) is not int or not EOS_ID < value < size:
        raise DataError(
            "{where}: damaged: model.target_prefix must be an entry of the vocabulary, not {value}", where, repr(value)
        )
    return value


def _whole(model: Mapping[str, Any], name: str, where: str, least: int = 1) -> int:
    value = model.get(name)
    if type(value) is not int or not least <= value <= MAX_VALUE:
        raise DataError(
            "{where}: damaged: model.{name} must be a whole number of at least 1, not {value}", where, name, repr(value)
        )
    return value


def _optional(model: Mapping[str, Any], name: str, where: str, least: int = 1) -> int | None:
    """Return a whole number of at least `least`, or None where it is left out."""
    return None if model.get(name) is None else _whole(model, name, where, least)


def _number(model: Mapping[str, Any], name: str, default: float, where: str) -> float:
    value = default if model.get(name) is None else model[name]
    if type(value) not in (int, float) or not 0 <= value <= MAX_VALUE:
        raise DataError(
            "{where}: damaged: model.{name} must be a number of at least 0, not {value}", where, name, repr(value)
        )
    return float(value)


def _needs_torch(where: str, name: str, value: object) -> None:
    raise NeedsTorchError(where, f"model.{name} = {value!s:.40}")
