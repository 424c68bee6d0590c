"""Claim: how many target tokens a second dikkat trains, and how many times what a Hugging Face MarianMT loop trains.

Setting: multi30k en-de, joint BPE of 8,000 entries, 3+3 layers, D=256, F=1024, H=4, batches of at most 4,096 padded
tokens, dropout 0.1, label smoothing 0.1; with --size large 6+6 layers, D=512, F=2048, H=8. Both sides get the same
batches of ids, the same number of threads and the same PyTorch; they run in turn, each time in a fresh process. The
peer runs in float32 and under bfloat16 autocast, with its default attention (sdpa) and with eager attention, or in
those of these four that `--peers` names; dikkat is compared with the fastest. The highest resident memory of each side
is taken, and in the same rounds the rate of the bare matrix products. A share of peak is one of the products in the
type of the weights that are computed with, bfloat16 or float32, also where dikkat multiplies in eight bits.

A table goes to standard error, one JSON line to standard output. Exit codes: 66 the data is not there, 1 a side failed.
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
    MULTI30K,
    OWN_PYTHON,
    Measured,
    child,
    fail,
    make_environment,
    note,
    parser,
    provenance,
    require_files,
)
from benchmarks.peak_throughput import linear_layers, measure_products

REQUIREMENTS = HERE / "requirements.txt"
TOKENS_PER_BATCH = 4096

MODEL = {
    "model_dim": 256,
    "feed_forward_dim": 1024,
    "num_heads": 4,
    "encoder_layers": 3,
    "decoder_layers": 3,
    "dropout": 0.1,
    "activation": "relu",
    "norm_placement": "post",  # Marian has no other
}
TRAINING = {"tokens_per_batch": TOKENS_PER_BATCH, "label_smoothing": 0.1, "clip_norm": 1.0, "optimizer": "adamw"}
LARGE = {
    "model_dim": 512,
    "feed_forward_dim": 2048,
    "num_heads": 8,
    "encoder_layers": 6,
    "decoder_layers": 6,
}
TINY = {"model_dim": 32, "feed_forward_dim": 64, "num_heads": 2, "encoder_layers": 1, "decoder_layers": 1}
"""Worth no measurement: to see whether all sides run."""
SIZES: dict[str, Measured] = {"tiny": {**MODEL, **TINY}, "small": MODEL, "large": {**MODEL, **LARGE}}
SETTINGS = {"model": MODEL, "tokenizer": {"kind": "bpe", "vocab_size": 8000}, "training": TRAINING}
OURS = "dikkat"
PEERS = {
    "huggingface float32": {"dtype": "float32", "attention": "sdpa"},
    "huggingface bfloat16": {"dtype": "bfloat16", "attention": "sdpa"},
    "huggingface float32 eager": {"dtype": "float32", "attention": "eager"},
    "huggingface bfloat16 eager": {"dtype": "bfloat16", "attention": "eager"},
}
FIGURES = ("tokens_per_second", "seconds_per_update", "flop_per_second", "share_of_peak", "peak_bytes")
KEPT = ("peak_bytes", "dtype", "precision", "attention", "parameters", "versions")
"""What is passed on of a side as it is."""
FLOP_PER_WEIGHT = 6
"""For each token: a multiplication and an addition, forward and for two gradients."""


def main() -> None:
    options = parse()
    require_files(training_files(options.data))
    peer_python = make_environment(options.env, REQUIREMENTS)
    with tempfile.TemporaryDirectory(prefix="dikkat-train-speed-") as folder:
        print(json.dumps(measure(options, peer_python, Path(folder)), ensure_ascii=False))


def parse() -> argparse.Namespace:
    known = parser(__doc__)
    known.add_argument("--rounds", type=int, default=3, help="times that each side runs")
    known.add_argument("--warm", type=int, default=12, help="updates before the clock starts, in each run")
    known.add_argument("--steps", type=int, default=20, help="timed updates, in each run")
    known.add_argument("--size", choices=SIZES, default="small", help="of the model")
    known.add_argument("--tokens", type=int, default=TOKENS_PER_BATCH, help="most padded tokens of a batch")
    known.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="threads of either side")
    known.add_argument("--data", type=Path, default=MULTI30K, help="folder of multi30k")
    known.add_argument("--env", type=Path, default=HERE / ".venv-huggingface", help="where the peer is installed")
    known.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS), help="its forms; all if absent")
    options = known.parse_args()
    if not options.peers:
        known.error("--peers needs one form of the peer at least")
    if min(options.rounds, options.steps, options.tokens, options.threads) < 1 or options.warm < 0:
        known.error("--rounds, --steps, --tokens and --threads must be at least 1, --warm at least 0")
    return options


def settings_of(options: argparse.Namespace) -> Measured:
    """The settings of dikkat's run."""
    training = {**TRAINING, "tokens_per_batch": options.tokens}
    return {**SETTINGS, "model": SIZES[options.size], "training": training}


