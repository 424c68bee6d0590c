"""What an update costs by its parts, fitted to one rank and to two, and what that tells of more of them."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from benchmarks.harness import Measured

SHARED, REPEATED = ("compute", "reading"), ("rest",)


class Machine(NamedTuple):
    """What the forecasts assume of a rank and of the network, beside what was measured."""

    name: str
    speed: float
    """Times the computing of one thread of the machine that was measured."""
    bytes_per_second: float
    """Of one rank's connection, each way."""
    latency: float
    """Seconds of one message."""


def fit(alone: Sequence[Sequence[Measured]], two: Sequence[Sequence[Measured]]) -> Measured:
    """Fit the seconds of an update of one thread by its parts, and latency and bandwidth to the sums of two ranks."""
    updates = [update for ranks in alone for update in ranks[0]["updates"]]
    seconds = {name: statistics.median(update[name] for update in updates) for name in ("compute", "matrices")}
    seconds["rest"] = statistics.median(
        update["processor"] - update["compute"] - update["matrices"] for update in updates
    )
    seconds["reading"] = statistics.median(ranks[0]["reading"] for ranks in alone)
    # reading is a part of what was timed as computing
    seconds["compute"] -= seconds["reading"]
    sizes = [int(size) for size in two[0][0]["exchanges"]]
    spent = [min(max(rank["exchanges"][str(size)] for rank in ranks) for ranks in two) for size in sizes]
    # of a sum over two ranks, each sends and receives the whole vector once
    latency, largest = spent[0], spent[-1]
    return {
        "seconds": seconds,
        "latency": latency,
        "bytes_per_second": sizes[-1] / max(largest - latency, 1e-9),
        "parameters": alone[0][0]["parameters"],
        "number_of_matrices": len(alone[0][0]["matrices"]),
        "tokens": statistics.median(update["tokens"] for update in updates),
        "startup": statistics.median(ranks[0]["startup"] for ranks in two),
    }


def update_seconds(model: Measured, ranks: int, machine: Machine | None = None, batches: float = 1.0) -> float:
    """Tell the seconds of an update by so many ranks, of `batches` times the measured batch.

    Computing and reading are shared by all ranks; matrices by no more of them than there are; the rest, of which AdamW
    is shared as well, is counted as repeated. (R - 1) / R of the gradient goes twice, as in a ring, and the weights
    once.
    """
    seconds = model["seconds"]
    speed = 1.0 if machine is None else machine.speed
    rate = model["bytes_per_second"] if machine is None else machine.bytes_per_second
    latency = model["latency"] if machine is None else machine.latency
    own = batches * sum(seconds[name] for name in SHARED) / ranks + sum(seconds[name] for name in REPEATED)
    own += seconds["matrices"] / min(ranks, model["number_of_matrices"])
    if ranks == 1:
        return own / speed
    sent = 4 * model["parameters"] * (2 * (ranks - 1) / ranks + 1)
    return own / speed + sent / rate + 2 * (ranks - 1) * latency


def forecasts(model: Measured) -> Iterator[str]:
    """Tell, as a table, how fast more ranks of some machines would be, and from how many on one is wasted."""
    own = Machine("this machine's threads", 1.0, model["bytes_per_second"], model["latency"])
    cases = [
        (own, (2, 4, 8, 16)),
        (Machine("nodes of one thread, 25 Gbit/s", 1.0, 3.1e9, 5e-5), (2, 8, 64)),
        (Machine("GPUs 500 times as fast, 300 GB/s", 500.0, 3e11, 1e-5), (2, 8, 64)),
    ]
    yield "| machine | ranks | same batch: times one rank | efficiency | batch for each rank: efficiency |"
    yield "|---|---|---|---|---|"
    for machine, counts in cases:
        alone = update_seconds(model, 1, machine)
        for ranks in counts:
            same = alone / update_seconds(model, ranks, machine)
            grown = alone * ranks / update_seconds(model, ranks, machine, ranks)
            # alone, a batch that has grown costs more than one update
            grown *= update_seconds(model, 1, machine, ranks) / (alone * ranks)
            yield f"| {machine.name} | {ranks} | {same:.2f} | {same / ranks:.0%} | {grown / ranks:.0%} |"
    for machine, _ in cases:
        yield f"\n{machine.name}: half of the time is lost from {breaking_point(model, machine)} ranks on, same batch"


def breaking_point(model: Measured, machine: Machine) -> int:
    """Return the fewest ranks whose efficiency on the measured batch is below one half."""
    alone, ranks = update_seconds(model, 1, machine), 2
    while alone / update_seconds(model, ranks, machine) / ranks >= 0.5:
        ranks += 1
    return ranks
