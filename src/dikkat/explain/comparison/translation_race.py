"""Hold what a comparison of two translators measured, how good each was after how long, and say it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from dikkat.explain.explanation import Column, Explanation, Step, Table
from dikkat_runtime.messages import msg

MARKS = (30.0, 50.0, 70.0, 80.0, 90.0, 95.0)
"""Scores (chrF) whose time is told."""


@dataclass(frozen=True, slots=True)
class Look:
    """Hold one score on the way of a training."""

    updates: int
    seconds: float
    """Processor time of training alone, which a busy machine does not change."""
    chrf: float


@dataclass(frozen=True, slots=True)
class Racer:
    """Hold the training of one translator."""

    name: str
    parameters: int
    tokens_per_second: float
    """Target tokens trained on."""
    looks: tuple[Look, ...]

    def seconds_to(self, chrf: float) -> float | None:
        """Return the seconds of training until it first scored as much; None where it never did."""
        return next((look.seconds for look in self.looks if look.chrf >= chrf), None)

    @property
    def best(self) -> float:
        """Return the best score of all looks."""
        return max((look.chrf for look in self.looks), default=0.0)


@dataclass(frozen=True, slots=True)
class Race:
    """Hold what was trained on, and both trainings: that of the Transformer first."""

    data: str
    pairs: int
    held_out: int
    batch_tokens: int
    vocabulary: int
    seed: int
    machine: str
    racers: tuple[Racer, Racer]

    def as_dict(self) -> dict[str, object]:
        """Return all of it, with the seconds to equal scores, for JSON."""
        marks = {f"{mark:g}": [racer.seconds_to(mark) for racer in self.racers] for mark in MARKS}
        return {**asdict(self), "seconds_to_chrf": marks}


def render_race(race: Race) -> Explanation:
    """Return the tables: the two translators, and the time of each to equal scores."""
    first, second = race.racers
    introduction = (
        msg(
            "Both learn {pairs:,} pairs of {data} in the same batches of about {batch_tokens:,} tokens, with one "
            "vocabulary of {vocabulary:,} entries and AdamW; chrF is that of greedy translations of {held_out:,} "
            "held-out sentences."
        ).fill(race.pairs, race.data, race.batch_tokens, race.vocabulary, race.held_out),
    )
    sizes = Table(
        (
            Column(msg("translator")),
            *(Column(msg(name), True) for name in ("parameters", "tokens/s", "updates", "best chrF")),
        ),
        tuple(
            (
                msg(racer.name),
                f"{racer.parameters:,}",
                f"{racer.tokens_per_second:,.0f}",
                f"{racer.looks[-1].updates:,}" if racer.looks else "0",
                f"{racer.best:.1f}",
            )
            for racer in race.racers
        ),
    )
    times = Table(
        (
            Column("chrF"),
            *(Column(msg("{name}, s").fill(msg(racer.name)), True) for racer in race.racers),
            Column(msg("times"), True),
        ),
        tuple(_time_row(mark, first, second) for mark in MARKS if first.best >= mark or second.best >= mark),
    )
    steps = (
        Step(msg("1. Two translators of equal size"), (), sizes),
        Step(
            msg("2. Time to equal chrF"),
            (msg("Processor seconds of training until greedy translations first score as much, scoring not counted."),),
            times,
            (msg("A dash: it did not get there. Times: the recurrent one's seconds by the Transformer's."),),
        ),
    )
    ending = (msg("Measured on {machine}, seed {seed}.").fill(race.machine, race.seed),)
    return Explanation(msg("A Transformer and a recurrent translator"), introduction, None, steps, ending)


def _time_row(mark: float, first: Racer, second: Racer) -> tuple[str, ...]:
    ours, theirs = first.seconds_to(mark), second.seconds_to(mark)
    times = f"{theirs / ours:.1f}" if ours and theirs else "–"
    return f"{mark:g}", *("–" if seconds is None else f"{seconds:.1f}" for seconds in (ours, theirs)), times
