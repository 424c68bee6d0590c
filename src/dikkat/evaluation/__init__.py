"""Measure how good a model is: standard scores with their signatures, and baselines for comparison."""

from __future__ import annotations

from dikkat.evaluation.baselines import copy_source, most_frequent_translation
from dikkat.evaluation.bleu_k import bleu_k
from dikkat.evaluation.scores import Scores, score_translations, sentence_chrf
from dikkat.evaluation.scoring import Scoring, scoring_for

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
