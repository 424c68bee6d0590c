"""The words of the phrasebook in the three languages, in groups; what may be said of what, their `kinds` decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Literal, TypeVar

from dikkat_runtime.errors import DataError

# Record types of the lexicon: each word of the phrasebook in the three languages.
#
# Entries compare by identity, so that they are cheap keys. `kinds` are the semantic classes that decide who may do
# what.

Gender = Literal["m", "f"]


class Tense(IntEnum):
    """When it happens."""

    PRESENT = 0
    PAST = 1
    FUTURE = 2


class Case(IntEnum):
    """The Turkish cases; `NOMINATIVE` has no suffix."""

    NOMINATIVE = 0
    ACCUSATIVE = 1
    DATIVE = 2
    LOCATIVE = 3
    ABLATIVE = 4
    GENITIVE = 5
    INSTRUMENTAL = 6


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A common noun; `oblique` is the Turkish stem before a vowel (kitab-), empty where the general rule gives it."""

    english: str
    french: str
    gender: Gender
    turkish: str
    kinds: frozenset[str]
    english_plural: str = ""
    oblique: str = ""

    @property
    def mass(self) -> bool:
        """Return whether it is not counted: bread, water."""
        return "mass" in self.kinds


@dataclass(frozen=True, slots=True, eq=False)
class Name:
    """A person's name, the same in all three languages."""

    text: str
    gender: Gender


@dataclass(frozen=True, slots=True, eq=False)
class Pronoun:
    """A personal pronoun (or `who`) with its forms.

    `french` is the subject clitic, `stressed` stands after a preposition; `turkish_cases` is indexed by `Case`.
    """

    english: str
    english_object: str
    english_possessive: str
    person: int
    plural: bool
    gender: Gender
    french: str
    direct: str
    dative: str
    stressed: str
    turkish_cases: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective; `before` says that French puts it before the noun, `animate_turkish` is its word for living beings.

    `state` marks a passing condition (tired), `gradable` one that can be compared.
    """

    english: str
    french: str
    turkish: str
    kinds: frozenset[str]
    before: bool = False
    gradable: bool = False
    state: bool = False
    colour: bool = False
    animate_turkish: str = ""


class Preposition(IntEnum):
    """Where, whither and whence."""

    IN = 0
    ON = 1
    UNDER = 2
    BEHIND = 3
    IN_FRONT_OF = 4
    NEAR = 5
    TO = 6
    AT = 7
    FROM = 8
    INTO = 9


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb with the classes of its arguments and how each language governs them.

    `english` and `english_past` may end in a particle ("look at"); `to` says that French puts `à` before the object;
    `case` is the Turkish case of the object. `stative` verbs have no English progressive, `imperfect` ones take the
    French imparfait in the past, `punctual` ones have no present, `specific` ones take only definite objects, `generic`
    ones also whole kinds ("I like cats"), and `manner` ones an adverb. `sites` are the places where one does it, empty
    where all the common ones will do; `placeless` verbs are said without a place, `sociable` ones with a companion.
    """

    english: str
    english_past: str
    french: str
    turkish: str
    subjects: str = "person"
    objects: str = ""
    recipients: str = ""
    goal: Preposition | None = None
    case: Case = Case.ACCUSATIVE
    to: bool = False
    stative: bool = False
    imperfect: bool = False
    punctual: bool = False
    specific: bool = False
    generic: bool = False
    manner: bool = False
    placeless: bool = False
    sociable: bool = False
    sites: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Modal:
    """A verb that takes an infinitive; `linker` is French (`à`, `de`, nothing), `suffix` the Turkish infinitive's."""

    verb: Verb
    linker: str
    suffix: str


@dataclass(frozen=True, slots=True, eq=False)
class Adverb:
    """An adverb of frequency or manner; `never` makes its clause negative in French and Turkish."""

    english: str
    french: str
    turkish: str
    frequency: bool = False
    never: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Time:
    """A time expression with the tenses that it allows."""

    english: str
    french: str
    turkish: str
    tenses: tuple[Tense, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A cardinal number from two upwards."""

    english: str
    french: str
    turkish: str


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
            raise DataError("{path}:{n}: damaged line of the phrasebook; reinstall dikkat", path, number) from error
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
