"""Alignment error rate: the distance of predicted word alignments from human ones."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from dikkat_runtime.errors import DataError

Link = tuple[int, int]
"""A source and a target word, each counted from 0."""

_LINK = re.compile(r"(\d+)([-p?])(\d+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class GoldAlignment:
    """Hold the links that people made in one pair of sentences (Och and Ney 2003, section 5)."""

    sure: frozenset[Link]
    """Links that must be predicted."""
    possible: frozenset[Link]
    """Links that may be predicted; the sure ones are among them."""
    where: str
    """`file:line`, for messages."""

    def require_within(self, source_words: int, target_words: int) -> None:
        """Raise `DataError` if a link leaves a sentence of so many words."""
        for source, target in sorted(self.possible):
            for word, words, side in ((source, source_words, "source"), (target, target_words, "target")):
                if word >= words:
                    raise DataError(
                        "{where}: link {source}-{target}: the {side} has only the words 0 to {words}; words are split "
                        "at spaces and counted from 0"
                    ).fill(self.where, source, target, side, words - 1)


@dataclass(frozen=True, slots=True)
class AlignmentScores:
    """Hold shares from 0 to 1, over all sentences together."""

    error: float
    """Alignment error rate, AER; lower is better."""
    precision: float
    """Share of the predicted links that are possible; 1 when there are none."""
    recall: float
    """Share of the sure links that were predicted; 1 when there are none."""


def parse_alignments(lines: Iterable[str], name: str) -> list[GoldAlignment]:
    """Parse one alignment a line, in the Pharaoh format: `0-0 1-2`, words counted from 0, the source first.

    `1-2` is sure, `1p2` or `1?2` only possible; an empty line links nothing. Raises `DataError` with `name:line`.
    """
    return [_parse(line, f"{name}:{number}") for number, line in enumerate(lines, start=1)]


def alignment_error(predicted: Sequence[Collection[Link]], gold: Sequence[GoldAlignment]) -> AlignmentScores:
    """Return AER = 1 - (|A∩S| + |A∩P|) / (|A| + |S|), with precision and recall.

    Source: Och and Ney 2003, section 5. Raises `ValueError` when the two are not of one length.
    """
    pairs = [(set(links), alignment) for links, alignment in zip(predicted, gold, strict=True)]
    links, sure = sum(len(ours) for ours, _ in pairs), sum(len(alignment.sure) for _, alignment in pairs)
    right = sum(len(ours & alignment.possible) for ours, alignment in pairs)
    surely_right = sum(len(ours & alignment.sure) for ours, alignment in pairs)
    return AlignmentScores(
        error=1.0 - _share(surely_right + right, links + sure),
        precision=_share(right, links),
        recall=_share(surely_right, sure),
    )


def _parse(line: str, where: str) -> GoldAlignment:
    sure, possible = set(), set()
    for word in line.split():
        match = _LINK.fullmatch(word)
        if match is None:
            raise DataError(
                '{where}: "{word}" is not a link; write 0-2 for a sure one and 0p2 or 0?2 for a possible one'
            ).fill(where, word)
        link = int(match[1]), int(match[3])
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return GoldAlignment(frozenset(sure), frozenset(possible), where)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 1.0