def training_files(data: Path) -> list[Path]:
    return [data / f"{part}.{side}.gz" for part in ("train", "val") for side in ("en", "de")]


def measure(options: argparse.Namespace, peer_python: Path, folder: Path) -> Measured:
    """All rounds, and what they come to."""
    run, ids, load = folder / "run", folder / "ids.npz", os.getloadavg()[0]
    count = options.warm + options.steps
    settings = settings_of(options)
    prepare = {"data": str(options.data), "run": str(run), "ids": str(ids), "batches": count, "settings": settings}
    data = child(OWN_PYTHON, "preparation", prepare, options.threads)
    data["shape"] = {**SIZES[options.size], "vocab_size": data["vocab_size"]}
    note(describe(options, data))
    rounds = []
    for number in range(options.rounds):
        rounds.append(one_round(options, peer_python, folder, data, number))
        note(table(number, rounds[-1]))
    found = summary(rounds)
    note(conclusion(found))
    return {**context(options, data, rounds), "load_average_before": load, **found, "rounds": rounds}


def one_round(options: argparse.Namespace, peer_python: Path, folder: Path, data: Measured, number: int) -> Measured:
    """Ours, theirs in the forms that were asked for, and the peak throughput."""
    timing = {"warm": options.warm, "steps": options.steps}
    own = {**timing, "run": str(folder / "run"), "out": str(folder / f"round-{number}")}
    shape = data["shape"]
    theirs = {**timing, "ids": str(folder / "ids.npz"), "model": shape, **TRAINING}
    found = {OURS: child(OWN_PYTHON, "dikkat_training", own, options.threads)}
    for name in options.peers:
        found[name] = child(peer_python, "huggingface_training", {**theirs, **PEERS[name]}, options.threads)
    products = [(options.tokens, layer) for layer in linear_layers(shape)]
    measured = measure_products(products, options.threads, backward=True)
    rates = measured["rates"]
    return {
        **{name: result(found[name], data, options.warm, rates) for name in found},
        "peak": peak_throughput(rates, data, options.tokens),
        "copy_bytes_per_second": measured["copy_bytes_per_second"],
    }


def result(found: Measured, data: Measured, warm: int, rates: Measured) -> Measured:
    """Speed of the timed updates of one run. Ends the script if the side did not train on the batches it was given."""
    if found["target_tokens"] != data["target_tokens"]:
        fail("the two sides did not train on the same batches")
    if not all(math.isfinite(loss) for loss in found["losses"]):
        fail("a side did not train: its loss is not finite")
    seconds, tokens = sum(found["seconds"][warm:]), sum(found["target_tokens"][warm:])
    flop, fastest = work(data, warm, rates[found["dtype"]])
    return {
        "tokens_per_second": tokens / seconds,
        "seconds_per_update": statistics.median(found["seconds"][warm:]),
        "flop_per_second": flop / seconds,
        "share_of_peak": fastest / seconds,
        **{key: found[key] for key in KEPT if key in found},
    }


def work(data: Measured, warm: int, rates: list[float]) -> tuple[float, float]:
    """FLOP of the timed updates, and the seconds that they would take if only matrix products took time."""
    source, target = sum(data["source_tokens"][warm:]), sum(data["target_tokens"][warm:])
    layers = linear_layers(data["shape"])
    flops = [FLOP_PER_WEIGHT * layer.products(source, target) for layer in layers]
    return sum(flops), sum(flop / rate for flop, rate in zip(flops, rates, strict=True))


def peak_throughput(rates: Measured, data: Measured, rows: int) -> Measured:
    """For both types: FLOP/s over all products of an update, the target tokens a second it allows, each shape."""
    layers = linear_layers(data["shape"])
    shapes = [f"{rows}x{layer.inputs}x{layer.outputs}" for layer in layers]
    found: Measured = {}
    for dtype, each in rates.items():
        flop, seconds = work(data, 0, each)
        found[dtype] = {
            "flop_per_second": flop / seconds,
            "tokens_per_second": sum(data["target_tokens"]) / seconds,
            "shapes": dict(zip(shapes, each, strict=True)),
        }
    return found


