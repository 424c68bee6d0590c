"""Write a text in the characters that a model has met: plain spaces, no invisible marks, its own quotation marks.

The tables are those of Unicode: white space and general category Cf. A model reads the normal form; what a person typed
stays in the text that is shown.
"""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from functools import cached_property
from itertools import pairwise

from dikkat_runtime.text.casing import capitalized, lower
from dikkat_runtime.text.recasing import WORD

SPACES = "\t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
"""White space that ends no line, as a set of a regular expression."""
INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2060-\u2064\u206a-\u206f\ufeff\ufff9-\ufffb"
)
"""Characters without a shape that change no word: soft hyphens, joiners of words, marks of direction."""
BIDIRECTIONAL = "\u202a-\u202e\u2066-\u2069"
"""Controls that embed, override or isolate a direction."""
_JOINERS = "\u200c\u200d"
"""Zero-width joiner and non-joiner: part of the spelling in the scripts below, and of emoji."""
_JOINED = "\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18af\ufb50-\ufdff\ufe70-\ufefc"
"""Scripts that are spelled with joiners: Arabic, Syriac, those of India, Tibetan, Burmese, Khmer, Mongolian."""
PICTORIAL = ("So", "Sk", "Sm")
"""General categories of the signs that emoji are made of."""
TONE = "\U0001f3fb-\U0001f3ff"
"""The colours of a skin, which follow a sign."""
VARIANTS = {
    **dict.fromkeys("“”„‟«»❝❞〝〞＂", '"'),
    **dict.fromkeys("‘’‚‛‹›❛❜ʼʹ＇", "'"),
    **dict.fromkeys("‐‑‒–—―−﹣－", "-"),
    "…": "...",
    "⁄": "/",
    "∕": "/",
    "‼": "!!",
    "⁇": "??",
    "⁈": "?!",
    "⁉": "!?",
}
"""Characters that a model may lack, and what it then reads in their stead."""
COMPATIBLE = "\uff01-\uff5e\ufb00-\ufb06\u2160-\u217f\U0001d400-\U0001d7ff"
# compiled by `re` at the first use: most texts are of ASCII
QUIET = rf"[{INVISIBLE}{BIDIRECTIONAL}]"
JOINER = rf"(?<![{_JOINED}])[{_JOINERS}]|[{_JOINERS}](?![{_JOINED}])"
DIGIT_GROUP = r"(?<=\d)[\u00a0\u202f](?=\d{3}(?!\d))"
GROUP_MARK = "\uf8ff"
SPACE = rf"[ {SPACES}]+"


def normalized(text: str, known: Container[str]) -> str:
    """Return `text` with single plain spaces, without invisible marks, composed, and in `known` characters if it can.

    A variant of a quotation mark, an apostrophe or a dash, a full-width form or a ligature that is not `known` becomes
    the plain form where that is. No-break spaces stay inside a number. Emoji are left to `symbols`.
    """
    if text.isascii():
        return text if "\t" not in text and "  " not in text else re.sub(SPACE, " ", text)
    text = re.sub(QUIET, "", text)
    if any(joiner in text for joiner in _JOINERS):
        # those of emoji stay
        text = re.sub(JOINER, lambda match: match[0] if _joins_emoji(match.string, match.start()) else "", text)
    text = _composed(text, known)
    plain = "".join(character if character in known else _plain(character, known) for character in text)
    if GROUP_MARK in plain:
        return re.sub(SPACE, " ", plain)
    return re.sub(SPACE, " ", re.sub(DIGIT_GROUP, GROUP_MARK, plain)).replace(GROUP_MARK, "\u00a0")


def has_hidden_direction(text: str) -> bool:
    """Return whether controls of direction may show a text in another order than a model reads it."""
    return not text.isascii() and re.search(f"[{BIDIRECTIONAL}]", text) is not None


def _joins_emoji(text: str, index: int) -> bool:
    after = text[index + 1 : index + 2]
    before = text[:index].rstrip("\ufe0f")[-1:]
    return bool(after) and bool(before) and is_pictorial(before) and is_pictorial(after)


def is_pictorial(character: str) -> bool:
    """Return whether a character is a sign that emoji are made of."""
    return unicodedata.category(character) in PICTORIAL or re.match(f"[{TONE}]", character) is not None


def _composed(text: str, known: Container[str]) -> str:
    """Return a text in normal form C where it holds combining marks that are not `known` alone."""
    loose = any(unicodedata.combining(character) and character not in known for character in text)
    return unicodedata.normalize("NFC", text) if loose else text


def _plain(character: str, known: Container[str]) -> str:
    """Return the plain form of a character if all of that is `known`, else the character."""
    if character.isascii():
        return character
    variant = VARIANTS.get(character)
    if variant is None and re.match(f"[{COMPATIBLE}]", character):
        variant = unicodedata.normalize("NFKC", character)
    return character if variant is None or not all(part in known for part in variant) else variant


