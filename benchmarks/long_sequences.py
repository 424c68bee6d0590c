"""Claim: how the cost of attention grows with the length, in training and in decoding, for exact and efficient forms.

Setting: one sequence, four causal heads of width 64 (a layer with D=256), float32. Training is a forward and a backward
pass over the whole sequence; decoding is one more position behind so many. Exact attention goes through the products of
`fused_attention`, as in a layer, through PyTorch's fused kernel, and through `chunked_attention`; all decode by
`fused_attention` over all keys. The sliding window sees itself and so many positions before; linear attention decodes
from one matrix a head. The rest of a layer, its projections and its feed-forward network, is given beside them, since
attention only matters where it is not small against it. Every form at every length runs in a fresh process; in each
round all take their turn. The exponent of a form is the slope of its logarithmic curve over the lengths from
`--slope-from` on, by least squares.

A table goes to standard error, one JSON line to standard output. Exit code 1: a form failed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import sys
from pathlib import Path

# a script has its own folder on the path, and the benchmarks are a package of the one above
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import OWN_PYTHON, Measured, child, note, parser, provenance

FORMS = ("products", "fused kernel", "chunked", "sliding window", "linear", "rest of the layer")
MEASURES = ("training_seconds", "decoding_seconds", "training_peak_bytes")


def main() -> None:
    options = parse()
    load = os.getloadavg()[0]
    rounds = [one_round(options, number) for number in range(options.rounds)]
    found = summary(rounds, options.slope_from)
    note(table(found))
    versions = rounds[0][FORMS[0]][str(options.lengths[0])]["versions"]
    print(json.dumps({**context(options, versions), "load_average_before": load, "found": found, "rounds": rounds}))


def parse() -> argparse.Namespace:
    known = parser(__doc__)
    known.add_argument("--lengths", type=int, nargs="+", default=[256, 512, 1024, 2048, 4096, 8192], help="positions")
    known.add_argument("--slope-from", type=int, default=1024, help="shortest length that the exponent looks at")
    known.add_argument("--heads", type=int, default=4, help="heads of the layer")
    known.add_argument("--width", type=int, default=64, help="width of a head")
    known.add_argument("--window", type=int, default=128, help="positions before its own that the window sees")
    known.add_argument("--rounds", type=int, default=3, help="times that each form runs at each length")
    known.add_argument("--repeats", type=int, default=3, help="timed training steps in each run")
    known.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="threads of every form")
    options = known.parse_args()
    numbers = (*options.lengths, options.heads, options.width, options.window, options.rounds, options.repeats)
    if min(*numbers, options.threads) < 1:
        known.error("every number must be at least 1")
    return options


def one_round(options: argparse.Namespace, number: int) -> dict[str, dict[str, Measured]]:
    """Every form at every length, every round beginning with another form."""
    turn = number % len(FORMS)
    job = {name: getattr(options, name) for name in ("heads", "width", "window", "repeats")}
    found = {}
    for form in FORMS[turn:] + FORMS[:turn]:
        jobs = ({**job, "form": form, "length": length} for length in options.lengths)
        found[form] = {str(each["length"]): child(OWN_PYTHON, "long_sequence", each, options.threads) for each in jobs}
        note(f"round {number + 1}: {form}")
    return {form: found[form] for form in FORMS}


def summary(rounds: list[dict[str, dict[str, Measured]]], slope_from: int) -> dict[str, Measured]:
    """Medians over the rounds at each length, and the exponents of both times."""
    found: dict[str, Measured] = {}
    for form, lengths in rounds[0].items():
        found[form] = {
            name: {length: statistics.median(one[form][length][name] for one in rounds) for length in lengths}
            for name in MEASURES
        }
        for name in MEASURES[:2]:
            curve = {int(length): seconds for length, seconds in found[form][name].items()}
            found[form][name.replace("seconds", "exponent")] = exponent(curve, slope_from)
    return found


def exponent(curve: dict[int, float], slope_from: int) -> float | None:
    """The b of a n^b through the points from there on; None of fewer than two."""
    points = [(math.log(length), math.log(seconds)) for length, seconds in curve.items() if length >= slope_from]
    if len(points) < 2:
        return None
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def table(found: dict[str, Measured]) -> str:
    """Milliseconds and MiB at each length, the exponent at the end."""
    lines = []
    for name, unit in zip(MEASURES, (1e3, 1e3, 2.0**-20), strict=True):
        lengths = list(found[FORMS[0]][name])
        lines.append(f"{name:22}" + "".join(f"{length:>10}" for length in lengths) + "  exponent")
        for form, each in found.items():
            slope = each.get(name.replace("seconds", "exponent"))
            shown = f"{slope:10.2f}" if isinstance(slope, float) and name != MEASURES[2] else ""
            lines.append(f"  {form:20}" + "".join(f"{unit * each[name][length]:10.3f}" for length in lengths) + shown)
    return "\n".join(lines)


def context(options: argparse.Namespace, versions: Measured) -> Measured:
    """What a reader needs in order to judge the numbers."""
    setting = {name: getattr(options, name) for name in ("lengths", "heads", "width", "window", "slope_from")}
    return {
        **provenance("long_sequences"),
        "versions": {**versions, "python": platform.python_version()},
        "setting": {**setting, "dtype": "float32", "batch": 1, "causal": True},
        "threads": options.threads,
        "repeats": options.repeats,
        "peak": "highest resident size (VmHWM) less the resident size after a short step (VmRSS)",
    }


if __name__ == "__main__":
    main()
