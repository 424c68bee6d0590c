"""Settings by which Hugging Face searches: kept, or named where no search of ours follows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.pairs import read_generation
from dikkat_runtime.errors import DataError

USUAL: dict[str, Any] = {
    "bad_words_ids": [[7]], "num_beams": 4, "max_length": 512, "forced_eos_token_id": 0, "early_stopping": None,
    "min_length": 0, "do_sample": False, "repetition_penalty": 1.0, "suppress_tokens": [],
}  # fmt: skip
"""What folders of OPUS-MT say, and what changes nothing."""


def generation(
    folder: Path, config: dict[str, Any], own: dict[str, Any] | None = None
) -> tuple[float, tuple[str, ...]]:
    if own is not None:
        (folder / "generation_config.json").write_text(json.dumps(own))
    return read_generation(folder, ForeignSettings(folder / "config.json", {"pad_token_id": 7, **config}))[1:]


def test_usual_settings_are_not_told(tmp_path: Path) -> None:
    assert generation(tmp_path, {}) == (1.0, ())
    assert generation(tmp_path, {**USUAL, "length_penalty": 0.5}) == (0.5, ())
    # where a folder has both, transformers reads generation_config.json alone
    other = {"repetition_penalty": 1.5, "length_penalty": 0.5}
    assert generation(tmp_path, other, {**USUAL, "length_penalty": 0.8}) == (0.8, ())


def test_what_no_search_follows_is_named_with_its_file(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"no_repeat_ngram_size": 3, "bad_words_ids": [[7], [12, 13]], "early_stopping": True}
    assert generation(tmp_path, asked)[1] == (
        "no_repeat_ngram_size = 3 of config.json, which the search here does not apply",
        "early_stopping = True of config.json, which the search here does not apply",
        "bad_words_ids = [[7], [12, 13]] of config.json, which the search here does not apply",
    )
    # what a translation begins with is kept in its settings
    assert generation(tmp_path, {}, {"forced_bos_token_id": 5, "min_length": 3})[1] == (
        "min_length = 3 of generation_config.json, which the search here does not apply",
    )


def test_a_penalty_that_is_none_is_refused_with_its_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"/config\.json: length_penalty must be between 0 and 5, not -1"):
        generation(tmp_path, {"length_penalty": -1})
    with pytest.raises(DataError, match=r"/generation_config\.json: length_penalty must be a number, not 'x'"):
        generation(tmp_path, {}, {"length_penalty": "x"})
