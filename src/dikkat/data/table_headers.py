"""Decide whether the first row of a table names its columns."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import zip_longest
from statistics import median

_COLUMN_NAMES = """
    source src target tgt trg text texts sentence sentences translation translated original reference ref hypothesis
    id ids index idx no nr num number line row key name title comment comments note notes url link date lang language
    label labels class classes category tag topic intent sentiment polarity rating stars score review reviews
    message tweet content body question answer query input output x y document abstract subject domain quality license
    attribution split origin
    kaynak hedef metin cümle çeviri etiket sınıf konu yorum başlık dil puan
    texte phrase traduction cible étiquette langue avis note titre
    quelle ziel satz übersetzung sprache bewertung
    texto frase traducción origen destino etiqueta idioma reseña clase
"""
_NAMES = frozenset(_COLUMN_NAMES.split())
"""Words that name columns."""

_LANGUAGE_NAMES = """
    english french german spanish italian portuguese turkish dutch russian ukrainian polish czech greek arabic hebrew
    persian hindi chinese mandarin japanese korean vietnamese thai indonesian swedish norwegian danish finnish hungarian
    romanian bulgarian serbian croatian latin esperanto catalan
    français anglais allemand espagnol italien turc russe chinois arabe deutsch englisch französisch spanisch türkisch
    español inglés francés alemán türkçe ingilizce fransızca almanca ispanyolca
    en eng fr fra de deu ger es spa it ita pt por tr tur nl nld ru rus uk ukr pl pol cs ces el ell ar ara he heb fa hi
    hin zh zho cmn ja jpn ko kor vi vie th tha id ind sv swe no nb da dan fi fin hu hun ro ron bg sr hr la eo epo ca cat
"""
_LANGUAGES = frozenset(_LANGUAGE_NAMES.split())

_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"[-+]?\d+(?:[.,:/\u00a0-]\d+)*\s?%?")
_FEW_WORDS = 4
"""Most words in the name of a column."""
_MIN_ROWS = 8
"""Fewest rows for which a contrast to the first one is meaningful."""
_MAX_CLASSES = 30
_ALIKE = 0.02
"""Share of rows below that may look like names as well."""


def has_header(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first of `rows` names the columns: by its words, or by its contrast to the rows below."""
    first, others = rows[0], rows[1:]
    cells = [cell.strip() for cell in first if cell.strip()]
    # a text that is its own translation is not a header, but of several columns two may have one name
    if not others or not cells or len(set(cells)) < min(2, len(cells)) or not all(map(_may_be_name, cells)):
        return False
    if all(map(_is_name, cells)):
        return True
    if len(others) < _MIN_ROWS:
        return False
    columns = list(zip_longest(*others, fillvalue=""))[: len(first)]
    if any(_all_numbers(column) for column in columns):
        return True
    below = [(cell.strip(), column) for cell, column in zip(first, columns, strict=False) if cell.strip()]
    if any(_names_long_text(*cells) for cells in below) and any(
        _is_name(cell) or _names_classes(cell, column) for cell, column in below
    ):
        return True
    is_unlike = _is_alone(others) or any(_is_of_another_script(*cells) for cells in below)
    return is_unlike and all(_names_long_text(*cells, times=1.5) for cells in below)


def is_number(text: str) -> bool:
    """Return whether a cell holds a number, a date or a time, and no words."""
    return _NUMBER.fullmatch(text.strip()) is not None


def _may_be_name(cell: str) -> bool:
    return len(_WORD.findall(cell)) <= _FEW_WORDS and not is_number(cell) and cell[-1] not in ".!?。！？…"


def _is_name(cell: str) -> bool:
    words = [word.rstrip("0123456789") for word in _WORD.findall(cell.casefold())]
    return bool(words) and all(word in _NAMES or word in _LANGUAGES or not word for word in words) and any(words)


def _all_numbers(column: Sequence[str]) -> bool:
    return all(map(is_number, column))


def _names_long_text(cell: str, column: Sequence[str], times: float = 3.0) -> bool:
    return times * len(cell) <= median(map(len, column))


def _is_alone(others: Sequence[Sequence[str]]) -> bool:
    """Whether hardly a row below the first could be one of names too: they are sentences, or long."""
    alike = sum(all(map(_may_be_name, filter(None, map(str.strip, row)))) for row in others)
    return alike <= _ALIKE * len(others)


def _is_of_another_script(cell: str, column: Sequence[str]) -> bool:
    """Whether a cell has no letter of the script that its column is written in: a table is named in one language."""
    script = _script(" ".join(column))
    return bool(script) and script not in map(_script, cell) and bool(_script(cell))


def _script(text: str) -> str:
    """The script of most letters, as Unicode names them; that of Chinese and Japanese is one."""
    names = (unicodedata.name(letter, "").partition(" ")[0] for letter in text if letter.isalpha())
    counts = Counter("CJK" if name in ("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA") else name for name in names)
    return max(counts, key=lambda name: counts[name], default="")


def _names_classes(cell: str, column: Sequence[str]) -> bool:
    """Whether the column repeats few values and the first row has none of them."""
    values = set(column)
    return cell not in values and len(values) <= min(_MAX_CLASSES, len(column) // 4)
