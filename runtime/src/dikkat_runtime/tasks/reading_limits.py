"""Limit the length of a piece to that of the training lines, as recorded in the run."""

from collections.abc import Mapping
from typing import Any

from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.errors import DataError
from dikkat_runtime.text.casing import lower
from dikkat_runtime.text.segmentation import ReadingLimits

_SHARE = 0.005
"""Share of training lines with several sentences, below which the model has learned nothing from them."""
_SLACK = 1.25
"""Factor by which a sentence may be longer than the longest of the training data before it is cut."""


def default_limits(max_length: int, max_positions: int | None) -> ReadingLimits:
    """Return the limits where no training lines are recorded: `data.max_length`, and the learned positions.

    `max_positions` is None where positions are not learned.
    """
    most = max_length
    if max_positions is not None:
        # the longest translation of n tokens and an end mark must fit into the table of positions
        options = DecodingOptions()
        available = max_positions - options.max_length_offset
        most = min(most, max(1, int(available / options.max_length_factor) - 1))
    return ReadingLimits(most, most, several_sentences=True)


def limits_of_profile(profile: Mapping[str, Any], most: int, where: str) -> ReadingLimits:
    """Return the limits from the recorded profile of the training lines; `most` is the longest possible piece.

    A sentence is read whole up to a quarter more tokens than the longest training line had. Several sentences are read
    together up to the 99.9th percentile of the training lines, where at least one line in 200 had several; else each is
    read alone. Raises `DataError` naming the file `where` for an invalid profile.
    """
    try:
        longest, usual, several = (profile[name] for name in ("longest", "usual", "several_sentences"))
        is_sound = 1 <= int(usual) <= int(longest) and 0 <= float(several) <= 1
    except (KeyError, TypeError, ValueError, OverflowError):
        is_sound = False
    if not is_sound:
        raise DataError("{where}: data_source.source_lines is damaged; restore it from a copy of the run", where)
    return ReadingLimits(min(most, int(_SLACK * longest)), min(most, int(usual)), several >= _SHARE)


def limits_of_run(config: Mapping[str, Any], where: str) -> ReadingLimits:
    """Return the limits of a run from its settings. Raises `DataError` where they are damaged."""
    data, model = config.get("data"), config.get("model")
    try:
        is_learned = model["positions"] == "learned"  # type: ignore[index]
        usual = default_limits(int(data["max_length"]), int(model["max_positions"]) if is_learned else None)  # type: ignore[index]
    except (KeyError, TypeError, ValueError):
        raise DataError("{where}: damaged: it has no data.max_length; restore the file", where) from None
    profile: Any = data_source(config).get("source_lines")
    return usual if profile is None else limits_of_profile(profile, usual.longest, where)


def usual_forms_of(config: Mapping[str, Any], language: str) -> dict[str, str]:
    """Return the words that the settings of a run record, in small letters, and their usual forms."""
    forms = str(data_source(config).get("words") or "").split()
    return {lower(form, language): form for form in forms}


def data_source(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the settings of a run say of its data; nothing where they have no such section."""
    source: Any = config.get("data_source")
    return source if isinstance(source, dict) else {}
