"""Models of older converters of CTranslate2: their variables by the names of today, and settings without config.json.

CTranslate2 itself reads them still (`TransformerModel::initialize` and `SequenceToSequenceModel::initialize`).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dikkat.interop.ctranslate2.layout import ENCODER
from dikkat.interop.ctranslate2.model_file import VERSION, Array, ModelFile
from dikkat.interop.ctranslate2.quantization import SCALE
from dikkat.interop.foreign_settings import ForeignSettings
from dikkat_runtime.errors import DataError

_OF_EACH_STACK = 5
"""The revision since which each stack has settings of its own."""
_SHARED = ("num_heads", "pre_norm", "activation", "embeddings_merge", "alignment_layer", "alignment_heads")
_OF_ONE = {"embeddings_merge": ("encoder",), "alignment_layer": ("decoder",), "alignment_heads": ("decoder",)}
"""Settings that only one of the stacks has."""
_USUAL: dict[str, Array] = {"num_heads": np.int16(8), "pre_norm": np.int8(1), "activation": np.int8(0)}  # type: ignore[dict-item]
"""What a model has that does not say it."""
_UNUSED = ("with_relative_position", "layernorm_embedding")
"""Settings that repeat what the weights say; elsewhere than at 0 they stay, and are refused by name."""
_INT16_SCALE = np.float32(1000)
"""That of matrices in int16 without one."""
_SCALED = "embeddings/multiply_by_sqrt_depth"
_TOKENS = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
_FLAGS = {
    "with_source_bos": False,
    "with_source_eos": False,
    "with_target_bos": True,
    "user_decoder_start_tokens": False,
}
"""Settings that stand in config.json today, and what a model has that does not say them."""


def with_settings(model: ModelFile, config: ForeignSettings | None, path: Path) -> tuple[ModelFile, ForeignSettings]:
    """Return the model of a file `path` without the settings that stand in config.json since version 6, and those.

    `config` is what config.json says, if there is one. Raises `DataError` for a setting that is not what it should be.
    """
    if model.version >= VERSION:
        return model, ForeignSettings.read(path.with_name("config.json")) if config is None else config
    variables = dict(model.variables)
    tokens = {name: _token(variables.pop(name, None), usual, name, path) for name, usual in _TOKENS.items()}
    flags = {name: bool(_scalar(variables.pop(name, usual), name, path)) for name, usual in _FLAGS.items()}
    start: str | None = tokens["bos_token" if flags["with_target_bos"] else "eos_token"]
    if flags["user_decoder_start_tokens"]:
        start = None
    values: dict[str, Any] = {
        **({} if config is None else config.values),
        **tokens,
        "decoder_start_token": start,
        "add_source_bos": flags["with_source_bos"],
        "add_source_eos": flags["with_source_eos"],
    }
    return replace(model, variables=variables), ForeignSettings(path, values)


def with_names_of_today(model: ModelFile) -> ModelFile:
    """Return a model of any revision that is read with its variables by the names that revision 7 gives them."""
    variables, aliases = dict(model.variables), dict(model.aliases)
    if model.revision < _OF_EACH_STACK:
        for name in _SHARED:
            value = variables.pop(name, _USUAL.get(name))
            stacks = () if value is None else _OF_ONE.get(name, ("encoder", "decoder"))
            variables |= {f"{stack}/{name}": np.asarray(value) for stack in stacks}
        for name in _UNUSED:
            if name in variables and not variables[name].any():
                del variables[name]
    for stack in ("encoder", "decoder"):
        scaled = variables.pop(f"{stack}/{_SCALED}", None)
        if scaled is not None:
            variables.setdefault(f"{stack}/scale_embeddings", scaled)
        for name, value in _USUAL.items():
            variables.setdefault(f"{stack}/{name}", np.asarray(value))
    for end in ("", SCALE):
        _rename(variables, aliases, ENCODER.replace("_0", "") + end, ENCODER + end)
    for name, array in list(variables.items()):
        if array.dtype == np.int16 and array.ndim == 2:
            variables.setdefault(name + SCALE, np.asarray(_INT16_SCALE))
    return replace(model, variables=variables, aliases=aliases)


def _rename(variables: dict[str, Array], aliases: dict[str, str], old: str, new: str) -> None:
    """Give a variable another name, whether it is one, an alias of another one, or another one's alias is of it."""
    if new in variables or new in aliases:
        return
    if old in variables:
        variables[new] = variables.pop(old)
    if old in aliases:
        aliases[new] = aliases.pop(old)
    for alias, name in aliases.items():
        if name == old:
            aliases[alias] = new


def _scalar(value: Array | bool, name: str, path: Path) -> Any:
    if isinstance(value, bool):
        return value
    if value.ndim:
        raise DataError("{path}: the setting {name} is a list").fill(path, name)
    return value.item()


def _token(value: Array | None, usual: str, name: str, path: Path) -> str:
    if value is None:
        return usual
    try:
        return value.tobytes().decode("utf-8")
    except UnicodeDecodeError:
        raise DataError("{path}: the setting {name} is not text in UTF-8").fill(path, name) from None
