"""Copies of training pairs as hurried people write them, so that a translator has met such text.

Capitals, spaces, symbols and quotation marks are read as usual text before the model sees them; what no reader can put
right are typing errors and marks that are left out.
"""

import random
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import cycle

from dikkat.data.pairs import Pair

_WORD = re.compile(r"[^\W\d_]{4,}")
_FINAL_MARK = re.compile(r"\s?[.。]$")
_EXCLAMATION = {".": "!", "。": "！"}
MISTYPED = 1 / 6
"""Share of the words of four letters and more in which a copy has an error; one at least has one."""


def augmented(
    pairs: Iterable[Pair], *, typing_errors: float, no_final_mark: float, seed: int, target_language: str = ""
) -> Iterator[Pair]:
    """Yield copies of a share of `pairs` with typing errors in the source, and of a share without their full stops.

    Every second one of these ends with an exclamation mark instead. A pair without anything to change is left out.
    Equal arguments give equal copies.
    """
    chance, exclaims = random.Random(seed), cycle((False, True))
    space = "\u00a0" if target_language.startswith("fr") else ""
    for pair in pairs:
        is_mistyped, is_cut = chance.random() < typing_errors, chance.random() < no_final_mark
        copies = (
            _mistyped(pair, chance) if is_mistyped else None,
            _without_stop(pair, next(exclaims), space) if is_cut else None,
        )
        yield from filter(None, copies)


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
    other = chance.choice(chance.choice(words)[0].lower())
    swapped, dropped = word[:at] + word[at + 1] + word[at] + word[at + 2 :], word[:at] + word[at + 1 :]
    doubled, replaced = word[: at + 1] + word[at:], word[:at] + other + word[at + 1 :]
    typed = chance.choice([swapped, dropped, doubled, replaced])
    return dropped if typed == word else typed


def _without_stop(pair: Pair, exclaims: bool, space: str) -> Pair | None:
    stops = [_FINAL_MARK.search(text) for text in (pair.source, pair.target)]
    source, target = (_FINAL_MARK.sub("", text) for text in (pair.source, pair.target))
    if not all(stops) or not source or not target:
        return None
    marks = [_EXCLAMATION[stop[0][-1]] if exclaims and stop else "" for stop in stops]
    return Pair(source + marks[0], target + (space if exclaims else "") + marks[1], pair.line)
