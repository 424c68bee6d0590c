"""Sizes, vocabulary and schedule from the amount of data, where the user names no preset.

Each row was chosen by the trials in docs/log.md; more data carries more parameters and needs fewer passes.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

Settings = dict[str, dict[str, Any]]

MINUTES_FOR_BOTH_DIRECTIONS = 0.6
"""For a thousand pairs: with more, a run sees its data often. Two cores take 0.7 for twenty passes of captions."""


class Pace(TypedDict):
    """What the time decides, beside the amount of data."""

    batch: int
    """Tokens."""
    dropout: float
    matrix_learning_rate: float
    weight_decay: float
    bidirectional_share: NotRequired[float]
    validations: NotRequired[int]


def settings_for(pairs: int, minutes: float | None) -> Settings:
    """Overrides of the defaults for so many training pairs and so much time."""
    if pairs < 3_000:
        return _settings(
            dim=128, heads=4, wide=256, layers=(2, 2), vocabulary=1_000, dropout=0.3, batch=1024, epochs=60
        )
    if pairs < 15_000:
        return _settings(
            dim=128, heads=4, wide=512, layers=(3, 2), vocabulary=2_000, dropout=0.2, batch=2048, epochs=40
        )
    if pairs < 300_000:
        return _settings(
            dim=256, heads=4, wide=512, layers=(3, 3), vocabulary=4_000, epochs=30, **_pace(pairs, minutes)
        )
    if pairs < 3_000_000:
        return _settings(
            dim=384, heads=6, wide=1536, layers=(6, 3), vocabulary=16_000, dropout=0.1, batch=8192, epochs=8
        )
    return _settings(dim=512, heads=8, wide=2048, layers=(6, 6), vocabulary=32_000, dropout=0.1, batch=8192, epochs=3)


def _pace(pairs: int, minutes: float | None) -> Pace:
    """A few passes need many updates, little dropout and few interruptions; of many only dropout keeps the last useful.

    All of them gain by decay of the weights, and by a higher rate beside it; the more updates, the less decay in each.
    Whoever has time to see the data twenty times learns more from it by reading it backwards, too, at first; in nine to
    fourteen passes that gave nothing or less.
    """
    if minutes is None or minutes > 10:
        pace = Pace(batch=4096, dropout=0.2, matrix_learning_rate=8e-3, weight_decay=0.15)
        if minutes is None or 1000 * minutes / pairs > MINUTES_FOR_BOTH_DIRECTIONS:
            pace["bidirectional_share"] = 0.33
        return pace
    if minutes > 5:
        return Pace(batch=4096, dropout=0.1, matrix_learning_rate=8e-3, weight_decay=0.25)
    return Pace(batch=2048, dropout=0.05, matrix_learning_rate=8e-3, weight_decay=0.25, validations=5)


def _settings(
    *,
    dim: int,
    heads: int,
    wide: int,
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
            "feed_forward_dim": wide,
            "encoder_layers": layers[0],
            "decoder_layers": layers[1],
            "dropout": dropout,
        },
        "tokenizer": {"vocab_size": vocabulary},
        "training": {"tokens_per_batch": batch, "max_epochs": epochs, **training},
    }


def classifier_settings_for(texts: int) -> Settings:
    """Overrides of the defaults for so many labelled texts.

    The row up to 100,000 was chosen by the trials in docs/log.md, the others scale it: a label says little, so a
    classifier is small, drops much, and never sees all the words of a text at once.
    """
    if texts < 3_000:
        return _classifier(dim=64, vocabulary=4_000, dropout=0.3, word_dropout=0.2, batch=2_048, epochs=30)
    if texts < 100_000:
        return _classifier(dim=64, vocabulary=20_000, dropout=0.4, word_dropout=0.4, batch=16_384, epochs=5)
    return _classifier(dim=128, vocabulary=20_000, dropout=0.2, word_dropout=0.2, batch=16_384, epochs=3)


def _classifier(
    *, dim: int, vocabulary: int, dropout: float, word_dropout: float, batch: int, epochs: float
) -> Settings:
    return {
        "model": {
            "model_dim": dim,
            "num_heads": 4,
            "feed_forward_dim": 2 * dim,
            "encoder_layers": 1,
            "dropout": dropout,
            "positions": "rotary",
        },
        "tokenizer": {"vocab_size": vocabulary, "lowercase": True},
        "training": {
            "tokens_per_batch": batch,
            "max_epochs": epochs,
        },
        "classifier": {"word_dropout": word_dropout},
    }
