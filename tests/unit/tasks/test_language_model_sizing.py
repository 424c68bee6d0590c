"""Sizes of a language model: every row is a whole configuration, and more text never gets a smaller model."""

from __future__ import annotations

from dikkat.config import build_config
from dikkat.models.factory import Factory
from dikkat.tasks.language_model.sizing import language_model_settings

AMOUNTS = (0, 299_999, 300_000, 1_000_000, 5_000_000, 50_000_000, 10**10)


def test_more_text_carries_more_parameters() -> None:
    configs = [build_config(language_model_settings(amount)) for amount in AMOUNTS]
    sizes = [
        sum(item.numel() for item in Factory(config.model).language_model("causal").parameters()) for config in configs
    ]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 4
    assert [config.tokenizer.kind for config in configs] == ["characters"] * 4 + ["bpe"] * 3


def test_a_language_model_is_not_smoothed() -> None:
    """Smoothing would make the training loss no likelihood."""
    assert all(build_config(language_model_settings(amount)).training.label_smoothing == 0.0 for amount in AMOUNTS)
