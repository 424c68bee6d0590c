"""The word forms of French: conjugation, agreement of adjectives and participles, elision.

Regular forms come from rules, the rest from small tables (Bescherelle's classes).
"""

from __future__ import annotations

from functools import cache

from tools.phrasebook.lexicon import Gender

NO_BREAK_SPACE = "\u00a0"
_VOWEL_LETTERS = frozenset("aeiouyhàâéèêëîïôœùûAEIOUYHÉÈÊ")
_ASPIRATED = ("haut", "huit", "hibou", "héros", "haricot", "onze")
_ELIDING = {"je", "me", "te", "le", "la", "ne", "de", "que"}

_ETRE_VERBS = {"aller", "venir", "partir", "arriver", "tomber", "rester", "retourner", "rentrer", "entrer", "sortir"}
_PARTICIPLES = {
    "être": "été", "avoir": "eu", "venir": "venu", "voir": "vu", "boire": "bu", "lire": "lu", "écrire": "écrit",
    "ouvrir": "ouvert", "prendre": "pris", "courir": "couru", "rire": "ri", "vouloir": "voulu", "connaître": "connu",
    "suivre": "suivi", "peindre": "peint",
}  # fmt: skip
_PRESENTS = {
    "être": ("suis", "es", "est", "sommes", "êtes", "sont"),
    "avoir": ("ai", "as", "a", "avons", "avez", "ont"),
    "aller": ("vais", "vas", "va", "allons", "allez", "vont"),
    "venir": ("viens", "viens", "vient", "venons", "venez", "viennent"),
    "voir": ("vois", "vois", "voit", "voyons", "voyez", "voient"),
    "boire": ("bois", "bois", "boit", "buvons", "buvez", "boivent"),
    "lire": ("lis", "lis", "lit", "lisons", "lisez", "lisent"),
    "écrire": ("écris", "écris", "écrit", "écrivons", "écrivez", "écrivent"),
    "ouvrir": ("ouvre", "ouvres", "ouvre", "ouvrons", "ouvrez", "ouvrent"),
    "prendre": ("prends", "prends", "prend", "prenons", "prenez", "prennent"),
    "dormir": ("dors", "dors", "dort", "dormons", "dormez", "dorment"),
    "partir": ("pars", "pars", "part", "partons", "partez", "partent"),
    "courir": ("cours", "cours", "court", "courons", "courez", "courent"),
    "rire": ("ris", "ris", "rit", "rions", "riez", "rient"),
    "vouloir": ("veux", "veux", "veut", "voulons", "voulez", "veulent"),
    "connaître": ("connais", "connais", "connaît", "connaissons", "connaissez", "connaissent"),
    "suivre": ("suis", "suis", "suit", "suivons", "suivez", "suivent"),
    "peindre": ("peins", "peins", "peint", "peignons", "peignez", "peignent"),
}
_FUTURE_STEMS = {
    "être": "ser", "avoir": "aur", "aller": "ir", "venir": "viendr", "voir": "verr", "envoyer": "enverr",
    "courir": "courr", "vouloir": "voudr",
}  # fmt: skip
_FEMININES = {
    "blanc": "blanche", "long": "longue", "vieux": "vieille", "beau": "belle", "nouveau": "nouvelle", "bon": "bonne",
    "gentil": "gentille", "frais": "fraîche",
}  # fmt: skip
_BEFORE_VOWEL = {"beau": "bel", "nouveau": "nouvel", "vieux": "vieil"}


def starts_with_vowel(word: str) -> bool:
    """Return whether a word begins with a vowel sound: a vowel letter or a mute h (l'homme), not an aspirated one."""
    return word[0] in _VOWEL_LETTERS and not word.startswith(_ASPIRATED)


def join(words: list[str]) -> str:
    """Put words together with elision: je + aime -> j'aime, de + eau -> d'eau."""
    flat = " ".join(word for word in words if word).split(" ")
    pieces = []
    for word, following in zip(flat, [*flat[1:], ""], strict=True):
        if word in _ELIDING and following and starts_with_vowel(following):
            pieces.append(word[:-1] + "'")
        else:
            pieces.append(word + " ")
    return "".join(pieces).strip()


