"""HTML and XML: tags stay where they are, byte for byte, and so does what must not be translated."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from dikkat_runtime.server.glossaries import Terms
from dikkat_runtime.server.segments import Fixed, Part, split_text

HTML_IGNORED = frozenset(("script", "style", "code", "kbd", "samp", "var"))
"""Elements of HTML that are not translated."""
_LONGEST_TAG = 10_000
_TAG = re.compile(r"""<(/?+)([A-Za-z_][\w:.-]*+)(?:[^"'<>]++|"[^"]*+"|'[^']*+')*+>""")
"""Never goes back, so that hostile text takes no longer than other text."""
_NOT_TRANSLATED = re.compile(r"\stranslate\s*=\s*[\"']?no\b|\sclass\s*=\s*[\"'][^\"']*\bnotranslate\b", re.IGNORECASE)
_RAW = (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>"), ("<!", ">"))


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag, comment or the like, as it was written."""

    text: str
    name: str = ""
    """Lower case; empty for what is no tag."""
    is_end: bool = False
    is_empty: bool = False


def split_markup(
    text: str,
    ignored: Collection[str],
    language: str = "",
    *,
    sentences: bool = True,
    lines: bool = True,
    terms: Terms | None = None,
) -> list[Part]:
    """As `split_text`, for the text between tags; elements named `ignored` (lower case) stay as they are."""
    parts = list[Part]()
    closing, depth = "", 0
    for token in _tokens(text):
        if isinstance(token, Tag):
            parts.append(Fixed(token.text))
            if closing and token.name == closing:
                depth += 0 if token.is_empty else (-1 if token.is_end else 1)
                closing = closing if depth else ""
            elif not closing and _starts_ignored(token, ignored):
                closing, depth = token.name, 1
        elif closing:
            parts.append(Fixed(token))
        else:
            inner = split_text(html.unescape(token), language, sentences=sentences, lines=lines, terms=terms)
            parts += [Fixed(escaped(part.text)) if isinstance(part, Fixed) else part for part in inner]
    return parts


def escaped(text: str) -> str:
    """Text as it stands between tags."""
    return html.escape(text, quote=False)


def _starts_ignored(tag: Tag, ignored: Collection[str]) -> bool:
    if not tag.name or tag.is_end or tag.is_empty:
        return False
    return tag.name in ignored or _NOT_TRANSLATED.search(tag.text) is not None


def _tokens(text: str) -> Iterator[Tag | str]:
    """Tags, and the text between them; a `<` that begins no tag is text."""
    start = at = 0
    while (at := text.find("<", at)) >= 0:
        tag = _tag_at(text, at)
        if tag is None:
            at += 1
            continue
        if at > start:
            yield text[start:at]
        yield tag
        start = at = at + len(tag.text)
    if start < len(text):
        yield text[start:]


def _tag_at(text: str, at: int) -> Tag | None:
    for opening, closing in _RAW:
        if text.startswith(opening, at):
            end = text.find(closing, at + len(opening), at + _LONGEST_TAG)
            return None if end < 0 else Tag(text[at : end + len(closing)])
    tag = _TAG.match(text, at, at + _LONGEST_TAG)
    if tag is None:
        return None
    return Tag(tag[0], tag[2].lower(), tag[1] == "/", tag[0].endswith("/>"))
