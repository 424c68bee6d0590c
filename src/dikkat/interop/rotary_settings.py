"""Read the rotary positions of a foreign config.json: their base, the share of a head that turns, and their scaling."""

import math
from collections.abc import Mapping
from typing import Any

from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.nn.rotary import rotary_frequencies
from dikkat_runtime.errors import DataError
from dikkat_runtime.text.foreign_json import shown

_LOCAL, _LONG, _MAX_WIDTH = "sliding_attention", ("longrope", "su"), 1 << 14


def rotary_settings(
    theirs: ForeignSettings, width: int, base: float = 10000.0, share: float = 1.0, kind: str = ""
) -> dict[str, object]:
    """Return the settings of rotary positions for heads of `width`; `base` and `share` are used where none stand there.

    With a `kind` of layers, such as "full_attention", theirs may differ between kinds. Raises `DataError` for a scaling
    that is not known.
    """
    if not 0 < width <= _MAX_WIDTH:
        raise DataError("{path}: heads of {width} numbers are not supported", theirs.path, width)
    scaling = _scaling(theirs, kind)
    own = ForeignSettings(theirs.path, {**theirs.values, **scaling})
    named = ForeignSettings(theirs.path, scaling)
    legacy = "rope_local_base_freq" if kind == _LOCAL else "rope_theta"
    base = named.number("rope_theta", theirs.number(legacy, theirs.number("rotary_emb_base", base)))
    share = own.number("partial_rotary_factor", theirs.number("rotary_pct", share))
    rotary_dim = int(width * share) // 2 * 2
    frequencies = rotary_frequencies(rotary_dim, float(base))
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    frequencies, factor = _scaled(own, kind, frequencies, base)
    if factor != 1.0 and rotary_dim != width:
        raise DataError("{path}: a rope scaling with an attention factor needs whole heads to turn", theirs.path)
    settings: dict[str, object] = {
        "positions": "rotary",
        "rotary_frequencies": (*frequencies, *[0.0] * ((width - rotary_dim) // 2)),
    }
    if kind in _LONG:  # longer texts turn by other frequencies
        settings["max_positions"] = own.number("original_max_position_embeddings")
    # a factor on rotated queries and keys is its square on the scores
    return settings if factor == 1.0 else {**settings, "inverse_temperature": factor**2 / math.sqrt(width)}


def window_frequencies(theirs: ForeignSettings, width: int, base: float) -> dict[str, object]:
    """Return the setting of the frequencies of layers with a window."""
    return {"window_rotary_frequencies": rotary_settings(theirs, width, base, kind=_LOCAL)["rotary_frequencies"]}


def _scaling(theirs: ForeignSettings, kind: str) -> Mapping[str, Any]:
    value = theirs.values.get("rope_parameters") or theirs.values.get("rope_scaling") or {}
    if isinstance(value, Mapping) and isinstance(inner := value.get(kind or "full_attention"), Mapping):
        value = inner
    elif kind == _LOCAL:
        value = {}
    if not isinstance(value, Mapping):
        raise DataError("{path}: rope_parameters must be one object of settings", theirs.path)
    return value


def _scaled(own: ForeignSettings, kind: object, frequencies: list[float], base: float) -> tuple[list[float], float]:
    """Scale frequencies; also returns the factor of rotated queries and keys."""
    if kind in ("default", "dynamic"):
        # dynamic scaling begins beyond the positions of training, which no text exceeds here
        return frequencies, 1.0
    if kind == "linear":
        return [frequency / own.number("factor") for frequency in frequencies], 1.0
    if kind == "llama3":
        return _llama3(own, frequencies), 1.0
    if kind == "yarn":
        return _yarn(own, frequencies, base)
    if kind in _LONG:
        return _longrope(own, frequencies)
    raise DataError("{path}: rope_type {kind} is not supported", own.path, shown(repr(kind)))


def _llama3(own: ForeignSettings, frequencies: list[float]) -> list[float]:
    factor, low, high = (own.number(name) for name in ("factor", "low_freq_factor", "high_freq_factor"))
    turns = own.number("original_max_position_embeddings") / (2 * math.pi)
    return _mixed(frequencies, factor, [(turns * frequency - low) / (high - low) for frequency in frequencies])


def _mixed(frequencies: list[float], factor: float, kept: list[float]) -> list[float]:
    """Divide frequencies by a factor, but for the share of each that is kept, at least 0 and at most 1."""
    shares = [min(1.0, max(0.0, share)) for share in kept]
    return [own / factor * (1 - share) + own * share for own, share in zip(frequencies, shares, strict=True)]


def _yarn(own: ForeignSettings, frequencies: list[float], base: float) -> tuple[list[float], float]:
    """Peng et al. (2023, sections 3.2 and 3.4)."""
    factor, width = own.number("factor"), 2 * len(frequencies)
    length = own.number("original_max_position_embeddings", own.values.get("max_position_embeddings"))

    def pair(rotations: float) -> float:
        return width * math.log(length / (rotations * 2 * math.pi)) / (2 * math.log(base))

    low, high = pair(own.number("beta_fast", 32)), pair(own.number("beta_slow", 1))
    if own.values.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    high = high + 0.001 if low == high else high
    scaled = _mixed(frequencies, factor, [1 - (number - low) / (high - low) for number in range(len(frequencies))])
    if own.values.get("mscale") and own.values.get("mscale_all_dim"):
        raise DataError("{path}: mscale is not supported", own.path)
    return scaled, float(own.number("attention_factor", 0.1 * math.log(factor) + 1.0 if factor > 1 else 1.0))


def _longrope(own: ForeignSettings, frequencies: list[float]) -> tuple[list[float], float]:
    """Within the positions of the first training, which are all that are read here."""
    short, length = own.values.get("short_factor"), own.number("original_max_position_embeddings")
    if not isinstance(short, list) or len(short) != len(frequencies):
        raise DataError("{path}: short_factor must be {count} numbers", own.path, len(frequencies))
    grown = own.number("factor", own.number("max_position_embeddings", length) / length)
    usual = math.sqrt(1 + math.log(grown) / math.log(length)) if grown > 1 else 1.0
    scaled = [frequency / float(divisor) for frequency, divisor in zip(frequencies, short, strict=True)]
    return scaled, float(own.number("attention_factor", usual))
