"""Make more pairs out of parallel text with two translators of opposite directions.

Data diversification (Nguyen et al. 2020): a translator trained on the data, the translations of all sources, and the
translations of all targets in the other direction has seen each sentence worded in more than one way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from dikkat.data.pairs import Pair
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions
from dikkat_runtime.errors import UsageError
from dikkat_runtime.tasks.translator import Translator

BEAM = BeamOptions()

OnProgress = Callable[[int], None]
"""Receives the number of lines of both sides that have been translated so far."""


@dataclass(slots=True)
class Diversified:
    """Hold the (source, target) pairs: the original ones, and then the new ones."""

    pairs: list[tuple[str, str]]
    original: int
    by_forward: int = 0
    by_backward: int = 0
    _seen: set[tuple[str, str]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._seen = set(self.pairs)

    def add(self, source: str, target: str) -> int:
        """Add a pair if it is new and neither side is empty; return 1 if it was added, else 0."""
        pair = source, target
        if pair in self._seen or not (source.strip() and target.strip()):
            return 0
        self._seen.add(pair)
        self.pairs.append(pair)
        return 1


def check_directions(forward: Translator, backward: Translator) -> None:
    """Raise `UsageError` where it is known that `backward` does not translate what `forward` writes."""
    there, back = (run.config.data for run in (forward, backward))
    known = (there.source_language, there.target_language), (back.target_language, back.source_language)
    if all(all(languages) for languages in known) and known[0] != known[1]:
        raise UsageError(
            "the second translator must go the other way, {target_language} to {source_language}, but goes from "
            "{source_language2} to {target_language2}"
        ).fill(there.target_language, there.source_language, back.source_language, back.target_language)


def diversify(
    forward: Translator,
    backward: Translator,
    pairs: Sequence[Pair],
    *,
    options: DecodingOptions = BEAM,
    batch_size: int | None = None,
    on_progress: OnProgress = lambda _: None,
) -> Diversified:
    """Return `pairs` and the new pairs that `forward` makes of their sources and `backward` of their targets.

    `on_progress` receives the number of translated lines. Raises `UsageError` for translators that do not go opposite
    ways.
    """
    check_directions(forward, backward)
    result = Diversified([(pair.source, pair.target) for pair in pairs], len(pairs))
    write = partial(_written, options=options, batch_size=batch_size)
    sources, targets = ([pair[side] for pair in result.pairs] for side in (0, 1))
    for number, (source, target) in enumerate(zip(sources, write(forward, sources), strict=True), start=1):
        result.by_forward += result.add(source, target)
        on_progress(number)
    for number, (source, target) in enumerate(zip(write(backward, targets), targets, strict=True), start=1):
        result.by_backward += result.add(source, target)
        on_progress(len(pairs) + number)
    return result


def _written(
    translator: Translator, lines: Sequence[str], options: DecodingOptions, batch_size: int | None
) -> Iterator[str]:
    return (translation.text for translation in translator.stream(lines, options, batch_size=batch_size))
