"""Write a text in the characters that a model has met: plain spaces, no invisible marks, its own quotation marks.

The tables are those of Unicode: white space and general category Cf. A model reads the normal form; what a person typed
stays in the text that is shown.
"""

import re
import unicodedata
from collections.abc import Container

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
    grouped = re.sub(DIGIT_GROUP, GROUP_MARK, plain) if GROUP_MARK not in plain else plain
    if grouped is plain:
        return re.sub(SPACE, " ", plain)
    return re.sub(SPACE, " ", grouped).replace(GROUP_MARK, "\u00a0")


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
