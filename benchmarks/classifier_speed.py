"""Claim: how many texts a second dikkat trains a classifier on, and how many a BERT of the same sizes takes.

Setting: the labelled texts of IMDB and dikkat's own settings for so many (one layer, D=64, F=128, four heads, at most
400 tokens of a text, 16,384 tokens a batch), but AdamW on both sides. dikkat trains with its own `Trainer`, which makes
its batches, its rotary positions and its word dropout while the clock runs; the peer is Hugging Face's
`BertForSequenceClassification` with random weights, learned positions, fused AdamW, the same batches already in memory,
in float32 and under bfloat16 autocast, each with its default attention (sdpa) and with eager attention. The fastest of
the four counts. BERT has a norm behind its embeddings and a pooler more, dikkat a norm at the end. Word dropout hides
40 % of the words from dikkat's encoder, which then does not compute them; the second row is dikkat without it, on every
word like the peer.

A table goes to standard error, one JSON line to standard output. Exit codes: 66 the texts are not there, 1 a side
failed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import sys
import tempfile
from pathlib import Path

# a script has its own folder on the path, and the benchmarks are a package of the one above
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import (
    HERE,
    OWN_PYTHON,
    ROOT,
    Measured,
    child,
    fail,
    make_environment,
    note,
    parser,
    provenance,
    require_files,
)

OURS, EVERY_WORD = "dikkat", "dikkat, every word"
OWN: dict[str, Measured] = {OURS: {}, EVERY_WORD: {"classifier": {"word_dropout": 0.0}}}
PEERS = {
    f"huggingface {dtype}{'' if attention == 'sdpa' else ' eager'}": {"dtype": dtype, "attention": attention}
    for attention in ("sdpa", "eager")
    for dtype in ("float32", "bfloat16")
}
SETTINGS = {"training": {"optimizer": "adamw", "learning_rate": 1e-3}}


def main() -> None:
    options = parse()
    require_files([options.data], "name the texts with --data")
    python = make_environment(options.env, HERE / "requirements.txt")
    with tempfile.TemporaryDirectory(prefix="dikkat-classifier-speed-") as folder:
        print(json.dumps(measure(options, python, Path(folder))))


def parse() -> argparse.Namespace:
    known = parser(__doc__)
    known.add_argument("--rounds", type=int, default=3, help="times that each side runs")
    known.add_argument("--warm", type=int, default=5, help="updates before the clock starts, in each run")
    known.add_argument("--steps", type=int, default=20, help="timed updates, in each run")
    known.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="threads of either side")
    imdb = ROOT.parent / "shared/data/imdb/train.tsv.gz"
    known.add_argument("--data", type=Path, default=imdb, help="labelled texts")
    known.add_argument("--env", type=Path, default=HERE / ".venv-huggingface", help="where the peer is installed")
    options = known.parse_args()
    if min(options.rounds, options.steps, options.threads) < 1 or options.warm < 0:
        known.error("--rounds, --steps and --threads must be at least 1, --warm at least 0")
    return options


def measure(options: argparse.Namespace, python: Path, folder: Path) -> Measured:
    """All rounds, and what they come to."""
    load, timing = os.getloadavg()[0], {"warm": options.warm, "steps": options.steps}
    places = {"run": str(folder / "run"), "ids": str(folder / "ids.npz")}
    prepare = {**places, "data": str(options.data), "settings": SETTINGS, "batches": options.warm + options.steps}
    data = child(OWN_PYTHON, "classifier_preparation", prepare, options.threads)
    note(f"{data['texts']:,} texts, {options.threads} threads\n{'':28}{'texts/s':>10}{'ms/update':>12}{'peak MiB':>10}")
    rounds = []
    for number in range(options.rounds):
        found = {}
        for place, (name, changes) in enumerate(OWN.items()):
            own = {**timing, **places, "out": str(folder / f"round-{number}-{place}"), "changes": changes}
            found[name] = child(OWN_PYTHON, "dikkat_classifier", own, options.threads)
        for name, variant in PEERS.items():
            found[name] = child(
                python, "huggingface_classifier", {**timing, **places, **data, **variant}, options.threads
            )
        rounds.append({name: result(each, found[OURS]["texts"], options.warm) for name, each in found.items()})
        note(f"round {number + 1}\n{table(rounds[-1])}")
    found = summary(rounds)
    note(f"medians\n{table(found['medians'])}")
    for name, ratios in found["ratios"].items():
        rounds_of = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        note(f"{name} / {found['faster_peer']}: {statistics.median(ratios):.2f} (rounds: {rounds_of})")
    versions = {**rounds[0][next(iter(PEERS))]["versions"], "python": platform.python_version()}
    head = {**provenance("classifier_speed"), "versions": versions, "setting": {**data, **SETTINGS}, **timing}
    return {**head, "threads": options.threads, "load_average_before": load, **found, "rounds": rounds}


def result(found: Measured, texts: list[int], warm: int) -> Measured:
    """Speed of the timed updates. Ends the script if the side did not train on the batches it was given."""
    if found["texts"] != texts:
        fail("the sides did not train on the same batches")
    if not all(math.isfinite(loss) for loss in found["losses"]):
        fail("a side did not train: its loss is not finite")
    return {
        "texts_per_second": sum(texts[warm:]) / sum(found["seconds"][warm:]),
        "seconds_per_update": statistics.median(found["seconds"][warm:]),
        **{name: found[name] for name in ("peak_bytes", "parameters", "versions")},
    }


def summary(rounds: list[Measured]) -> Measured:
    """Medians over the rounds, and the ratios to the fastest variant of the peer in each round."""
    figures = ("texts_per_second", "seconds_per_update", "peak_bytes")
    medians = {
        name: {figure: statistics.median(one[name][figure] for one in rounds) for figure in figures}
        for name in (*OWN, *PEERS)
    }
    peer = max(PEERS, key=lambda name: float(medians[name]["texts_per_second"]))
    ratios = {name: [one[name]["texts_per_second"] / one[peer]["texts_per_second"] for one in rounds] for name in OWN}
    return {"ratio": statistics.median(ratios[OURS]), "ratios": ratios, "faster_peer": peer, "medians": medians}


def table(found: Measured) -> str:
    return "\n".join(
        f"  {name:26}{each['texts_per_second']:>10,.1f}{1e3 * each['seconds_per_update']:>12,.1f}"
        f"{each['peak_bytes'] / 2**20:>10,.0f}"
        for name, each in found.items()
    )


if __name__ == "__main__":
    main()
