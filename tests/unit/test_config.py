"""Settings: defaults that fit together, presets, layers, and a clear line for whatever does not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from dikkat.config import ModelConfig, RunConfig, build_config, merge, preset
from dikkat.config.settings import read_toml
from dikkat.presets import PRESETS
from dikkat_runtime.errors import DataError, MissingInputError, UsageError

SECTIONS = [field.annotation for field in RunConfig.model_fields.values()]


def test_every_field_is_described() -> None:
    for section in SECTIONS:
        assert isinstance(section, type)
        assert issubclass(section, BaseModel)
        for name, field in section.model_fields.items():
            assert field.description, f"{section.__name__}.{name}"
            assert not field.is_required(), "every setting has a default"


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        setattr(RunConfig().model, "model_dim", 1)  # noqa: B010


def test_what_is_written_is_read_back() -> None:
    config = build_config({"model": {"model_dim": 96}, "training": {"minutes": 2.5}})
    assert build_config(config.model_dump()) == config


@pytest.mark.parametrize("name", PRESETS)
def test_presets_fit(name: str) -> None:
    config = build_config(preset(name))
    for section, values in preset(name).items():
        for key, value in values.items():
            assert getattr(getattr(config, section), key) == value


def test_d2l_has_the_sizes_of_the_textbook() -> None:
    """Row E10: width 32, 2 layers, 4 heads, feed-forward 64, dropout .1, rate .005, 200 passes, post-norm (E1)."""
    config = build_config(preset("d2l"))
    model, training = config.model, config.training
    assert (model.model_dim, model.encoder_layers, model.decoder_layers, model.num_heads) == (32, 2, 2, 4)
    assert (model.feed_forward_dim, model.dropout, model.norm_placement) == (64, 0.1, "post")
    assert (training.learning_rate, training.max_epochs, training.clip_norm) == (0.005, 200, 1.0)
    assert (config.tokenizer.kind, config.tokenizer.min_frequency) == ("words", 2)


def test_an_unknown_preset_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r'no preset is called "tinny"; did you mean "tiny"\? known: tiny, small'):
        preset("tinny")


def test_the_later_layer_wins_key_by_key() -> None:
    low: dict[str, dict[str, Any]] = {"model": {"model_dim": 1, "num_heads": 2}, "data": {"max_length": 3}}
    high: dict[str, dict[str, Any]] = {"model": {"num_heads": 9}, "training": {"seed": 4}}
    merged = merge(low, high)
    assert merged == {"model": {"model_dim": 1, "num_heads": 9}, "data": {"max_length": 3}, "training": {"seed": 4}}
    assert low == {"model": {"model_dim": 1, "num_heads": 2}, "data": {"max_length": 3}}, "the layers stay as they were"
    assert merge() == {}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"modle": {}}, r'here: unknown key "modle"; did you mean "model"\?'),
        ({"model": {"num_head": 2}}, r'here: unknown key "model.num_head"; did you mean "num_heads"\?'),
        (
            {"data": {"zzz": 2}},
            'here: unknown key "data.zzz"; known: source_language, target_language, vocabularies, formality',
        ),
        ({"model": {"dropout": 1.0}}, "here: model.dropout: input should be less than 1, not 1.0"),
        ({"training": {"minutes": -1}}, "here: training.minutes: input should be greater than 0, not -1"),
        ({"training": {"seed": "x"}}, "here: training.seed: input should be a valid integer.*, not 'x'"),
        (
            {"tokenizer": {"kind": "chars"}},
            "here: tokenizer.kind: input should be 'bpe', 'unigram', 'words', 'characters' or 'bytes', not 'chars'",
        ),
        ({"training": 3}, "here: training: input should be a valid dictionary.*, not 3"),
        (
            {"model": {"model_dim": 8, "num_heads": 3}},
            "here: model: num_heads must divide model_dim, but 3 does not divide 8",
        ),
    ],
)
def test_what_does_not_fit_is_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=f"^{message}") as caught:
        build_config(settings, where="here")
    assert "\n" not in str(caught.value)


def test_heads_are_free_where_they_divide() -> None:
    assert ModelConfig(model_dim=8, num_heads=8).num_heads == 8


def test_toml(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text('[training]\nminutes = 5\n[data]\nsource_language = "tr"\n', encoding="utf-8")
    assert read_toml(path) == {"training": {"minutes": 5}, "data": {"source_language": "tr"}}
    with pytest.raises(MissingInputError, match=r"none\.toml: there is no such configuration file"):
        read_toml(tmp_path / "none.toml")
    for content in (b"[training\n", b"[data]\nsource_language = '\xff'\n"):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"config\.toml: not valid TOML: "):
            read_toml(path)


def test_toml_that_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="cannot be read: Is a directory"):
        read_toml(tmp_path)


def test_toml_with_a_key_outside_a_section(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("minutes = 5\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r'config\.toml: "minutes" stands outside a section; write it under a heading'):
        read_toml(path)
