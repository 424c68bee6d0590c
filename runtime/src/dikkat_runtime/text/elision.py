"""Fit the words before a word to its first sound: l'homme but le monsieur, cet ami but ce voisin, an ox but a dog."""

import re
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from dikkat_runtime.text.casing import capitalized


class Ending(NamedTuple):
    """A way in which the text before a word may end."""

    text: str
    probe: str = ""
    """Where spelling leaves the gender open: the text with an article that shows it, to try before the old word."""


class _Change(NamedTuple):
    """The form of words before a vowel, and those before a consonant, each with an article of its gender."""

    vowel: str
    consonants: tuple[tuple[str, str], ...]


_FORMS: dict[str, tuple[_Change, ...]] = {
    "fr": (
        _Change("de l'", (("du", "d'un"), ("de la", "d'une"))),
        _Change("à l'", (("au", "à un"), ("à la", "à une"))),
        _Change("l'", (("le", "un"), ("la", "une"))),
        *(_Change(f"{own}on", ((f"{own}on", "un"), (f"{own}a", "une"))) for own in "mts"),
        *(_Change(f"{own}'", ((f"{own}e", ""),)) for own in ("d", "j", "m", "n", "s", "t", "qu", "jusqu", "lorsqu")),
        _Change("cet", (("ce", ""),)),
        _Change("bel", (("beau", ""),)),
        _Change("nouvel", (("nouveau", ""),)),
        _Change("vieil", (("vieux", ""),)),
    ),
    "en": (_Change("an", (("a", ""),)),),
}
"""By language; longer forms come first."""
_EITHER = {"fr": "hy", "en": "hu"}
"""Letters that begin words with a vowel as well as words with a consonant."""
_VOWELS = "aeiouœæ"


def fitted(before: str, old: str, new: str, language: str) -> list[Ending]:
    """Return the endings of the text `before` an `old` word, that a `new` one replaces; the best known first.

    There are several where spelling leaves it open: l' says no gender, and h may be silent.
    """
    code = re.split("[-_]", language.lower(), maxsplit=1)[0]
    if code not in _FORMS:
        return [Ending(before)]
    (old_vowel, old_open), (new_vowel, new_open) = (_begins(word, code) for word in (old, new))
    endings = [Ending(before)] if new_open else []
    if (old_vowel or old_open) and not new_vowel:
        endings += _replaced(before, [(change.vowel, change.consonants) for change in _FORMS[code]])
    if (not old_vowel or old_open) and (new_vowel or new_open):
        pairs = [(form, ((change.vowel, ""),)) for change in _FORMS[code] for form, _ in change.consonants]
        endings += _replaced(before, sorted(pairs, key=lambda pair: -len(pair[0])))
    return list(dict.fromkeys(endings)) or [Ending(before)]


def _begins(word: str, code: str) -> tuple[bool, bool]:
    """Return whether a word begins with a vowel, and whether its spelling leaves that open."""
    first = unicodedata.normalize("NFD", word)[:1].lower()
    is_open = first in _EITHER[code]
    return first in _VOWELS and not is_open, is_open


def _replaced(before: str, changes: Sequence[tuple[str, tuple[tuple[str, str], ...]]]) -> list[Ending]:
    """Return a text with the first ending that it has replaced by each of the others; nothing where it has none."""
    plain = before.replace("’", "'")
    for ending, others in changes:
        end = ending if ending.endswith("'") else f"{ending} "
        start = len(plain) - len(end)
        if start < 0 or plain[start:].lower() != end or (start and plain[start - 1].isalnum()):
            continue
        kept, apostrophe, is_capital = before[:start], "’" if "’" in before else "'", before[start].isupper()
        endings = []
        for pair in others:
            spelled = [capitalized(form) if is_capital else form for form in pair]
            spaced = [form if form[-1:] in ("", "'") else f"{form} " for form in spelled]
            form, probe = (own.replace("'", apostrophe) for own in spaced)
            endings.append(Ending(kept + form, kept + probe if probe else ""))
        return endings
    return []
