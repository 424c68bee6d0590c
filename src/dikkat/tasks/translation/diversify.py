"""More pairs out of the same data: what two translators of opposite directions write of it.

Data diversification (Nguyen et al. 2020): a translator trained on the data, its translations of all sources, and what a
translator of the other direction writes of all targets, has seen each thought said in more than one way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from dikkat.data.pairs import Pair
from dikkat.tasks.translation.translator import Translator
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions
from dikkat_runtime.errors import UsageError

BEAM = BeamOptions()

Told = Callable[[int], None]
"""Is given the number of lines of both sides that have been translated so far."""


@dataclass(slots=True)
class Diversified:
    """(source, target) of all pairs: those given, and then the new ones."""

    pairs: list[tuple[str, str]]
    given: int
    by_forward: int = 0
    by_backward: int = 0
    _seen: set[tuple[str, str]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._seen = set(self.pairs)

    def add(self, source: str, target: str) -> int:
        """1 for a pair that is new, else 0; a pair with nothing on a side is none."""
        pair = source, target
        if pair in self._seen or not (source.strip() and target.strip()):
            return 0
        self._seen.add(pair)
        self.pairs.append(pair)
        return 1


def check_directions(forward: Translator, backward: Translator) -> None:
    """Raises `UsageError` where it is known that one does not translate what the other writes."""
    there, back = (run.config.data for run in (forward, backward))
    known = (there.source_language, there.target_language), (back.target_language, back.source_language)
    if all(all(languages) for languages in known) and known[0] != known[1]:
        raise UsageError(
            f"the second translator must go the other way, {there.target_language} to {there.source_language},"
            f" but goes from {back.source_language} to {back.target_language}"
        )


def diversify(
    forward: Translator,
    backward: Translator,
    pairs: Sequence[Pair],
    *,
    options: DecodingOptions = BEAM,
    batch_size: int | None = None,
    told: Told = lambda _: None,
) -> Diversified:
    """`pairs`, and each that is new among the sources as `forward` translates them and the targets as `backward` does.

    Raises `UsageError` for translators that do not go opposite ways.
    """
    check_directions(forward, backward)
    found = Diversified([(pair.source, pair.target) for pair in pairs], len(pairs))
    write = partial(_written, options=options, batch_size=batch_size)
    sources, targets = ([pair[side] for pair in found.pairs] for side in (0, 1))
    for number, (source, target) in enumerate(zip(sources, write(forward, sources), strict=True), start=1):
        found.by_forward += found.add(source, target)
        told(number)
    for number, (source, target) in enumerate(zip(write(backward, targets), targets, strict=True), start=1):
        found.by_backward += found.add(source, target)
        told(len(pairs) + number)
    return found


def _written(
    translator: Translator, lines: Sequence[str], options: DecodingOptions, batch_size: int | None
) -> Iterator[str]:
    return (each.text for each in translator.stream(lines, options, batch_size=batch_size))