@cache
def feminine(adjective: str) -> str:
    """The feminine singular of an adjective or participle."""
    if adjective in _FEMININES:
        return _FEMININES[adjective]
    if adjective.endswith("e"):
        return adjective
    if adjective.endswith("er"):
        return adjective[:-2] + "ère"
    if adjective.endswith("eux"):
        return adjective[:-1] + "se"
    if adjective.endswith("f"):
        return adjective[:-1] + "ve"
    return adjective + "e"


@cache
def plural(word: str) -> str:
    """The plural of a noun, adjective or participle."""
    if word.endswith(("s", "x", "z")):
        return word
    if word.endswith("al"):
        return word[:-2] + "aux"
    return word + ("x" if word.endswith("eau") else "s")


@cache
def agree(adjective: str, gender: Gender, many: bool) -> str:
    """An adjective or participle in gender and number."""
    form = feminine(adjective) if gender == "f" else adjective
    return plural(form) if many else form


def before_vowel(adjective: str) -> str:
    """The masculine singular that stands before a vowel: bel, nouvel, vieil."""
    return _BEFORE_VOWEL.get(adjective, adjective)


@cache
def present(infinitive: str) -> tuple[str, ...]:
    """The six forms of the present, je to ils."""
    if infinitive in _PRESENTS:
        return _PRESENTS[infinitive]
    stem = infinitive[:-2]
    if infinitive.endswith("ir"):
        return tuple(stem + ending for ending in ("is", "is", "it", "issons", "issez", "issent"))
    if infinitive.endswith("re"):
        return tuple(stem + ending for ending in ("s", "s", "", "ons", "ez", "ent"))
    strong = _strong_stem(stem)
    return (strong + "e", strong + "es", strong + "e", _soft_stem(stem) + "ons", stem + "ez", strong + "ent")


def _strong_stem(stem: str) -> str:
    """The stem of an -er verb before a mute e: achèt-, préfèr-, appell-, nettoi-."""
    if stem == "appel":
        return "appell"
    if stem.endswith("y"):
        return stem[:-1] + "i"
    if len(stem) > 2 and stem[-2] in "eé" and stem[-1] not in "aeiouéè":
        return stem[:-2] + "è" + stem[-1]
    return stem


def _soft_stem(stem: str) -> str:
    """The stem of an -er verb before o or a: mange-, commenç-."""
    if stem.endswith("g"):
        return stem + "e"
    return stem[:-1] + "ç" if stem.endswith("c") else stem


@cache
def imperfect(infinitive: str) -> tuple[str, ...]:
    """The six forms of the imparfait, from the stem of "nous"."""
    stem = "ét" if infinitive == "être" else present(infinitive)[3].removesuffix("ons")
    weak = "ét" if infinitive == "être" else present(infinitive)[4].removesuffix("ez")
    return (stem + "ais", stem + "ais", stem + "ait", weak + "ions", weak + "iez", stem + "aient")


@cache
def future(infinitive: str) -> tuple[str, ...]:
    """The six forms of the futur simple."""
    stem = _FUTURE_STEMS.get(infinitive) or _regular_future_stem(infinitive)
    return tuple(stem + ending for ending in ("ai", "as", "a", "ons", "ez", "ont"))


def _regular_future_stem(infinitive: str) -> str:
    if infinitive.endswith("re"):
        return infinitive[:-1]
    if infinitive.endswith("er"):
        stem = infinitive[:-2]
        # é stays before the future ending (préférerai, 1990 spelling aside), while mute e opens (achèterai).
        return (stem if stem[-2:-1] == "é" else _strong_stem(stem)) + "er"
    return infinitive


@cache
def participle(infinitive: str) -> str:
    """The past participle, masculine singular."""
    if infinitive in _PARTICIPLES:
        return _PARTICIPLES[infinitive]
    if infinitive.endswith("er"):
        return infinitive[:-2] + "é"
    return infinitive[:-2] + ("i" if infinitive.endswith("ir") else "u")


def auxiliary(infinitive: str) -> str:
    """The auxiliary of the passé composé."""
    return "être" if infinitive in _ETRE_VERBS else "avoir"


def imperative(infinitive: str) -> str:
    """The second person singular of the imperative: mange, va, but finis."""
    form = present(infinitive)[1]
    return form[:-1] if form.endswith(("es", "as")) else form


def invert(finite: str, pronoun: str) -> str:
    """A finite verb with its subject after it: aime-t-il, vois-tu."""
    link = "-t-" if finite[-1] in "aec" and pronoun[0] in "ie" else "-"
    return finite + link + pronoun
