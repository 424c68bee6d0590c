"""Protect the parts that a translation must keep unchanged: placeholders, addresses, and markup in a text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from dikkat_runtime.documents.paragraphs import WORD
from dikkat_runtime.documents.segments import Content, Item, Tag
from dikkat_runtime.text.placeholders import protected_spans

_MARKUP = re.compile(r"<(?P<close>/)?(?P<name>[A-Za-z][\w:-]*)(?:\s[^<>]*?)?(?P<void>/)?>")
_WORD = re.compile(WORD)
_BREAKS = frozenset(("br", "hr", "p", "div", "li"))


def protected(content: Content, *, markup: bool = False) -> Content:
    """Return content in which placeholders, URLs and e-mail addresses are tags that stand for a word.

    With `markup` the tags that stand in the text, as in messages of programs, are tags too.
    """
    items: list[Item] = []
    pairs = max((item.pair for item in content if isinstance(item, Tag)), default=0)
    for item in content:
        if isinstance(item, Tag):
            items.append(item)
            continue
        for part in _with_markup(item, pairs) if markup and "<" in item else (item,):
            if isinstance(part, Tag):
                pairs = max(pairs, part.pair)
                items.append(part)
            else:
                items += _with_words(part)
    return tuple(items)


def _with_words(text: str) -> Iterator[Item]:
    position = 0
    spans = protected_spans(text, _WORD)
    for number, (start, end) in enumerate(spans):
        if start < position:
            continue
        # adjacent placeholders are one: {a}{b}
        following = number + 1
        while following < len(spans) and spans[following][0] <= end:
            end = spans[following][1] if spans[following][0] == end else end
            following += 1
        if start > position:
            yield text[position:start]
        yield Tag("word", text[start:end], is_text=True)
        position = end
    if position < len(text):
        yield text[position:]


def _with_markup(text: str, pairs: int) -> list[Item]:
    """Return the tags of a text; those without their other half stand alone."""
    matches = list(_MARKUP.finditer(text))
    partner: dict[int, int] = {}
    opened, counts = list[int](), Counter[str]()
    for number, tag in enumerate(matches):
        if tag["void"]:
            continue
        if not tag["close"]:
            opened.append(number)
            counts[tag["name"]] += 1
        elif counts[tag["name"]]:
            while (name := matches[last := opened.pop()]["name"]) != tag["name"]:
                counts[name] -= 1
            counts[name] -= 1
            partner[last] = number
    closes = {close: open_ for open_, close in partner.items()}
    items: list[Item] = []
    position = 0
    for number, tag in enumerate(matches):
        items.append(text[position : tag.start()])
        position = tag.end()
        if number in partner:
            items.append(Tag("open", tag[0], pairs + 1 + number, is_text=True))
        elif number in closes:
            items.append(Tag("close", tag[0], pairs + 1 + closes[number], is_text=True))
        else:
            ends = tag["name"].lower() in _BREAKS
            # "git add <file>": a tag without its other half stands for a word
            items.append(Tag("void" if ends or tag["void"] else "word", tag[0], ends_sentence=ends, is_text=True))
    items.append(text[position:])
    return [item for item in items if item != ""]
