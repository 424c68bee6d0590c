"""Read a text in capitals, or with a capital in every word, as if it were written as usual, and case its translation.

A model splits DOG into pieces that it has hardly met. So a word is read in the form with the fewest tokens, but for the
words that training has shown in another form (Lita et al. 2003); and the translation gets the case of its source, by
the rules of its own language.
"""

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from dikkat_runtime.text.casing import capitalized, has_dotted_i, lower
from dikkat_runtime.text.demanded import UNIT

Case = Literal["usual", "capitals", "titles"]
"""How a text is written: as usual, all in capitals, or with a capital in every word."""
CountTokens = Callable[[Sequence[str]], Sequence[int]]
"""Returns the number of tokens of each text."""

WORD = re.compile(
    rf"(?<![^\W\d_])(?<!m/)(?!(?:(?<=\d)|(?<=\d[ \u00a0\u202f]))(?:{UNIT})(?!\w))"
    r"[^\W\d_](?:[^\W\d_]|[\u0300-\u036f]|['’](?=[^\W\d_]))*"
)
"""A word, but for the unit after a number, whose case says what it is: mV, MV."""
USUAL = re.compile(r"(?<!['’])\b[a-z][^\W\d_A-Z]{4}")
"""Pattern of a word that is long and small: no text in capitals or titles has one, and most others do."""
MAX_WORDS = 10_000
"""Most words that a run keeps, the most frequent ones."""
_OFTEN = 2
"""How often a word must be seen to be known."""
_NOTHING: Mapping[str, str] = MappingProxyType({})
MIN_TITLE_WORDS = 3
"""Words with a capital from which on a text counts as a title: two may be a name."""
SMALL_WORD = 4
"""Letters of words that may be small in a title: of, and, with."""


def case_of(text: str) -> Case:
    """Return how `text` is written; a single letter is not a word in capitals."""
    if USUAL.search(text):
        return "usual"
    words = [word for word in WORD.findall(text) if word.lower() != word.upper()]
    large = [word for word in words if word == word.upper()]
    if len(large) == len(words):
        return "capitals" if any(len(word) > 1 for word in large) else "usual"
    begun = [word for word in words if word[0] != word[0].lower()]
    small = [word for word in words if word[0] == word[0].lower()]
    is_title = len(begun) >= MIN_TITLE_WORDS and all(len(word) <= SMALL_WORD for word in small)
    # capitals inside the words too are of names and code
    are_cased = sum(word[1:] == word[1:].lower() for word in begun) * 2 > len(begun)
    return "titles" if is_title and len(small) * 3 <= len(begun) and are_cased else "usual"


def recased(
    text: str, case: Case, language: str, count_tokens: CountTokens, usual: Mapping[str, str] = _NOTHING
) -> str:
    """Return a text in capitals or titles as it is usually written in `language`.

    Each word has its form in `usual`, which has words in small letters as its keys. Any other has the form with the
    fewest tokens: small, with a capital, or as it is; of equal ones the small. The first word has a capital.
    """
    matches = list(WORD.finditer(text))
    forms = [list(dict.fromkeys(_forms(match[0], case, language, usual))) for match in matches]
    counts = iter(count_tokens([form for choices in forms for form in choices]))
    parts, position = list[str](), 0
    for number, (match, choices) in enumerate(zip(matches, forms, strict=True)):
        best = min(zip([next(counts) for _ in choices], range(len(choices)), choices, strict=True))[2]
        parts += [text[position : match.start()], capitalized(best, language) if number == 0 else best]
        position = match.end()
    return "".join([*parts, text[position:]])


def usual_forms(texts: Iterable[str], language: str) -> list[str]:
    """Return the words of `texts` in the forms that they usually have inside sentences, the most frequent first."""
    counts, inner, forms = Counter[str](), Counter[str](), Counter[str]()
    for text in texts:
        for number, match in enumerate(WORD.finditer(text) if case_of(text) == "usual" else ()):
            small = lower(match[0], language)
            counts[small] += 1
            # a capital at the beginning says nothing
            inner[small] += number > 0
            if number and match[0] != small:
                forms[match[0]] += 1
    usual = {lower(form, language): form for form, count in forms.items() if 2 * count > inner[lower(form, language)]}
    often = sorted((-count, small) for small, count in counts.items() if count >= _OFTEN)
    return [usual.get(small, small) for _, small in often[:MAX_WORDS]]


def _forms(word: str, case: Case, language: str, usual: Mapping[str, str]) -> list[str]:
    """Return the forms in which a word may be read, the most usual first."""
    small = lower(word, language)
    if small in usual:
        return [usual[small]]
    if len(word) == 1:
        return [word, small]
    return [small, capitalized(small, language), word] if case == "capitals" else [small, word]


def cased(text: str, case: Case, language: str, names: Container[str] = (), *, keeps_small: bool = False) -> str:
    """Return a translation into `language` in the case of its source; `names` stay, with `keeps_small` short words."""
    if case == "usual":
        return text

    def begun(match: re.Match[str]) -> str:
        if match[0] in names:
            return match[0]
        if case == "capitals":
            return upper(match[0], language)
        stays = keeps_small and match.start() > 0 and len(match[0]) <= SMALL_WORD
        return match[0] if stays else capitalized(match[0], language)

    return WORD.sub(begun, text)


def upper(text: str, language: str = "") -> str:
    """Return a text in capitals by the rules of `language`: İ for i in Turkish and Azeri, SS for ß."""
    return (text.replace("i", "İ") if has_dotted_i(language) else text).upper()


def has_small_words(text: str) -> bool:
    """Return whether a title leaves a word small, as in "Lord of the Rings"."""
    return any(word[0] == word[0].lower() != word[0].upper() for word in WORD.findall(text))
