"""Read how `generate` of Hugging Face searches with a translator, and name what no search of ours follows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dikkat.interop.foreign_settings import ForeignSettings
from dikkat_runtime.errors import DataError
from dikkat_runtime.text.foreign_json import shown

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
        raise DataError(f"{settings.path}: length_penalty must be between 0 and 5, not {penalty}")
    named = [
        name for name, usual in _USUAL.items() if (value := settings.values.get(name)) is not None and value != usual
    ]
    padding = config.values.get("pad_token_id")
    # the padding is never written here, either
    if settings.values.get("bad_words_ids") not in (None, [], [[padding]]):
        named.append("bad_words_ids")
    left_out = (
        f"{name} = {shown(str(settings.values[name]))} of {settings.path.name}, which no search here follows"
        for name in named
    )
    return Generation(float(penalty), tuple(left_out))