def peers_of(rounds: list[Measured]) -> list[str]:
    """The forms of the peer that ran."""
    return [name for name in PEERS if name in rounds[0]]


def summary(rounds: list[Measured]) -> Measured:
    """Medians over the rounds, and the ratios to the fastest variant of the peer in each round."""
    peers = peers_of(rounds)
    medians = {
        name: {key: statistics.median(one[name][key] for one in rounds) for key in FIGURES} for name in (OURS, *peers)
    }
    peer = max(peers, key=lambda name: medians[name]["tokens_per_second"])
    ratios = [one[OURS]["tokens_per_second"] / one[peer]["tokens_per_second"] for one in rounds]
    return {
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "memory_ratio": statistics.median(one[OURS]["peak_bytes"] / one[peer]["peak_bytes"] for one in rounds),
        "faster_peer": peer,
        "medians": medians,
        "peak_flop_per_second": {
            dtype: statistics.median(one["peak"][dtype]["flop_per_second"] for one in rounds)
            for dtype in rounds[0]["peak"]
        },
        "copy_bytes_per_second": statistics.median(one["copy_bytes_per_second"] for one in rounds),
    }


def context(options: argparse.Namespace, data: Measured, rounds: list[Measured]) -> Measured:
    """What a reader needs in order to judge the numbers."""
    versions = {**rounds[0][OURS]["versions"], **rounds[0][peers_of(rounds)[0]]["versions"]}
    return {
        **provenance("train_speed"),
        "versions": {**versions, "python": platform.python_version()},
        "setting": {
            **settings_of(options),
            "model": data["shape"],
            "pairs": data["pairs"],
            "vocab_size": data["vocab_size"],
        },
        "threads": options.threads,
        "warm": options.warm,
        "steps": options.steps,
        "target_tokens_per_update": sum(data["target_tokens"]) / len(data["target_tokens"]),
        "peak_bytes": "highest resident size of a side's process (VmHWM), libraries included",
        "flop_formula": "6 x weights of the linear layers x tokens through each; attention scores, padding not counted",
    }


def describe(options: argparse.Namespace, data: Measured) -> str:
    mean = sum(data["target_tokens"]) / len(data["target_tokens"])
    return (
        f"multi30k en-de, {data['pairs']:,} pairs, vocabulary {data['vocab_size']:,}, {mean:,.0f} target tokens each\n"
        f"{options.threads} threads, {options.rounds} rounds of {options.warm} warm and {options.steps} timed updates\n"
        f"{'':26}{'target tok/s':>14}{'ms/update':>12}{'TFLOP/s':>10}{'of peak':>13}{'peak MiB':>10}"
    )


def table(number: int, found: Measured) -> str:
    lines = [f"round {number + 1}", *(row(name, found[name]) for name in (OURS, *peers_of([found])))]
    for dtype, each in found["peak"].items():
        rate, tokens = each["flop_per_second"] / 1e12, each["tokens_per_second"]
        lines.append(f"  {'matrix products ' + dtype:28}{tokens:>10,.0f}{'':12}{rate:>10.3f}")
    lines.append(f"  {'copy in memory':28}{found['copy_bytes_per_second'] / 1e9:>10,.1f} GB/s")
    return "\n".join(lines)


def row(name: str, found: Measured) -> str:
    tokens, milliseconds = found["tokens_per_second"], 1e3 * found["seconds_per_update"]
    rate, share = found["flop_per_second"] / 1e12, found["share_of_peak"]
    peak = found["peak_bytes"] / 2**20
    return f"  {name:28}{tokens:>10,.0f}{milliseconds:>12,.1f}{rate:>10.3f}{share:>13.1%}{peak:>10,.0f}"


def conclusion(found: Measured) -> str:
    ratios = ", ".join(f"{ratio:.2f}" for ratio in found["ratios"])
    medians = "\n".join(row(name, each) for name, each in found["medians"].items())
    peer = found["faster_peer"]
    speed = f"dikkat / {peer}: {found['ratio']:.2f} (rounds: {ratios}); memory: {found['memory_ratio']:.2f}"
    return f"medians\n{medians}\n{speed}"


if __name__ == "__main__":
    main()