QUOTE_PAIRS = {"“": "”", "„": "“”", "«": "»", "»": "«", '"': '"', "”": "”", "「": "」", "『": "』"}
"""Opening marks, and what closes each."""
_OF_LANGUAGE = {
    **dict.fromkeys(("fr", "fra"), ("«\u00a0", "\u00a0»")),
    **dict.fromkeys(
        ("de", "deu", "cs", "ces", "sk", "slk", "sl", "slv", "bg", "bul", "is", "isl", "lt", "lit"), ("„", "“")
    ),
    **dict.fromkeys(("pl", "pol", "hu", "hun", "ro", "ron", "hr", "hrv"), ("„", "”")),
    **dict.fromkeys(
        ("es", "spa", "it", "ita", "pt", "por", "ru", "rus", "uk", "ukr", "no", "nb", "nob", "el", "ell", "ar", "ara"),
        ("«", "»"),
    ),
    **dict.fromkeys(("sv", "swe", "fi", "fin"), ("”", "”")),
    **dict.fromkeys(("ja", "jpn"), ("「", "」")),
}
_ELSE = ("“", "”")
BRACKETS = {"(": ")", "[": "]", "{": "}"}
PAIRS = {**QUOTE_PAIRS, **BRACKETS, "'": "'", "‘": "’", "‚": "‘’", "‹": "›"}
"""Opening marks of brackets and quotations, and what closes each."""
OPENING = "\"'([{"
"""Those of `PAIRS` that are the plain form of the others."""
MAX_OPENED = 16
"""Pairs inside each other; of more, the outer ones are signs alone."""
_OPENING = re.compile(f"[{re.escape(''.join(PAIRS))}]")
WIDE = "\u00a0\u202f "


def enclosed(text: str, language: str) -> tuple[int, int, str, str] | None:
    """Return the span inside the quotation marks around a whole text, and the marks of a translation into `language`.

    Straight marks stay straight. Returns None where the text is not one quotation.
    """
    opening, closing = text[:1], text[-1:]
    if len(text) < 3 or closing not in QUOTE_PAIRS.get(opening, ""):
        return None
    inner = text[1:-1]
    if opening in inner or closing in inner or not inner.strip():
        return None
    start, end = 1 + len(inner) - len(inner.lstrip(WIDE)), 1 + len(inner.rstrip(WIDE))
    if opening == '"':
        return start, end, text[:start], text[end:]
    return start, end, *quotation_marks(language)


def quotation_marks(language: str) -> tuple[str, str]:
    """Return the opening and the closing quotation mark of `language`, with the space inside it."""
    return _OF_LANGUAGE.get(language.lower().replace("_", "-").partition("-")[0], _ELSE)


def inner_pairs(text: str, known: Container[str], unmet: Container[str]) -> list[tuple[int, int]]:
    """Return where the marks of brackets and quotations stand that are not `known`, and whose plain form is `unmet`.

    Both are next to words on their inner side alone: "(s)" after a letter is part of a word.
    """
    if not _OPENING.search(text):
        return []
    pairs, opened = [], list[int]()
    marker = MARKER.match(text)
    for index, character in enumerate(text):
        if marker and index < marker.end(1):
            continue
        before, after = text[max(0, index - 1) : index], text[index + 1 : index + 2]
        own = [at for at in opened if character in PAIRS[text[at]]]
        if own and not after.isalnum():
            # those around signs alone are one sign with them
            pairs += [(own[-1], index)] if any(map(str.isalnum, text[own[-1] : index])) else []
            opened = opened[: opened.index(own[-1])]
        elif (
            character in PAIRS
            and not before.isalnum()
            and (character.isascii() or character not in known)
            and VARIANTS.get(character, character) in unmet
        ):
            opened = [*opened, index][-MAX_OPENED:]
    return sorted(pairs)


def straightened(text: str, known: Container[str]) -> str:
    """Return a text of the same length with the plain form of quotation marks that are not `known`."""
    if text.isascii():
        return text
    quotes = "\"'"
    return "".join(
        VARIANTS[mark] if VARIANTS.get(mark, "\n") in quotes and mark not in known and VARIANTS[mark] in known else mark
        for mark in text
    )


