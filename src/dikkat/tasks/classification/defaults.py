"""Choose size, vocabulary and schedule of a classifier from the amount of text, where the user names no preset.

Each row was chosen by the trials in docs/log/.
"""

from __future__ import annotations

from dikkat.tasks.common.settings import Settings

_MOST_CLASSES = 4
"""Classes up to which a hashed table stands in for the word table: 4 MiB for each, and six times that in training."""


def classifier_settings_for(texts: int, classes: int = 2, *, has_word_table: bool = True) -> Settings:
    """Return the settings that differ from the defaults for `texts` labelled texts of `classes` classes.

    Without a word table an encoder of as many texts learns for longer, with a hashed table of few classes.

    The row up to 100,000 was chosen by the trials in docs/log/, the others scale it: a label carries little
    information, so a classifier is small, drops much, and never sees all the words of a text at once.
    """
    if texts < 3_000:
        return _classifier(dim=64, vocabulary=4_000, dropout=0.3, word_dropout=0.2, batch=2_048, epochs=30)
    if texts < 100_000:
        shape = _classifier(dim=64, vocabulary=20_000, dropout=0.4, word_dropout=0.4, batch=16_384, epochs=5)
        if has_word_table:
            shape["training"].update(max_epochs=0.3, validations=3)
        else:
            shape["classifier"]["ngram_rows"] = 1 << 20 if classes <= _MOST_CLASSES else 0
        return shape
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
        "classifier": {"word_dropout": word_dropout, "word_table": True, "baseline": True},
    }
