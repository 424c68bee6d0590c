"""Choose size, vocabulary and schedule from the amount of data, where the user names no preset.

Each row was chosen by trials on validation data; more data allows more parameters and needs fewer passes.
"""

from typing import NotRequired, TypedDict

from dikkat.config import RunConfig, merge
from dikkat.tasks.common.settings import Settings
from dikkat.tasks.common.speed_trial import (
    FEW_PASSES,
    asked_minutes,
    fitting,
    may_choose_size,
    needed_updates,
    translator_seconds,
    with_asked_training,
)
from dikkat_runtime.engine.options import Device

MINUTES_FOR_BOTH_DIRECTIONS = 0.6
"""Minutes for a thousand pairs above which a run also trains the other direction, as it sees its data often."""


class Recipe(TypedDict):
    """Hold the settings that depend on the time limit as well as on the amount of data."""

    batch: int
    """Tokens in a batch."""
    dropout: float
    matrix_learning_rate: float
    weight_decay: float
    bidirectional_share: NotRequired[float]
    validations: NotRequired[int]


def settings_for(pairs: int, minutes: float | None) -> Settings:
    """Return the settings that differ from the defaults for `pairs` training pairs and `minutes`."""
    if pairs < 3_000:
        return _settings(
            dim=128, heads=4, ff_dim=256, layers=(2, 2), vocabulary=1_000, dropout=0.3, batch=1024, epochs=60
        )
    if pairs < 15_000:
        return _settings(
            dim=128, heads=4, ff_dim=512, layers=(3, 2), vocabulary=2_000, dropout=0.2, batch=2048, epochs=40
        )
    if pairs < 300_000:
        return _settings(
            dim=256, heads=4, ff_dim=512, layers=(3, 3), vocabulary=4_000, epochs=30, **_recipe(pairs, minutes)
        )
    if pairs < 3_000_000:
        return _settings(
            dim=384, heads=6, ff_dim=1536, layers=(6, 3), vocabulary=16_000, dropout=0.1, batch=8192, epochs=8
        )
    return _settings(dim=512, heads=8, ff_dim=2048, layers=(6, 6), vocabulary=32_000, dropout=0.1, batch=8192, epochs=3)


def _recipe(pairs: int, minutes: float | None) -> Recipe:
    """A few passes need many updates, little dropout and few interruptions; of many only dropout keeps the last useful.

    All of them gain by decay of the weights, and by a higher rate next to it; the more updates, the less decay in each.
    Whoever has time to see the data twenty times learns more from it by reading it backwards, too, at first; in nine to
    fourteen passes that gave nothing or less.
    """
    if minutes is None or minutes > 10:
        recipe = Recipe(batch=4096, dropout=0.2, matrix_learning_rate=8e-3, weight_decay=0.15)
        if minutes is None or 1000 * minutes / pairs > MINUTES_FOR_BOTH_DIRECTIONS:
            recipe["bidirectional_share"] = 0.33
        return recipe
    if minutes > 5:
        return Recipe(batch=4096, dropout=0.1, matrix_learning_rate=8e-3, weight_decay=0.25)
    return Recipe(batch=2048, dropout=0.05, matrix_learning_rate=8e-3, weight_decay=0.25, validations=5)


def _settings(
    *,
    dim: int,
    heads: int,
    ff_dim: int,
    layers: tuple[int, int],
    vocabulary: int,
    dropout: float,
    batch: int,
    epochs: float,
    **training: float,
) -> Settings:
    return {
        "model": {
            "model_dim": dim,
            "num_heads": heads,
            "feed_forward_dim": ff_dim,
            "encoder_layers": layers[0],
            "decoder_layers": layers[1],
            "dropout": dropout,
        },
        "tokenizer": {"vocab_size": vocabulary},
        "training": {"tokens_per_batch": batch, "max_epochs": epochs, **training},
    }


def translator_settings(pairs: int, asked: Settings, device: Device = "cpu") -> Settings:
    """Return `settings_for` so many pairs, or a smaller model where the time that is `asked` for is too short."""
    minutes = asked_minutes(asked)
    own = settings_for(pairs, minutes)
    if asked.get("data", {}).get("vocabularies") == "separate":
        # to learn backwards, each side would have to be fed the other's words
        own["training"].pop("bidirectional_share", None)
    if minutes is None or not may_choose_size(pairs, asked, device):
        return own
    smaller = (settings_for(amount, minutes) for amount in (299_999, 14_999, 2_999) if amount < pairs)
    candidates = [own, *(merge(settings, FEW_PASSES) for settings in smaller)]

    def needed(config: RunConfig) -> int:
        return needed_updates(config, pairs * 16 / config.training.tokens_per_batch)

    return fitting(with_asked_training(candidates, asked), minutes, translator_seconds, needed)
