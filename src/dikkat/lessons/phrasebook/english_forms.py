"""The word forms of English: plural, third person, -ing, comparative and the indefinite article."""

from __future__ import annotations

from functools import cache

_VOWELS = "aeiou"


def plural(noun: str) -> str:
    """The regular plural of a noun, and by the same spelling rule the third person of a verb."""
    if noun.endswith(("s", "x", "ch", "sh", "o")):
        return noun + "es" if noun not in ("photo", "piano") else noun + "s"
    if noun.endswith("y") and noun[-2] not in _VOWELS:
        return noun[:-1] + "ies"
    return noun + "s"


def _closed_syllable(word: str) -> bool:
    """Whether a word is one syllable of one vowel letter and one final consonant, which doubles: run, big."""
    vowels = sum(letter in _VOWELS for letter in word)
    return vowels == 1 and len(word) >= 3 and word[-2] in _VOWELS and word[-1] not in "wxy" + _VOWELS


def _inflect_head(verb: str, ending: str) -> str:
    """Put an ending on the first word of a verb and keep its particle."""
    head, _, particle = verb.partition(" ")
    return f"{head}{ending} {particle}" if particle else head + ending


@cache
def third_person(verb: str) -> str:
    """Form the third person singular of a verb: goes, carries, looks at."""
    head, _, particle = verb.partition(" ")
    form = "has" if head == "have" else plural(head)
    return f"{form} {particle}" if particle else form


@cache
def progressive(verb: str) -> str:
    """Form the present participle of a verb: running, writing, looking at."""
    head, _, particle = verb.partition(" ")
    if _closed_syllable(head):
        head += head[-1]
    elif head.endswith("e") and not head.endswith("ee"):
        head = head[:-1]
    return _inflect_head(f"{head} {particle}".strip(), "ing")


def _syllables(word: str) -> int:
    """The number of vowel groups, a silent final e not counted."""
    stem = word[:-1] if word.endswith("e") else word
    letters = ["v" if letter in "aeiouy" else "c" for letter in stem]
    return sum(a == "v" and b != "v" for a, b in zip(letters, [*letters[1:], ""], strict=True))


@cache
def comparative(adjective: str) -> str:
    """Form the comparative of an adjective: bigger, happier, more famous."""
    irregular = {"good": "better", "bad": "worse"}
    if adjective in irregular:
        return irregular[adjective]
    if adjective.endswith("y") and _syllables(adjective) <= 2:
        return adjective[:-1] + "ier"
    if _syllables(adjective) > 1 and adjective != "quiet":
        return "more " + adjective
    if _closed_syllable(adjective):
        adjective += adjective[-1]
    return adjective + ("r" if adjective.endswith("e") else "er")


def indefinite_article(next_word: str) -> str:
    """`a` or `an`."""
    return "an" if next_word[0] in _VOWELS else "a"
