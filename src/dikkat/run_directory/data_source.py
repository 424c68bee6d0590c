"""Read what the settings of a run say of the data that it was trained on, and check that it can be shown."""

from collections.abc import Callable, Mapping
from typing import Any

from dikkat_runtime.errors import DataError


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _are_counts(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_count, value.values()))


def _is_adapted(value: Any) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("chrf_before"), dict):
        return False
    scores = value["chrf_before"]
    are_scores = set(scores) <= {"new", "old", "written"} and all(
        type(score) in (int, float) for score in scores.values()
    )
    return are_scores and _is_text(value.get("run")) and _is_count(value.get("old_pairs"))


_COMMON: dict[str, Callable[[Any], bool]] = {"data": _are_texts, "preset": _is_text, "sha256": _is_text}
_HELD_OUT = {"validation_data": _are_texts, "left_out": _are_counts}
_NEEDED: dict[str, dict[str, Callable[[Any], bool]]] = {
    "translator": {
        **_COMMON, **_HELD_OUT, **dict.fromkeys(("train_pairs", "validation_pairs", "test_pairs"), _is_count),
    },
    "classifier": {
        **_COMMON, **_HELD_OUT, **dict.fromkeys(("train_texts", "validation_texts", "test_texts"), _is_count),
        "classes": _are_counts, "validation_classes": _are_counts,
    },
    "lm": {
        **_COMMON,
        **dict.fromkeys(("documents", "train_characters", "validation_characters", "validation_bytes"), _is_count),
    },
}  # fmt: skip


_OPTIONAL: dict[str, Callable[[Any], bool]] = {
    "init": _is_text, "validation_seen": _is_count, "adapted": _is_adapted,
}  # fmt: skip
"""Parts that may be missing or None."""


def data_source(settings: Mapping[str, Any], where: object) -> dict[str, Any]:
    """Return what the settings in the file `where` say of the data of a run.

    Raises `DataError` for a part that is missing or of another type, which a report, a card and training need.
    """
    source = settings.get("data_source")
    if not isinstance(source, dict):
        raise DataError("{where}: damaged: it has no data_source; restore it from a copy of the run", where)
    needed = _NEEDED.get(str(settings.get("task", "translator")), _COMMON)
    stated = {name: fits for name, fits in _OPTIONAL.items() if source.get(name) is not None}
    for name, fits in {**needed, **stated}.items():
        if not fits(source.get(name)):
            raise DataError("{where}: data_source.{name} is damaged; restore it from a copy of the run", where, name)
    return source
