"""Lower-case text with the dotless and the dotted i of Turkish and Azeri."""

import re
from functools import lru_cache

_DOTTED_I_LANGUAGES = frozenset({"tr", "tur", "az", "aze"})
_SMALL_I_WITH_DOT = re.compile("İ|I\u0307")


@lru_cache(maxsize=256)
def has_dotted_i(language: str) -> bool:
    """Return whether `language` ("tr", "tur", "tr_TR", "az", …) pairs I with ı and İ with i."""
    return re.split("[-_.@]", language.lower(), maxsplit=1)[0] in _DOTTED_I_LANGUAGES


def lower(text: str, language: str = "") -> str:
    """Lower-case `text` by the rules of `language`.

    In Turkish and Azeri I becomes ı, and İ (also I with a combining dot above) becomes i; elsewhere this is
    `str.lower`. Source: Unicode, SpecialCasing.txt, conditions `tr` and `az`.
    """
    if has_dotted_i(language):
        text = _SMALL_I_WITH_DOT.sub("i", text).replace("I", "ı")
    return text.lower()


def capitalized(text: str, language: str = "") -> str:
    """Return `text` with a capital at its beginning, by the rules of `language`: İ for i in Turkish and Azeri."""
    first = "İ" if text.startswith("i") and has_dotted_i(language) else text[:1].upper()
    # a letter such as ß has no capital of its own
    return (first if len(first) == 1 else text[:1]) + text[1:]
