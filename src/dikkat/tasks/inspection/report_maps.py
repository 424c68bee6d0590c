"""Draw a few small attention maps of a classifier or a language model for its report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dikkat.explain.attention_map import AttentionMap, mean_of_heads
from dikkat.explain.joined_words import join_words
from dikkat.tasks.inspection.reader_attention import AttendingReader
from dikkat_runtime.tasks.classifier import Classifier
from dikkat_runtime.tasks.generator import Generator as LanguageModel

MAPS = 3
MAX_TOKENS = 40
"""Longer texts are not shown: their maps are too fine to read."""


def attention_of(trained: Classifier | LanguageModel, texts: Sequence[str]) -> list[tuple[str, AttentionMap]]:
    """Return at most `MAPS` of `texts`, evenly spread, with the mean map of the last layer between words."""
    reader = AttendingReader.of(trained)
    ((stack, kind), layers), *_ = reader.layers.items()
    wanted = reader.choose(stack, kind, layers - 1)
    short = [text for text in texts if text.strip() and len(trained.tokenizer.encode(text.strip())) <= MAX_TOKENS]
    chosen = np.unique(np.linspace(0, len(short) - 1, MAPS).astype(int)).tolist() if short else []
    texts_and_maps = [(short[index], join_words(reader.read(short[index], wanted))) for index in chosen]
    return [(text, mean_of_heads(maps.select(stack, kind, layers - 1, None))) for text, maps in texts_and_maps]
