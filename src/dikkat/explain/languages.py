"""The languages of an explanation, by their codes."""

from __future__ import annotations

from dikkat.explain.wording import Wording
from dikkat.explain.wording_english import ENGLISH
from dikkat.explain.wording_turkish import TURKISH
from dikkat_runtime.errors import UsageError

_WORDINGS = {"en": ENGLISH, "tr": TURKISH}


def wording_of(language: str) -> Wording:
    """The texts in English (`en`) or Turkish (`tr`). Raises `UsageError` for another language."""
    if language not in _WORDINGS:
        raise UsageError(f'there is no explanation in "{language}"; choose from {", ".join(_WORDINGS)}')
    return _WORDINGS[language]
