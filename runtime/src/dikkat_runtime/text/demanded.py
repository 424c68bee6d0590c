"""Words that a translation must hold: their allowed forms, and their counts in a text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
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
        written, suffix = match["form"] or match["first"], match["suffix"]
        takes = [number for number, demand in enumerate(demands) if _holds(demand, written, bool(match["first"]))]
        if suffix and not (suffixes and are_suffixes(suffix) and any(demands[n].reason == "term" for n in takes)):
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
    return re.compile(rf"(?:{_BEFORE_SENTENCE}(?P<first>{first})|(?P<form>{inner}))(?P<suffix>(?:(?<=\w)[^\W_]+)?)")


def _bordered(form: str) -> str:
    """Return a pattern of the form without letters or digits of another word before it."""
    if is_spaceless(form[0]):
        return re.escape(form)
    before = r"(?<![\w.,])" if form[0].isdigit() else r"(?<!\w)"
    suffix = r"(?![.,]?\d)" if form[-1].isdigit() else ""
    return (before if form[0].isalnum() else "") + re.escape(form) + suffix


_UNITS = (
    "km/h", "m/s", "km²", "m²", "cm²", "m³", "cm³", "km", "cm", "mm", "nm", "µm", "m", "kg", "mg", "µg", "g", "ml",
    "cl", "dl", "kHz", "MHz", "GHz", "Hz", "kWh", "kW", "MW", "GW", "W", "mAh", "mA", "mV", "kV", "V", "kB", "KB", "MB",
    "GB", "TB", "kbit", "Mbit", "Gbit", "px", "pt", "dpi", "°C", "°F", "°", "%", "‰", "€", "$", "£", "₺", "¥",
)  # fmt: skip
_SIGNS = frozenset("%‰€$£₺¥")
"""Units that stand before or after the number, depending on the language."""
UNIT = "|".join(map(re.escape, sorted(_UNITS, key=len, reverse=True)))
_NUMBER = r"\d{1,3}(?:[., \u00a0\u202f]\d{3}){1,5}(?:[.,]\d+)?|\d+(?:[.,]\d+)?"
_MEASURE = re.compile(
    rf"(?<![\w.,%$€£₺¥])(?P<minus>[-−+±]?)(?:(?P<sign>[%$€£₺¥])[ \u00a0]?(?P<number>{_NUMBER})(?![\w]|[.,]\d)"
    rf"|(?P<first>{_NUMBER})[ \u00a0\u202f]?(?P<unit>{UNIT})(?!\w|[²³/]))"
)
_HINT = re.compile(r"\d")
_GROUPED = re.compile(r"\d{1,3}(?:(?P<mark>[., \u00a0\u202f])\d{3})+(?P<rest>[.,]\d+)?")


def measures(text: str) -> tuple[Demanded, ...]:
    """Return the numbers with units of a text as demands on its translation, each as often as it occurs.

    A unit is one that is the same in all languages: "5 km", not "5 miles". A decimal point may become a comma, groups
    of digits may be separated otherwise, and a sign such as % may stand on the other side.
    """
    if not _HINT.search(text):
        return ()
    occurrences: dict[tuple[str, str, str], list[re.Match[str]]] = {}
    for match in _MEASURE.finditer(text):
        key = match["minus"], match["number"] or match["first"], match["sign"] or match["unit"]
        occurrences.setdefault(key, []).append(match)
    demands = []
    for key, matches in occurrences.items():
        forms = dict.fromkeys((written := matches[0][0], *_ways(*key)))
        spans = tuple(match.span() for match in matches)
        demands.append(Demanded(tuple(forms), len(matches), "number", written, spans))
    return tuple(demands)


def _ways(minus: str, number: str, unit: str) -> list[str]:
    """Return all ways to write a number with its sign and its unit."""
    ways = []
    for sign, digits in product("-−" if minus in ("-", "−") else [minus], _numbers(number)):
        for space in (" ", "", "\u00a0", "\u202f"):
            ways.append(f"{sign}{digits}{space}{unit}")
            if unit in _SIGNS:
                ways.append(f"{sign}{unit}{space}{digits}")
    return ways


def _numbers(number: str) -> list[str]:
    """Return all ways to write a number: decimals by point or comma, groups by either, by a space or by nothing."""
    grouped = _GROUPED.fullmatch(number)
    if grouped is None:
        return list(dict.fromkeys((number, number.replace(".", ","), number.replace(",", "."))))
    rest = grouped["rest"] or ""
    whole = number.removesuffix(rest)
    marks, tails = (".", ",", " ", "\u00a0", "\u202f", ""), (rest, rest.translate(str.maketrans(".,", ",.")))
    ways = (
        whole.replace(grouped["mark"], mark) + tail for mark in marks for tail in tails if mark != tail[:1] or not tail
    )
    return list(dict.fromkeys([number, *ways]))
