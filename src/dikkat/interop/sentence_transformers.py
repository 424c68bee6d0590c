"""Settings that the `sentence-transformers` library stores next to a backbone: pooling, normalisation, longest text."""

from pathlib import Path

from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat_runtime.errors import DataError, msg
from dikkat_runtime.text.foreign_json import read_json, shown

MODULES = "modules.json"
"""File that lists the modules; a folder without it is a plain checkpoint."""

_MAX_MODULES = 16
_POOLINGS = {"mean_tokens": "mean", "mean": "mean", "cls_token": "first", "cls": "first"}


def backbone_folder(folder: Path) -> Path:
    """Return the folder of the backbone: `folder` itself, or the subfolder that its list of modules names."""
    return folder / next((path for kind, path in _modules(folder) if kind == "Transformer"), "")


def encoder_settings_of(folder: Path) -> dict[str, object]:
    """Return our settings for what is around the backbone; nothing for a plain checkpoint.

    Raises `DataError` for a module that we have no counterpart for.
    """
    settings: dict[str, object] = {}
    for kind, path in _modules(folder):
        if kind == "Transformer":
            settings |= _longest(folder / path / "sentence_bert_config.json")
        elif kind == "Pooling":
            settings["pooling"] = _pooling(ForeignSettings.read(folder / path / "config.json"))
        elif kind == "Normalize":
            settings["normalize"] = True
        else:
            raise DataError('{folder}: the module "{kind}" is not supported', folder / MODULES, shown(kind))
    return settings


def _modules(folder: Path) -> list[tuple[str, str]]:
    """Kind and folder of each module."""
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


def _longest(path: Path) -> dict[str, object]:
    if not path.exists():
        return {}
    settings = ForeignSettings.read(path)
    settings.require("do_lower_case", False)
    return {} if settings.values.get("max_seq_length") is None else {"max_length": settings.number("max_seq_length")}


def _pooling(settings: ForeignSettings) -> str:
    """Older files have a yes or no for each way, newer ones name it."""
    prefix = "pooling_mode_"
    chosen = [name.removeprefix(prefix) for name, on in settings.values.items() if on is True]
    ways = [name for name in chosen if f"{prefix}{name}" in settings.values]
    if isinstance(named := settings.values.get("pooling_mode"), str):
        ways.append(named)
    if len(ways) != 1 or ways[0] not in _POOLINGS:
        raise DataError("{path}: pooling must be by the mean or the first token alone, not {ways}").fill(
            settings.path, shown(repr(ways))
        )
    return _POOLINGS[ways[0]]
