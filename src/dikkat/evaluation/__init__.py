"""Measure how good a model is: standard scores with their signatures, and baselines for comparison."""

from dikkat.evaluation.scores import (
    Scores,
    Scoring,
    bleu_k,
    copy_source,
    most_frequent_translation,
    score_translations,
    scoring_for,
    sentence_chrf,
)

__all__ = [
    "Scores",
    "Scoring",
    "bleu_k",
    "copy_source",
    "most_frequent_translation",
    "score_translations",
    "scoring_for",
    "sentence_chrf",
]
