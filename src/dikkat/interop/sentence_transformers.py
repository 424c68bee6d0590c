"""Read what the `sentence-transformers` library stores next to a backbone: pooling, layers, norm and prompts."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from dikkat.interop.checkpoint_folder import ForeignSettings, read_checkpoint
from dikkat.models.key_table import Row, to_ours
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.text.foreign_json import read_json, shown

MODULES = "modules.json"
"""File that lists the modules; a folder without it is a plain checkpoint."""

_MAX_MODULES = 16
_KINDS = ("Transformer", "Pooling", "Dense", "Normalize")
"""The modules that have a counterpart, in their order."""
_POOLINGS = {
    "mean": "mean", "cls": "first", "max": "max", "mean_sqrt_len": "mean_sqrt_length", "weightedmean": "weighted_mean",
    "lasttoken": "last",
}  # fmt: skip
_NO_LIMIT = 10**20
"""A longest text above which none is known."""
_ACTIVATIONS = {"Tanh": "tanh", "Identity": "identity", "ReLU": "relu", "GELU": "gelu", "SiLU": "silu"}


def backbone_folder(folder: Path) -> Path:
    """Return the folder of the backbone: `folder` itself, or the subfolder that its list of modules names."""
    return folder / next((path for kind, path in _modules(folder) if kind == "Transformer"), "")


def encoder_settings_of(folder: Path) -> dict[str, object]:
    """Return our settings for what is around the backbone; nothing for a plain checkpoint.

    Raises `DataError` for modules that we have no counterpart for.
    """
    modules, layers = _modules(folder), list[tuple[int, str]]()
    settings: dict[str, object] = {"dense": layers} if modules else {}
    for kind, path in modules:
        if kind == "Transformer":
            settings |= _longest(folder / path)
        elif kind == "Pooling":
            settings["pooling"] = _pooling(ForeignSettings.read(folder / path / "config.json"))
        elif kind == "Dense":
            layers.append(_dense(ForeignSettings.read(folder / path / "config.json")))
        elif kind == "Normalize":
            settings["normalize"] = True
        else:
            raise DataError('{folder}: the module "{kind}" is not supported', folder / MODULES, shown(kind))
    kinds = [kind for kind, _ in modules]
    if kinds != sorted(kinds, key=_KINDS.index) or any(kinds.count(kind) > 1 for kind in _KINDS if kind != "Dense"):
        raise DataError("{path}: modules must be one of each, in the order {known}, not {kinds}").fill(
            folder / MODULES, ", ".join(_KINDS), ", ".join(kinds)
        )
    return settings | _prompts(folder / "config_sentence_transformers.json")


def dense_weights(folder: Path, shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """Return the weights, by our names, of the layers on the vector of a sentence.

    Raises `DataError` naming the first weight that is missing, left over, or not of its shape among `shapes`.
    """
    weights: dict[str, Tensor] = {}
    for number, path in enumerate(path for kind, path in _modules(folder) if kind == "Dense"):
        has_bias = ForeignSettings.read(folder / path / "config.json").values.get("bias", True)
        ours, part = f"dense.{number}.dense", read_checkpoint(folder / path, (), (), ())
        rows = [Row(f"{ours}.weight", ("linear.weight",)), Row(f"{ours}.bias", ("linear.bias",) if has_bias else ())]
        # as of a backbone: numbers are read only where the whole file fits
        to_ours(rows, part.weights, shapes, str(part.path))
        weights |= to_ours(rows, part.loaded().weights, shapes, str(part.path))
    return weights


def _modules(folder: Path) -> list[tuple[str, str]]:
    path = folder / MODULES
    if not path.exists():
        return []
    listed = read_json(path, msg("a list of modules"))
    try:
        modules = [(str(module["type"]).rpartition(".")[2], str(module["path"])) for module in listed]
    except (LookupError, TypeError) as error:
        raise DataError("{path}: not a list of modules ({error})", path, shown(str(error))) from None
    if len(modules) > _MAX_MODULES:
        raise DataError("{path}: {count:,} modules, more than any such model has", path, len(modules))
    for kind, inner in modules:
        if Path(inner).is_absolute() or ".." in Path(inner).parts:
            raise DataError("{path}: the module {kind} is outside the folder: {inner}", path, shown(kind), shown(inner))
    return modules


def _longest(backbone: Path) -> dict[str, object]:
    """Older folders say the longest text in a file of their own, newer ones in that of the tokenizer."""
    own, tokenizer = _if_there(backbone / "sentence_bert_config.json"), _if_there(backbone / "tokenizer_config.json")
    own.require("do_lower_case", False)
    longest = own.number("max_seq_length", tokenizer.number("model_max_length", _NO_LIMIT))
    return {"max_length": longest} if longest < _NO_LIMIT else {}


def _if_there(path: Path) -> ForeignSettings:
    return ForeignSettings.read(path) if path.exists() else ForeignSettings(path, {})


def _pooling(settings: ForeignSettings) -> str:
    """Older files have a yes or no for each way, newer ones name it."""
    prefix = "pooling_mode_"
    settings.require("include_prompt", True)
    ways = [name.removeprefix(prefix) for name, on in settings.values.items() if on is True and name.startswith(prefix)]
    named = settings.values.get("pooling_mode")
    ways += [named] if isinstance(named, str) else named or []
    way = _POOLINGS.get(str(ways[0]).removesuffix("_tokens").removesuffix("_token")) if len(ways) == 1 else None
    if way is None:
        known = ", ".join(_POOLINGS)
        raise DataError("{path}: pooling must be one of {known}, not {ways}", settings.path, known, shown(repr(ways)))
    return way


def _dense(settings: ForeignSettings) -> tuple[int, str]:
    settings.require("use_residual", False)
    for name in ("module_input_name", "module_output_name"):
        settings.require(name, "sentence_embedding")
    name = str(settings.values.get("activation_function", "Tanh")).rpartition(".")[2]
    own = ForeignSettings(settings.path, {"activation_function": name})
    return settings.number("out_features"), own.choice("activation_function", "Tanh", _ACTIVATIONS)


def _prompts(path: Path) -> dict[str, object]:
    """Return the texts that may be put before a text, and the name of the usual one."""
    values = _if_there(path).values
    prompts, usual = values.get("prompts") or {}, values.get("default_prompt_name") or ""
    if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
        raise DataError("{path}: prompts must be texts by their names", path)
    if usual and usual not in prompts:
        raise DataError("{path}: default_prompt_name is {name}, but no prompt has that name", path, shown(repr(usual)))
    return {"prompts": prompts, "default_prompt": usual} if prompts else {}
