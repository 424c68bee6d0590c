"""Claim: what the recorder of attention costs when nobody listens, and when one layer is asked for.

Setting: random weights, 3+3 layers, D=256, F=1024, H=4, vocabulary 8,000, float32; a training step (forward and
backward, without the optimizer) and greedy decoding of one batch. The same weights are held three times: one model was
never watched, one was before and is no more, one is all the time. All cases take their turn, repeat by repeat, in one
process, and seconds are those of the processor over all threads, which no neighbour on the machine adds to. The
reference of asking for one layer, the last cross-attention, is the time of its scores and softmax alone, taken in the
same turns.
Everything is measured with dikkat's native kernels and, in a second process, without them (DIKKAT_NATIVE=0).

A step of the whole model takes some 800 times as long as the scores of one layer and varies by more than those take.
`--layers 1 --vocabulary 500 --repeats 60` is the same question put to a step that is short enough to answer it.

A table goes to standard error, one JSON line to standard output. Exit code 1: a side failed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from pathlib import Path

# a script has its own folder on the path, and the benchmarks are a package of the one above
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import OWN_PYTHON, Measured, child, note, parser, provenance

MODEL = {"model_dim": 256, "feed_forward_dim": 1024, "num_heads": 4, "dropout": 0.1}
SIDES = {"native": "1", "pytorch": "0"}
NEVER, BEFORE, ONE, SCORES = CASES = ("never watched", "watched before", "one layer asked for", "its scores alone")


def main() -> None:
    options = parse()
    load = os.getloadavg()[0]
    job = {name: getattr(options, name) for name in ("rounds", "repeats", "batch", "length")}
    job["model"] = model_of(options)
    note(f"{options.threads} threads, {options.rounds} rounds of {options.repeats} repeats")
    note(f"{'':10}{'':10}{'':22}{'ms':>10}{'ratio':>9}{'layers of scores':>18}")
    sides = {}
    for side, native in SIDES.items():
        variables = {"DIKKAT_NATIVE": native}
        sides[side] = child(OWN_PYTHON, "recorder_steps", job, options.threads, variables)
        sides[side]["found"] = summary(sides[side]["rounds"])
        note(table(side, sides[side]["found"]))
    print(json.dumps({**context(options), "load_average_before": load, **sides}))


def model_of(options: argparse.Namespace) -> Measured:
    layers = {"encoder_layers": options.layers, "decoder_layers": options.layers}
    return {**MODEL, **layers, "vocab_size": options.vocabulary}


def parse() -> argparse.Namespace:
    known = parser(__doc__)
    known.add_argument("--rounds", type=int, default=7, help="rounds, of which the medians are taken")
    known.add_argument("--repeats", type=int, default=8, help="times that each case takes its turn in a round")
    known.add_argument("--batch", type=int, default=32, help="sentences")
    known.add_argument("--length", type=int, default=32, help="tokens of each side, and most tokens decoded")
    known.add_argument("--layers", type=int, default=3, help="layers of the encoder, and of the decoder")
    known.add_argument("--vocabulary", type=int, default=8000, help="entries of the vocabulary")
    known.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="threads of every case")
    options = known.parse_args()
    if min(options.rounds, options.repeats, options.batch, options.layers, options.threads) < 1 or options.length < 2:
        known.error("--length must be at least 2, every other number at least 1")
    return options


def summary(rounds: list[Measured]) -> Measured:
    """Return medians over the rounds: seconds, ratios to the model never watched, extra time in layers of scores."""
    found: Measured = {}
    for work in rounds[0]:
        times = [one[work] for one in rounds]
        found[work] = {
            "seconds": {case: statistics.median(each[case] for each in times) for case in CASES},
            "ratio": {case: statistics.median(each[case] / each[NEVER] for each in times) for case in (BEFORE, ONE)},
            "ratios": {case: [each[case] / each[NEVER] for each in times] for case in (BEFORE, ONE)},
            "layers_of_scores": statistics.median((each[ONE] - each[BEFORE]) / each[SCORES] for each in times),
        }
    return found


def table(side: str, found: Measured) -> str:
    lines = []
    for work, each in found.items():
        for case in CASES:
            ratio = f"{each['ratio'][case]:9.4f}" if case in each["ratio"] else f"{'':9}"
            layers = f"{each['layers_of_scores']:18.2f}" if case == ONE else ""
            lines.append(f"{side:10}{work:10}{case:22}{1e3 * each['seconds'][case]:10.2f}{ratio}{layers}")
    return "\n".join(lines)


def context(options: argparse.Namespace) -> Measured:
    """What a reader needs in order to judge the numbers."""
    return {
        **provenance("attention_cost"),
        "python": platform.python_version(),
        "setting": {"model": model_of(options), "batch": options.batch, "length": options.length, "dtype": "float32"},
        "threads": options.threads,
        "repeats": options.repeats,
        "seconds": "processor time of the process, all threads",
        "layers_of_scores": "(one layer asked for - watched before) / its scores alone, round by round",
    }


if __name__ == "__main__":
    main()
