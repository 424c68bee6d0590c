"""Claim: two ranks of one thread each train about as many tokens a second as one process with two threads.

Setting: random pairs as long as those of multi30k, a vocabulary of 8,000, 3+3 layers, D=256, F=1024, H=4, batches of
at most 4,096 padded tokens cut into two parts, Muon; with --size large 6+6 layers, D=512, F=2048, H=8. The sides run
in turn, each time in fresh processes. Beside the seconds of the wall stand those of the processor, which a busy machine
changes less. From the parts of an update (computing, exchanging, orthogonalizing, reading, the rest) follows a model of
its cost: it is tried against the two ranks that were measured, and tells what more ranks and other machines would do.

Tables go to standard error, one JSON line to standard output. Exit code 1: a rank failed.
"""

from __future__ import annotations

import json
import os
import socket
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# a script has its own folder on the path, and the benchmarks are a package of the one above
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import OWN_PYTHON, Measured, child, note, parser, provenance
from benchmarks.scaling_model import fit, forecasts, update_seconds

MODEL = {"vocab_size": 8000, "model_dim": 256, "feed_forward_dim": 1024, "num_heads": 4}
LAYERS = {"encoder_layers": 3, "decoder_layers": 3, "dropout": 0.1}
LARGE = {"model_dim": 512, "feed_forward_dim": 2048, "num_heads": 8, "encoder_layers": 6, "decoder_layers": 6}
SIZES = {"small": {**MODEL, **LAYERS}, "large": {**MODEL, **LAYERS, **LARGE}}
TRAINING = {"tokens_per_batch": 4096, "micro_batches": 2, "optimizer": "muon", "average": "ema"}
SIDES = {"1 rank, 2 threads": (1, 2), "1 rank, 1 thread": (1, 1), "2 ranks, 1 thread each": (2, 1)}
"""Ranks and threads of each by the name of the side."""


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--rounds", type=int, default=2, help="how often each side runs")
    options.add_argument("--updates", type=int, default=8, help="measured updates of a run")
    options.add_argument("--warm", type=int, default=2, help="updates before them")
    options.add_argument("--size", choices=SIZES, default="small", help="of the model")
    chosen = options.parse_args()
    if min(chosen.rounds, chosen.updates, chosen.warm) < 1:
        options.error("every number must be at least 1")
    job = {"model": SIZES[chosen.size], "training": TRAINING, "updates": chosen.updates, "warm": chosen.warm}
    rounds = [{side: run_ranks(*how, job) for side, how in SIDES.items()} for _ in range(chosen.rounds)]
    sides = {side: [found[side] for found in rounds] for side in SIDES}
    rates = {side: [tokens_per_second(ranks, "wall") for ranks in runs] for side, runs in sides.items()}
    by_processor = {side: [tokens_per_second(ranks, "processor") for ranks in runs] for side, runs in sides.items()}
    one, _, two = SIDES
    ratios = [pair[0] / pair[1] for pair in zip(rates[two], rates[one], strict=True)]
    note("| side | tokens a second | tokens a processor second |\n|---|---|---|")
    for side in SIDES:
        note(f"| {side} | {listed(rates[side])} | {listed(by_processor[side])} |")
    note(f"\n2 ranks ÷ 1 rank of 2 threads: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
    model = fit(sides["1 rank, 1 thread"], sides[two])
    measured = statistics.median(update["wall"] for ranks in sides[two] for update in ranks[0]["updates"])
    note(f"an update of 2 ranks: {measured:.3f} s measured, {update_seconds(model, 2):.3f} s by the model\n")
    for line in forecasts(model):
        note(line)
    result = {"rates": rates, "by_processor": by_processor, "ratios": ratios, "model": model, "measured_two": measured}
    print(json.dumps({**provenance("2 ranks of a thread beside 1 of two"), "options": vars(chosen), **result}))


def run_ranks(count: int, threads: int, job: Measured) -> list[Measured]:
    """Train by so many ranks, in processes of their own; returns what each measured."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    variables = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count)}
    variables |= {"TORCHELASTIC_RUN_ID": "scaling", "TORCHELASTIC_RESTART_COUNT": "0"}
    full = {**job, "launched": time.time()}

    def rank(index: int) -> Measured:
        own = {"RANK": str(index), "LOCAL_RANK": str(index)}
        return child(OWN_PYTHON, "dikkat_rank", full, threads, variables | own)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(rank, range(count)))


def tokens_per_second(ranks: list[Measured], clock: str) -> float:
    """Target tokens by the seconds of the wall, or by those of the processor on all ranks."""
    tokens = sum(update["tokens"] for update in ranks[0]["updates"])
    spent = [sum(update[clock] for update in rank["updates"]) for rank in ranks]
    return tokens / (max(spent) if clock == "wall" else sum(spent))


def listed(rates: list[float]) -> str:
    return ", ".join(f"{rate:,.0f}" for rate in rates)


if __name__ == "__main__":
    os.environ.setdefault("DIKKAT_ANSWER_SECONDS", "120")
    main()
