"""The languages of an explanation, by their codes."""

from __future__ import annotations

from dikkat.explain.messages import Messages
from dikkat.explain.messages_english import ENGLISH
from dikkat.explain.messages_turkish import TURKISH
from dikkat_runtime.errors import UsageError

_WORDINGS = {"en": ENGLISH, "tr": TURKISH}


def messages_for(language: str) -> Messages:
    """Return the messages in English (`en`) or Turkish (`tr`). Raises `UsageError` for another language."""
    if language not in _WORDINGS:
        raise UsageError(f'there is no explanation in "{language}"; choose from {", ".join(_WORDINGS)}')
    return _WORDINGS[language]
