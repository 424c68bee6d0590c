"""The words of the phrasebook in the three languages, in groups; what may be said of what, their `kinds` decide."""

from __future__ import annotations

from pathlib import Path

from dikkat.phrasebook.entries import Adjective, Adverb, Modal, Name, Noun, Number, Pronoun, Tense, Time, Verb
from dikkat.phrasebook.word_tables import read_words

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