# compiled by `re` at the first use: most texts hold no emoji, and sets beyond U+FFFF take long
EMOJI = (
    "[\U0001f1e6-\U0001f1ff]{2}"
    "|[0-9#*]\ufe0f?\u20e3"
    "|\U0001f3f4[\U000e0020-\U000e007f]+"
    f"|[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u27bf\u2900-\u297f\u2b00-\u2bff\u3030\u303d\u3297\u3299"
    f"\U0001f000-\U0001faff][\ufe0e\ufe0f]?[{TONE}]?"
    f"(?:\u200d[\u2190-\u21ff\u2300-\u27bf\u2b00-\u2bff\U0001f000-\U0001faff][\ufe0e\ufe0f]?[{TONE}]?)*"
)
MARKER = re.compile(r"\s*((?:[-*+•‣⁃◦▪▫●○■□–—]|\(?\d{1,3}[.)]|\(?[A-Za-z][)])(?:\s+\[[ xX]\])?)(?=\s+\S)")
"""A mark before an entry of a list, or a number, followed by a space; perhaps with a box to tick."""
ORDINAL = re.compile(r"\s*\d{1,3}\.\s")
CATEGORIES = ("So", "Sm", "Sk", "Sc", "Po", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "No")
PARTS_OF_EMOJI = "\ufe0e\ufe0f\u20e3"
"""Variation selectors and the frame of a key."""
UNITS = frozenset("°℃℉№µΩ‰′″ªº²³¹½¼¾")
"""Signs that belong to the number or word next to them."""


def symbol_spans(
    text: str, known: frozenset[str], *, has_ordinals: bool = False, skipped: Container[int] = ()
) -> list[tuple[int, int]]:
    """Return the spans of the mark of a list at the beginning, of emoji, and of signs that are not `known`.

    With `has_ordinals` the language writes "3." for "third", which is then no mark of a list.

    Signs next to one another, with or without spaces between, are one span; those at `skipped` are left out.
    """
    marker = None if has_ordinals and ORDINAL.match(text) else MARKER.match(text)
    spans = [marker.span(1)] if marker else []
    if not known.issuperset(text):
        spans += ((start, end) for start, end in _signs(text, known) if start not in skipped)
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and not text[merged[-1][1] : start].strip():
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _signs(text: str, known: Container[str]) -> Iterator[tuple[int, int]]:
    emoji = [match.span() for match in re.finditer(EMOJI, text)]
    yield from emoji
    inside = {index for start, end in emoji for index in range(start, end)}
    for index, character in enumerate(text):
        if index in inside or character in known or character in UNITS:
            continue
        if unicodedata.category(character) in CATEGORIES or character in PARTS_OF_EMOJI:
            yield index, index + 1


MIN_LETTERS = 4
MAX_UNKNOWN = 1 / 3
"""Largest share of unknown words in a text that is corrected: one of another field has words of its own."""


class Speller:
    """Mends texts by the known words: in small letters with their usual forms, the most frequent first."""

    def __init__(self, forms: Mapping[str, str], language: str) -> None:
        self._forms, self._language = forms, language
        self._rank = {word: number for number, word in enumerate(forms)}

    @cached_property
    def _neighbours(self) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
        """The letters that known words have after each letter, and before each."""
        after, before = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
        for first, second in set().union(*map(pairwise, self._forms)):
            after[first].update(second if second.isalpha() else ())
            before[second].update(first if first.isalpha() else ())
        return after, before

    def corrected(self, text: str) -> str:
        """Return a text whose unknown words are the most frequent known ones that one slip inside a word makes of them.

        A slip swaps two letters, leaves one out, adds one or takes another; the first letter stays. Words with a
        capital inside the text may be names, and stay.
        """
        if not self._rank:
            return text
        words = [(match, lower(match[0], self._language)) for match in WORD.finditer(text)]
        unknown = [(match, small) for match, small in words if small not in self._rank]
        if not unknown or len(unknown) > MAX_UNKNOWN * len(words):
            return text
        parts, position = list[str](), 0
        for match, small in unknown:
            is_first = match.start() == words[0][0].start() and match[0] == capitalized(small, self._language)
            options = self._meant(small) if match[0] == small or is_first else set()
            if options:
                form = self._forms[min(options, key=self._rank.__getitem__)]
                parts += [text[position : match.start()], capitalized(form, self._language) if is_first else form]
                position = match.end()
        return "".join([*parts, text[position:]])

    def _meant(self, word: str) -> set[str]:
        """Return the known words that are one slip away."""
        if len(word) < MIN_LETTERS:
            return set()
        # what no known word has side by side makes none
        (after, before), inner = self._neighbours, range(1, len(word) - 1)
        away = {word[:at] + word[at + 1 :] for at in inner}
        away |= {word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in inner}
        for at in inner:
            away.update(word[:at] + letter + word[at + 1 :] for letter in after[word[at - 1]] & before[word[at + 1]])
        for at in (*inner, len(word) - 1):
            away.update(word[:at] + letter + word[at:] for letter in after[word[at - 1]] & before[word[at]])
        return away & self._rank.keys()
