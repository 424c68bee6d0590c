"""Read the references in a text of XML: letters and signs are text, and what only a DTD knows is a tag that stays."""

import html
import re
from collections.abc import Callable

from dikkat_runtime.documents.segments import Item, Tag
from dikkat_runtime.documents.xml_nodes import escaped, unescaped

_REFERENCE = re.compile(r"&(?:#\d+|#[xX][0-9a-fA-F]+|[^\W\d][\w.:-]*+);")
_REWRITTEN = frozenset("\"'")
"""Characters of ASCII that are written as references again where the source has such."""


def text_items(raw: str) -> list[Item]:
    """Return text and references of the characters `raw` between two tags of a file."""
    if "&" not in raw:
        return [raw]
    items: list[Item] = []
    text, position = "", 0
    for match in _REFERENCE.finditer(raw):
        text += raw[position : match.start()]
        position = match.end()
        character = _character(match[0])
        if character is not None:
            text += character
            continue
        # an entity of the file's own stands for words; a space, or a sign that HTML names, for none
        is_word = match[0][1] != "#" and html.unescape(match[0]) == match[0]
        items += [text, Tag("word" if is_word else "void", match[0])]
        text = ""
    return [item for item in (*items, text + raw[position:]) if item != ""]


def escaper(source: str) -> Callable[[str], str]:
    """Return a function that escapes text with the same references for the same characters as the source has."""
    references = {
        ord(character): reference
        for character, reference in references_of(source).items()
        if character in _REWRITTEN or ord(character) > 127
    }
    return lambda text: escaped(text).translate(references)


def references_of(source: str) -> dict[str, str]:
    """Return how the characters that stand in the source as references are written there."""
    # a name rather than a number, where the source has both
    by_kind = sorted(_REFERENCE.findall(source), key=lambda reference: reference[1] != "#")
    known = ((_character(reference), reference) for reference in by_kind)
    return {character: reference for character, reference in known if character}


def _character(reference: str) -> str | None:
    """Return the character of a reference; None for a space, no character, and a name that is none of a letter."""
    character = unescaped(reference)
    if character == reference:
        character = html.unescape(reference)
        return character if len(character) == 1 and character.isalpha() else None
    return None if character in " \t\r\n" or escaped(character) == "" else character
