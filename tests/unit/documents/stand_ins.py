"""Models that say what a test wants: no weights, exact alignments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dikkat_runtime.documents.documents import TranslatedDocument, translate_document
from dikkat_runtime.documents.segments import Options
from dikkat_runtime.tasks.aligner import word_spans

ENGLISH_FRENCH = Options("en", "fr")


def same(texts: Sequence[str]) -> list[str]:
    """Every text as it is: then no byte of a document may change but what marks a text as translated."""
    return list(texts)


def shouting(texts: Sequence[str]) -> list[str]:
    """Every text in capital letters: which words come from which is seen."""
    return [text.upper() for text in texts]


def reversing(texts: Sequence[str]) -> list[str]:
    """The words of every text in reverse order, its last sign where it was."""
    return [" ".join(reversed(text.rstrip(".?!").split(" "))) + text[len(text.rstrip(".?!")) :] for text in texts]


def in_order(source: str, target: str) -> NDArray[np.float32]:
    """Word answers word."""
    return np.eye(len(word_spans(target)), len(word_spans(source)), dtype=np.float32)


def in_reverse(source: str, target: str) -> NDArray[np.float32]:
    """The alignment of `reversing`."""
    sources = [source[slice(*span)] for span in word_spans(source)]
    targets = [target[slice(*span)] for span in word_spans(target)]
    return np.array([[float(ours == theirs) for ours in sources] for theirs in targets], np.float32)


def unchanged(data: bytes, name: str) -> TranslatedDocument:
    """A document whose text is translated into itself."""
    return translate_document(data, name, same, align=in_order, options=ENGLISH_FRENCH)
