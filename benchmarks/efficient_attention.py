"""Claim: what the efficient forms of attention cost and err, beside exact attention with all its weights at once.

The full matrix (the reference), PyTorch's fused kernel and chunked attention are exact; a sliding window sees its
neighbourhood only, and linear attention has another kernel than softmax. Every form runs in a fresh process on the same
standard normal float32 queries, keys and values, forwards, with the same number of threads; in each round all forms
take their turn, every round beginning with another one. Such inputs have no neighbourhood to speak of and a nearly even
softmax: the errors of the window and of the linear form are those of the worst place to use them.

A table goes to standard error, one JSON line to standard output. Exit code 1: a form failed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
from pathlib import Path
from typing import Any

# a script has its own folder on the path, and the benchmarks are a package of the one above
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import OWN_PYTHON, Measured, child, note, parser, provenance

FULL, KERNEL = "full matrix", "fused kernel"
FORMS = (FULL, KERNEL, "chunked", "sliding window", "linear")


def main() -> None:
    options = parse()
    load = os.getloadavg()[0]
    note(f"{options.threads} threads, {options.rounds} rounds of {options.repeats} timed calls, width {options.width}")
    rounds = []
    for number in range(options.rounds):
        rounds.append(one_round(options, number))
        note(f"round {number + 1}\n{table(rounds[-1])}")
    found = summary(rounds)
    note(f"medians\n{table(found)}")
    print(json.dumps({**context(options, rounds), "load_average_before": load, "found": found, "rounds": rounds}))


def parse() -> argparse.Namespace:
    known = parser(__doc__)
    known.add_argument("--lengths", type=int, nargs="+", default=[1024, 4096, 16384], help="positions")
    known.add_argument("--width", type=int, default=64, help="width of the one head")
    known.add_argument("--window", type=int, default=128, help="how far the sliding window sees, either way")
    known.add_argument("--rounds", type=int, default=3, help="times that each form runs")
    known.add_argument("--repeats", type=int, default=5, help="timed calls in each run, after one that is not")
    known.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="threads of every form")
    options = known.parse_args()
    if min(*options.lengths, options.width, options.rounds, options.repeats, options.threads) < 1 or options.window < 0:
        known.error("--window must be at least 0, every other number at least 1")
    return options


def one_round(options: argparse.Namespace, number: int) -> dict[str, dict[str, Measured]]:
    """All forms at all lengths; their errors, which no round changes, in the first one."""
    turn = number % len(FORMS)
    order = FORMS[turn:] + FORMS[:turn]
    job = {"width": options.width, "window": options.window, "repeats": options.repeats}
    found = {}
    for length in options.lengths:
        each = {
            form: child(
                OWN_PYTHON,
                "attention_form",
                {**job, "form": form, "length": length, "errors": number == 0},
                options.threads,
            )
            for form in order
        }
        found[str(length)] = {form: each[form] for form in FORMS}
    return found


def summary(rounds: list[dict[str, dict[str, Measured]]]) -> dict[str, dict[str, Measured]]:
    """Medians over the rounds; how many times as fast as both exact ones, round by round; the errors."""
    return {
        length: {form: over_rounds([one[length] for one in rounds], form) for form in FORMS} for length in rounds[0]
    }


def over_rounds(rounds: list[dict[str, Measured]], form: str) -> Measured:
    found: Measured = {
        "seconds": statistics.median(one[form]["seconds"] for one in rounds),
        "peak_bytes": statistics.median(one[form]["peak_bytes"] for one in rounds),
        "errors": rounds[0][form]["errors"],
    }
    for name, exact in (("times_full_matrix", FULL), ("times_fused_kernel", KERNEL)):
        ratios = [one[exact]["seconds"] / one[form]["seconds"] for one in rounds]
        found[name], found[f"{name}_rounds"] = statistics.median(ratios), ratios
    return found


def table(found: dict[str, dict[str, Measured]]) -> str:
    """Milliseconds a call, memory beside the inputs, and the relative error against exact attention to all keys."""
    lines = [f"  {'positions':>9} {'form':16}{'ms':>10}{'MiB':>10}{'error':>12}"]
    for length, forms in found.items():
        for form, each in forms.items():
            error = f"{each['errors']['all keys']['relative']:.1e}" if each["errors"] else ""
            time, memory = 1e3 * each["seconds"], each["peak_bytes"] / 2**20
            lines.append(f"  {length:>9} {form:16}{time:>10,.1f}{memory:>10,.1f}{error:>12}")
    return "\n".join(lines)


def context(options: argparse.Namespace, rounds: list[dict[str, dict[str, Measured]]]) -> dict[str, Any]:
    """What a reader needs in order to judge the numbers."""
    first = rounds[0][str(options.lengths[0])][FULL]
    return {
        **provenance("efficient_attention"),
        "versions": {**first["versions"], "python": platform.python_version()},
        "setting": {
            "lengths": options.lengths,
            "heads": 1,
            "width": options.width,
            "window": options.window,
            "dtype": "float32",
            "inputs": "standard normal",
            "pass": "forward",
        },
        "threads": options.threads,
        "repeats": options.repeats,
        "peak": "highest resident size (VmHWM) less the resident size before the first call (VmRSS)",
    }


if __name__ == "__main__":
    main()
