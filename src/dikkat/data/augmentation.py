"""Copies of training pairs as hurried people write them, so that a translator has met such text.

Capitals, spaces, symbols and quotation marks are read as usual text before the model sees them; what no reader can put
right are typing errors and marks that are left out.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence

from dikkat.data.pairs import Pair

_WORD = re.compile(r"[^\W\d_]{4,}")
_FINAL_MARK = re.compile(r"\s?[.。]$")
MISTYPED = 1 / 6
"""Share of the words of four letters and more in which a copy has an error; one at least has one."""


def augmented(pairs: Sequence[Pair], *, typing_errors: float, no_final_mark: float, seed: int) -> Iterator[Pair]:
    """Yield copies of a share of `pairs` with typing errors in the source, and of a share without their final marks.

    A pair without anything to change is left out. Equal arguments give equal copies.
    """
    for name, share, change in (
        ("typing errors", typing_errors, _mistyped),
        ("no final mark", no_final_mark, _without_mark),
    ):
        count = round(share * len(pairs))
        rows = random.Random(f"{seed} {name}").sample(range(len(pairs)), count)
        for row in sorted(rows):
            pair = pairs[row]
            copy = change(pair, random.Random(f"{seed} {name} {row}"))
            if copy is not None:
                yield copy


def _mistyped(pair: Pair, chance: random.Random) -> Pair | None:
    words = list(_WORD.finditer(pair.source))
    if not words:
        return None
    count = sum(chance.random() < MISTYPED for _ in words)
    source = pair.source
    for word in sorted(chance.sample(words, max(1, count)), key=lambda match: -match.start()):
        source = source[: word.start()] + _with_error(word[0], words, chance) + source[word.end() :]
    return Pair(source, pair.target, pair.line)


def _with_error(word: str, words: Sequence[re.Match[str]], chance: random.Random) -> str:
    """Return a word with two inner letters swapped, one left out, doubled, or replaced by one of the text's."""
    at = chance.randrange(1, len(word) - 1)
    kind = chance.randrange(4)
    if kind == 0:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    if kind == 1:
        return word[:at] + word[at + 1 :]
    if kind == 2:
        return word[: at + 1] + word[at:]
    other = chance.choice(words)[0].lower()
    return word[:at] + chance.choice(other) + word[at + 1 :]


def _without_mark(pair: Pair, chance: random.Random) -> Pair | None:
    source, target = (_FINAL_MARK.sub("", text) for text in (pair.source, pair.target))
    if source == pair.source or target == pair.target or not source or not target:
        return None
    return Pair(source, target, pair.line)
