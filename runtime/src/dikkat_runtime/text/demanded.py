"""Words that a translation must hold: their allowed forms, and their counts in a text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from dikkat_runtime.text.casing import capitalized
from dikkat_runtime.text.placeholders import with_ascii_digits
from dikkat_runtime.text.segmentation import is_spaceless
from dikkat_runtime.text.suffixes import are_suffixes

Reason = Literal["term", "placeholder", "number"]
_OPENERS = "\"'“‘„«‹([¿¡–—- "
_BEFORE_SENTENCE = r"(?:^|(?<=[.!?:…] ))[\"'“‘„«‹(\[¿¡–—\- ]*"


@dataclass(frozen=True, slots=True)
class Demanded:
    """Words to write exactly `count` times, each time in one of their forms."""

    forms: tuple[str, ...]
    count: int = 1
    reason: Reason = "term"
    source: str = ""
    """The part of the source that asks for it."""
    spans: tuple[tuple[int, int], ...] = ()
    """Start and end of that part in the source."""


def unmet(text: str, demands: Sequence[Demanded], *, suffixes: bool) -> list[Demanded]:
    """Return the demands that `text` does not meet exactly; where forms are shared, the first demands count first.

    A form counts as a word of its own: no letters or digits stand next to it, but with `suffixes` after it those of
    Turkish nouns. A form in small letters may begin with a capital where a sentence begins.
    """
    if any(demand.reason == "number" for demand in demands):
        text = with_ascii_digits(text)
    left = [demand.count for demand in demands]
    surplus = set[int]()
    for match in _pattern(tuple(sorted({form for demand in demands for form in demand.forms}))).finditer(text):
        written, behind = match["form"] or match["first"], match["behind"]
        takes = [number for number, demand in enumerate(demands) if _holds(demand, written, bool(match["first"]))]
        if behind and not (suffixes and are_suffixes(behind) and any(demands[n].reason == "term" for n in takes)):
            continue
        wanting = [number for number in takes if left[number]]
        if wanting:
            left[wanting[0]] -= 1
        else:
            surplus.update(takes[:1])
    return [demand for number, demand in enumerate(demands) if left[number] or number in surplus]


def held_spans(text: str, demands: Sequence[Demanded]) -> list[tuple[int, int]]:
    """Return start and end of each form of the demands in a text, with the letters after it."""
    forms = tuple(sorted({form for demand in demands for form in demand.forms}))
    return [match.span() for match in _pattern(forms).finditer(text)] if forms else []


def begins_sentence(text: str, position: int) -> bool:
    """Return whether a word at this character begins a sentence, perhaps after opening signs."""
    before = text[:position]
    stem = before.rstrip(_OPENERS)
    return not stem or (stem[-1] in ".!?:…" and before[len(stem) : len(stem) + 1] == " ")


def _holds(demand: Demanded, written: str, is_first: bool) -> bool:
    if is_first:
        return any(written in (capitalized(form), capitalized(form, "tr")) for form in demand.forms)
    return written in demand.forms


@lru_cache(maxsize=4096)
def _pattern(forms: tuple[str, ...]) -> re.Pattern[str]:
    longest_first = sorted(forms, key=lambda form: (-len(form), form))
    capitals = ((form, capitalized(form, language)) for form in longest_first for language in ("", "tr"))
    firsts = {capital for form, capital in capitals if capital != form}
    first = "|".join(map(re.escape, sorted(firsts, key=lambda form: (-len(form), form)))) or r"(?!)"
    inner = "|".join(_bordered(form) for form in longest_first)
    return re.compile(rf"(?:{_BEFORE_SENTENCE}(?P<first>{first})|(?P<form>{inner}))(?P<behind>(?:(?<=\w)[^\W_]+)?)")


def _bordered(form: str) -> str:
    """Return a pattern of the form without letters or digits of another word before it."""
    if is_spaceless(form[0]):
        return re.escape(form)
    before = r"(?<![\w.,])" if form[0].isdigit() else r"(?<!\w)"
    behind = r"(?![.,]?\d)" if form[-1].isdigit() else ""
    return (before if form[0].isalnum() else "") + re.escape(form) + behind
