"""A corpus with faults planted in it: the phrasebook's pairs, and which of them were spoiled how."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from tools.phrasebook.generate import phrasebook

from dikkat.data.faults.pair_checks import Fault
from dikkat.data.pairs import Pair

PER_KIND = 60
BLOCK = 60
"""Pairs of a shifted block, of which there are two."""


class Planted(NamedTuple):
    """Pairs, what was done to each, and the lines (from 1) on which shifted blocks begin."""

    pairs: list[Pair]
    faults: list[Fault]
    shift_lines: list[int]
    held_out: list[Pair]


Spoil = Callable[[str, str, random.Random], tuple[str, str]]


def _mojibake(text: str) -> str:
    return text.encode("utf-8").decode("cp1252", "ignore") if not text.isascii() else f"{text} CafÃ© Ã¼ber"


def _beginning(text: str) -> str:
    words = text.rstrip(".?!").split()
    return " ".join(words[: max(1, len(words) // 6)])


def _with_number(draw: random.Random, source: str, target: str) -> tuple[str, str]:
    number = draw.randint(13, 99_999)
    return f"{number}: {source}", f"{number + draw.choice([1, 10, 200])}: {target}"


ENDINGS = (("%s", "%d"), ("{name}", "{ad}"), ("%(count)d", ""), ("{0}", "{1}"), ("${user}", "$ user"))
MARKS = ("<b>{}</b>", "{}<br/>", "&nbsp;{}", "<p class='x'>{}", "{} &amp; more", '<a href="http://x.org">{}</a>')

SPOILS: dict[Fault, Spoil] = {
    Fault.ENCODING: lambda s, t, d: d.choice([(f"{s}\ufffd", t), (s, f"{t[:3]}\x02{t[3:]}"), (s, f"\ufffd{t}")]),
    Fault.EMPTY: lambda s, t, d: d.choice([("", t), (s, ""), (s, "  ")]),
    Fault.MOJIBAKE: lambda s, t, d: (s, _mojibake(t)),
    Fault.COPY: lambda s, t, d: (s, s),
    Fault.SWAPPED: lambda s, t, d: (t, s),
    Fault.MARKUP: lambda s, t, d: (s, d.choice(MARKS).format(t)),
    Fault.NUMBERS: lambda s, t, d: _with_number(d, s, t),
    Fault.LENGTH: lambda s, t, d: (f"{s[:-1]} and {s.lower()}", f"{_beginning(t)}."),
}


def planted(seed: int = 1, count: int = 3_000) -> Planted:
    """The same for the same seed: some 60 pairs of each kind in `count`, and two shifted blocks."""
    draw = random.Random(seed)
    pairs = [(source, target) for source, target, *_ in phrasebook("tr", count + 2 * PER_KIND, seed)]
    french = {source: target for source, target, *_ in phrasebook("fr", count, seed + 1)}
    clean, spare = pairs[:count], pairs[count:]
    blocks = [count // 4, count // 2]
    in_block = {line for start in blocks for line in range(start - 10, start + BLOCK + 10)}
    free = [line for line in range(10, count) if line not in in_block]
    draw.shuffle(free)
    texts, faults = list(clean), [Fault.NONE] * count

    def spoil(fault: Fault, change: Spoil) -> None:
        for _ in range(PER_KIND):
            line = free.pop()
            texts[line] = change(*texts[line], draw)
            faults[line] = fault

    for fault, change in SPOILS.items():
        spoil(fault, change)
    foreign = list(french.values())
    spoil(Fault.LANGUAGE, lambda s, t, d: (s, d.choice([f for f in foreign if len(f) > 20])))
    spoil(Fault.PLACEHOLDERS, _with_placeholders)
    spoil(Fault.SENTENCES, lambda s, t, d: (f"{s} {d.choice(clean)[0]} {d.choice(clean)[0]}", t))
    _duplicate(texts, faults, free)
    for number, start in enumerate(blocks):
        _shift(texts, start, 1 - 2 * number)
        faults[start : start + BLOCK] = [Fault.SHIFTED] * BLOCK
    held_out = [Pair(*pair, line) for line, pair in enumerate(spare, start=1)]
    for pair in held_out[:PER_KIND]:
        line = free.pop()
        texts[line] = (pair.source.upper().replace(".", "!"), pair.target)
        faults[line] = Fault.SEEN
    return Planted(
        [Pair(*pair, line) for line, pair in enumerate(texts, start=1)],
        faults,
        [start + 1 for start in blocks],
        held_out,
    )


def _with_placeholders(source: str, target: str, draw: random.Random) -> tuple[str, str]:
    ours, theirs = draw.choice(ENDINGS)
    return f"{source[:-1]} {ours}{source[-1]}", f"{target[:-1]} {theirs}{target[-1]}"


def _duplicate(texts: list[tuple[str, str]], faults: list[Fault], free: list[int]) -> None:
    clean = [line for line, fault in enumerate(faults) if not fault and line in set(free)]
    for _ in range(PER_KIND):
        line = max(free)
        free.remove(line)
        first = clean.pop(0)
        if first in free:
            free.remove(first)
        texts[line], faults[line] = texts[first], Fault.DUPLICATE


def _shift(texts: list[tuple[str, str]], start: int, places: int) -> None:
    """The targets of a block move down or up by a line, the last or first one going to the other end."""
    targets = [target for _, target in texts[start : start + BLOCK]]
    shifted = targets[-places:] + targets[:-places]
    texts[start : start + BLOCK] = [(texts[start + n][0], shifted[n]) for n in range(BLOCK)]
