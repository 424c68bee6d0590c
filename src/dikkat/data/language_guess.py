"""Guess the language of texts from the texts themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

CONFIDENT = 0.9
"""Least probability of a guess that is reported."""
_CERTAIN = 0.99
"""Least probability of a guess that may contradict a name."""
_SAMPLE = 400
_SAMPLE_CHARACTERS = 20_000
_MIN_CHARACTERS = 200
"""Fewest characters for a guess."""
_ALIKE = (
    frozenset(("bs", "hr", "sr", "sl", "mk", "bg")),
    frozenset(("no", "nb", "nn", "da")),
    frozenset(("id", "ms", "jv")),
    frozenset(("zh", "yue", "wuu")),
    frozenset(("cs", "sk")),
    frozenset(("pt", "gl", "es")),
    frozenset(("az", "tr", "tk", "crh")),
    frozenset(("fa", "ps", "ur", "ku")),
    frozenset(("ru", "uk", "be")),
)
"""Languages that are mistaken for each other."""


def guess_language(texts: Sequence[str]) -> str:
    """Return the two-letter code of the language that `texts` are in, "" where that is not clear."""
    code, probability = _guess(texts)
    return code if probability >= CONFIDENT else ""


def contradicted_by(texts: Sequence[str], named: str) -> str:
    """Return the language that `texts` are in, when it is certainly not the one `named`; else ""."""
    own = named.lower().replace("-", "_").partition("_")[0]
    code, probability = _guess(texts)
    is_known = own in _identifier().nb_classes
    return code if is_known and probability >= _CERTAIN and code != own and not are_alike(code, own) else ""


def are_alike(one: str, other: str) -> bool:
    """Return whether two languages are mistaken for each other."""
    return any({one, other} <= group for group in _ALIKE)


def most_probable(text: str) -> tuple[str, float]:
    """Return the two-letter code of the most probable language of a single text, and the probability."""
    code, probability = _identifier().classify(text)
    return {"yue": "zh", "wuu": "zh"}.get(code, code), probability


def languages_known() -> list[str]:
    """Return the codes of the languages in `language_scores`, in its order."""
    return list(_identifier().labels)


def language_scores(text: str) -> NDArray[np.float64]:
    """Return the log-likelihoods of a text in each known language, up to a constant."""
    ranked = dict(_identifier().rank(text))
    probabilities = np.array([ranked.get(code, 0.0) for code in languages_known()])
    # the identifier divides logarithms by the root of the number of bytes
    scores: NDArray[np.float64] = np.log(np.maximum(probabilities, 1e-30)) * math.sqrt(len(text.encode()) or 1)
    return scores


def _guess(texts: Sequence[str]) -> tuple[str, float]:
    text = " ".join(texts[:: max(1, len(texts) // _SAMPLE)])[:_SAMPLE_CHARACTERS]
    if len(text.encode()) < _MIN_CHARACTERS:
        return "", 0.0
    return most_probable(text)


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # takes a second

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    codes = set(identifier.labels)
    identifier.set_languages({code for code in codes if len(code) == 2} | codes & {"yue", "wuu"})
    return identifier
