"""Find numbers with units, which a translation must keep, and the ways in which languages write them."""

import re

from dikkat_runtime.text.demanded import Demanded

_UNITS = (
    "km/h", "m/s", "km²", "m²", "cm²", "m³", "cm³", "km", "cm", "mm", "nm", "µm", "m", "kg", "mg", "µg", "g", "ml",
    "cl", "dl", "kHz", "MHz", "GHz", "Hz", "kWh", "kW", "MW", "GW", "W", "mAh", "mA", "mV", "kV", "V", "kB", "KB", "MB",
    "GB", "TB", "kbit", "Mbit", "Gbit", "px", "pt", "dpi", "°C", "°F", "°", "%", "‰", "€", "$", "£", "₺", "¥",
)  # fmt: skip
_SIGNS = frozenset("%‰€$£₺¥")
"""Units that stand before or after the number, depending on the language."""
_UNIT = "|".join(map(re.escape, sorted(_UNITS, key=len, reverse=True)))
_NUMBER = r"\d{1,3}(?:[.,]\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?"
_MEASURE = re.compile(
    rf"(?<![\w.,%$€£₺¥])(?:(?P<sign>[%$€£₺¥])[ \u00a0]?(?P<number>{_NUMBER})(?![\w]|[.,]\d)"
    rf"|(?P<first>{_NUMBER})[ \u00a0\u202f]?(?P<unit>{_UNIT})(?!\w|[²³/]))"
)
_HINT = re.compile(r"\d")
_GROUPED = re.compile(r"\d{1,3}(?:(?P<mark>[.,])\d{3})+(?P<rest>[.,]\d+)?")


def measures(text: str) -> tuple[Demanded, ...]:
    """Return the numbers with units of a text as demands on its translation, each as often as it occurs.

    A unit is one that is the same in all languages: "5 km", not "5 miles". A decimal point may become a comma, groups
    of digits may be separated otherwise, and a sign such as % may stand on the other side.
    """
    if not _HINT.search(text):
        return ()
    found: dict[tuple[str, str], list[re.Match[str]]] = {}
    for match in _MEASURE.finditer(text):
        found.setdefault((match["number"] or match["first"], match["sign"] or match["unit"]), []).append(match)
    demands = []
    for key, matches in found.items():
        forms = dict.fromkeys((written := matches[0][0], *_ways(*key)))
        demands.append(
            Demanded(tuple(forms), len(matches), "number", written, tuple(match.span() for match in matches))
        )
    return tuple(demands)


def _ways(number: str, unit: str) -> list[str]:
    """Return all ways to write a number with its unit."""
    ways = []
    for digits in _numbers(number):
        for space in (" ", "", "\u00a0", "\u202f"):
            ways.append(f"{digits}{space}{unit}")
            if unit in _SIGNS:
                ways.append(f"{unit}{space}{digits}")
    return ways


def _numbers(number: str) -> list[str]:
    """Return all ways to write a number: decimals by point or comma, groups by either, by a space or by nothing."""
    grouped = _GROUPED.fullmatch(number)
    if grouped is None:
        return list(dict.fromkeys((number, number.replace(".", ","), number.replace(",", "."))))
    rest = grouped["rest"] or ""
    whole = number.removesuffix(rest)
    swapped = {".": ",", ",": "."}[grouped["mark"]]
    ways = [number, whole.replace(grouped["mark"], swapped) + rest.translate(str.maketrans(".,", ",."))]
    for between in (" ", "\u00a0", "\u202f", ""):
        joined = whole.replace(grouped["mark"], between)
        ways += [joined + rest, joined + rest.translate(str.maketrans(".,", ",."))]
    return list(dict.fromkeys(ways))
