"""Choose size, vocabulary and schedule of a language model from the amount of text."""

from dikkat.config import RunConfig, merge
from dikkat.tasks.common.settings import Settings
from dikkat.tasks.common.speed_trial import (
    FEW_PASSES,
    asked_minutes,
    fitting,
    language_model_seconds,
    may_choose_size,
    needed_updates,
    with_asked_training,
)
from dikkat_runtime.engine.options import Device

COMMON: Settings = {
    # a scaled embedding drowns what the blocks add: tied to the output, it says at first that every token comes twice
    "model": {"positions": "rotary", "scale_embeddings": False},
    # small batches in many updates; what orthogonalising the matrices costs, a small model never earns back
    "training": {"optimizer": "adamw", "beta2": 0.99, "label_smoothing": 0.0},
}
"""Settings of every language model, those of presets included."""


def language_model_settings(characters: int) -> Settings:
    """Return the settings that differ from the defaults for `characters` characters of text."""
    if characters < 300_000:
        own = _settings(dim=128, heads=4, layers=4, dropout=0.2, context=128, batch=1024, rate=4e-3, epochs=40)
    elif characters < 5_000_000:
        own = _settings(dim=192, heads=4, layers=4, dropout=0.1, context=256, batch=1024, rate=3e-3, epochs=20)
    elif characters < 50_000_000:
        own = _settings(dim=256, heads=4, layers=6, dropout=0.1, context=256, batch=4096, rate=2e-3, epochs=8)
    else:
        own = _settings(dim=384, heads=6, layers=8, dropout=0.0, context=256, batch=8192, rate=1e-3, epochs=2)
    kind = {"kind": "characters"} if characters < 5_000_000 else {"kind": "bpe", "vocab_size": 8_000}
    return merge(COMMON, own, {"tokenizer": kind})


def _settings(
    *, dim: int, heads: int, layers: int, dropout: float, context: int, batch: int, rate: float, epochs: float
) -> Settings:
    return {
        "model": {
            "model_dim": dim,
            "num_heads": heads,
            "feed_forward_dim": 4 * dim,
            "decoder_layers": layers,
            "dropout": dropout,
        },
        "training": {"tokens_per_batch": batch, "learning_rate": rate, "max_epochs": epochs},
        "language_model": {"context": context},
    }


def language_model_settings_for(characters: int, asked: Settings, device: Device = "cpu") -> Settings:
    """Return `language_model_settings`, or a smaller model where the time asked for is too short."""
    minutes, own = asked_minutes(asked), language_model_settings(characters)
    if minutes is None or not may_choose_size(characters, asked, device):
        return own
    smaller = (language_model_settings(amount) for amount in (49_999_999, 4_999_999, 299_999) if amount < characters)
    kept: Settings = merge(FEW_PASSES, {"tokenizer": own["tokenizer"]})
    candidates = [own, *(merge(settings, kept) for settings in smaller)]

    def needed(config: RunConfig) -> int:
        tokens = characters / (4 if config.tokenizer.kind in ("bpe", "unigram") else 1)
        return needed_updates(config, tokens / config.training.tokens_per_batch)

    return fitting(with_asked_training(candidates, asked), minutes, language_model_seconds, needed)
