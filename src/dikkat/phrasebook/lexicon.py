"""The words of the phrasebook in the three languages, in groups; what may be said of what, their `kinds` decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from dikkat.phrasebook.entries import (
    Adjective,
    Adverb,
    Case,
    Modal,
    Name,
    Noun,
    Number,
    Preposition,
    Pronoun,
    Tense,
    Time,
    Verb,
)
from dikkat_runtime.errors import DataError

Entry = TypeVar("Entry")
_READ: Mapping[str, Callable[[str], Any]] = {
    "kinds": lambda cell: frozenset(cell.split()),
    "gender": {"m": "m", "f": "f"}.__getitem__,
    "goal": lambda cell: Preposition[cell.upper()],
    "case": lambda cell: Case[cell.upper()],
    "tenses": lambda cell: tuple(Tense[name.upper()] for name in cell.split()),
    "person": int,
    "plural": {"singular": False, "plural": True}.__getitem__,
    "turkish_cases": lambda cell: tuple(cell.split()),
}
"""What a cell means, by its column; in every other it is text, and an empty one leaves the field its default."""


def read_words(path: Path, kind: Callable[..., Entry]) -> dict[str, tuple[Entry, ...]]:
    """Return the entries of a table by the group that each line names first, in their order.

    The column `flags` names the fields that are true. Raises DataError for a line that is no entry of that kind.
    """
    groups: dict[str, list[Entry]] = {}
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 2):
        try:
            row = dict(zip(header.split("\t"), line.split("\t"), strict=True))
            group, flags = row.pop("group"), row.pop("flags", "").split()
            if row.keys() & set(flags):
                raise ValueError("a flag that is a column")
            values = {name: _READ.get(name, str)(cell) for name, cell in row.items() if cell}
            groups.setdefault(group, []).append(kind(**values, **dict.fromkeys(flags, True)))
        except (KeyError, TypeError, ValueError) as error:
            raise DataError("{path}:{number}: damaged line of the phrasebook; reinstall dikkat").fill(
                path, number
            ) from error
    return {group: tuple(entries) for group, entries in groups.items()}


_FOLDER = Path(__file__).parent
_PRESENT, _PAST, _FUTURE = Tense

_nouns = read_words(_FOLDER / "nouns.tsv", Noun)
PEOPLE, ANIMALS, FOOD = _nouns["people"], _nouns["animals"], _nouns["food"]
DRINKS, THINGS, SITES = _nouns["drinks"], _nouns["things"], _nouns["sites"]
NOUNS = PEOPLE + ANIMALS + FOOD + DRINKS + THINGS + SITES
NAMES = (
    *(Name(text, "m") for text in ("Tom", "Ali", "Martin")),
    *(Name(text, "f") for text in ("Anna", "Emma", "Sara", "Leyla")),
)

_verbs = read_words(_FOLDER / "verbs.tsv", Verb)
TRANSITIVE, DITRANSITIVE, INTRANSITIVE = _verbs["transitive"], _verbs["ditransitive"], _verbs["intransitive"]
MOTION = _verbs["motion"]
VERBS = TRANSITIVE + DITRANSITIVE + INTRANSITIVE + MOTION
(FIT,) = _verbs["fit"]
"""Only of things, and only where it is said why they do not."""
_LINKERS, _SUFFIXES = ("", "", "de", "à"), ("mAk", "mAyI", "mAyA", "mAyA")
MODALS = tuple(Modal(*parts) for parts in zip(_verbs["modal"], _LINKERS, _SUFFIXES, strict=True))

ADJECTIVES = read_words(_FOLDER / "adjectives.tsv", Adjective)["adjectives"]

_adverbs = read_words(_FOLDER / "adverbs.tsv", Adverb)
FREQUENCY, MANNER = _adverbs["frequency"], _adverbs["manner"]

_pronouns = read_words(_FOLDER / "pronouns.tsv", Pronoun)
PRONOUNS = _pronouns["personal"]
I, YOU, HE, SHE, WE, THEY = PRONOUNS  # noqa: E741 (the English pronoun)
(WHO,) = _pronouns["asking"]

_counts = read_words(_FOLDER / "counts.tsv", Number)
NUMBERS = _counts["numbers"]
_HOURS = ("ikide", "üçte", "dörtte", "beşte", "altıda", "yedide", "sekizde", "dokuzda", "onda", "on birde")

_times = read_words(_FOLDER / "times.tsv", Time)
TIMES = (
    *_times["times"],
    *(Time(f"on {day.english}", day.french, f"{day.turkish} günü", (_PAST, _FUTURE)) for day in _counts["days"]),
)
_COUNTED = tuple(
    tuple(f"{getattr(n, name)} {getattr(unit, name)}" for name in ("english", "french", "turkish"))
    for n in NUMBERS
    for unit in _counts["units"]
)
COUNTED_TIMES = (
    *(Time(f"{en} ago", f"il y a {fr}", f"{tr} önce", (_PAST,)) for en, fr, tr in _COUNTED),
    *(Time(f"in {en}", f"dans {fr}", f"{tr} sonra", (_FUTURE,)) for en, fr, tr in _COUNTED),
    *(
        Time(f"at {n.english} o'clock", f"à {n.french} heures", f"saat {hour}", (_PAST, _FUTURE))
        for n, hour in zip(NUMBERS, _HOURS, strict=False)
    ),
)
SEASONS = _times["seasons"]
HABITS = (
    *_times["habits"],
    *(
        Time(f"every {day.english}", f"tous les {day.french}s", f"her {day.turkish}", (_PRESENT,))
        for day in _counts["days"]
    ),
)
