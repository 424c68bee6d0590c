"""Claim: how many target tokens a second dikkat trains, and how many times what a Hugging Face MarianMT loop trains.

Setting: multi30k en-de, joint BPE of 8,000 entries, 3+3 layers, D=256, F=1024, H=4, batches of at most 4,096 padded
tokens, dropout 0.1, label smoothing 0.1. Both sides get the same batches of ids, the same number of threads and the
same PyTorch; they run in turn, each time in a fresh process. The peer runs in float32 and under bfloat16 autocast, and
the faster of the two is what dikkat is compared with. In the same rounds the rate of the bare matrix products is taken.

A table goes to standard error, one JSON line to standard output. Exit codes: 66 the data is not there, 1 a side failed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
REQUIREMENTS = HERE / "requirements.txt"
TOKENS_PER_BATCH = 4096
EXIT_MISSING_INPUT = 66

WIDTH, HIDDEN, LAYERS = 256, 1024, 3

MODEL = {
    "model_dim": WIDTH,
    "feed_forward_dim": HIDDEN,
    "num_heads": 4,
    "encoder_layers": LAYERS,
    "decoder_layers": LAYERS,
    "dropout": 0.1,
    "activation": "relu",
    "norm_placement": "post",  # Marian has no other
}
TRAINING = {"tokens_per_batch": TOKENS_PER_BATCH, "label_smoothing": 0.1, "clip_norm": 1.0, "optimizer": "adamw"}
SETTINGS = {"model": MODEL, "tokenizer": {"kind": "bpe", "vocab_size": 8000}, "training": TRAINING}
OURS = "dikkat"
PEERS = {"huggingface float32": "float32", "huggingface bfloat16": "bfloat16"}
Measured = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Product:
    """A linear layer, and how often a source and a target token pass through one of this shape."""

    inputs: int
    outputs: int
    on_source: int
    on_target: int

    def flop(self, source_tokens: int, target_tokens: int) -> float:
        """Six a weight and token: a multiplication and an addition, forward and for two gradients."""
        return 6.0 * self.inputs * self.outputs * (self.on_source * source_tokens + self.on_target * target_tokens)


def products(vocab_size: int) -> list[Product]:
    """All linear layers of the model; attention scores and padding are not counted as work."""
    return [
        Product(WIDTH, 3 * WIDTH, LAYERS, LAYERS),  # query, key and value of self-attention
        Product(WIDTH, 2 * WIDTH, LAYERS, 0),  # key and value of cross-attention
        Product(WIDTH, WIDTH, LAYERS, 3 * LAYERS),  # outputs of attention, query of cross-attention
        Product(WIDTH, HIDDEN, LAYERS, LAYERS),
        Product(HIDDEN, WIDTH, LAYERS, LAYERS),
        Product(WIDTH, vocab_size, 0, 1),
    ]


def main() -> None:
    options = parse()
    if missing := [path for path in training_files(options.data) if not path.exists()]:
        fail(
            f"{missing[0]}: not there, so nothing was measured; name the folder of multi30k with --data",
            EXIT_MISSING_INPUT,
        )
    peer_python = make_environment(options.env)
    with tempfile.TemporaryDirectory(prefix="dikkat-train-speed-") as folder:
        print(json.dumps(measure(options, peer_python, Path(folder)), ensure_ascii=False))


def parse() -> argparse.Namespace:
    first, _, rest = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=first, epilog=rest, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="times that each side runs")
    parser.add_argument("--warm", type=int, default=12, help="updates before the clock starts, in each run")
    parser.add_argument("--steps", type=int, default=20, help="timed updates, in each run")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="threads of either side")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared/data/multi30k", help="folder of multi30k")
    parser.add_argument("--env", type=Path, default=HERE / ".venv-huggingface", help="where the peer is installed")
    options = parser.parse_args()
    if min(options.rounds, options.steps, options.threads) < 1 or options.warm < 0:
        parser.error("--rounds, --steps and --threads must be at least 1, --warm at least 0")
    return options


def training_files(data: Path) -> list[Path]:
    return [data / f"{part}.{side}.gz" for part in ("train", "val") for side in ("en", "de")]


def fail(message: str, code: int = 1) -> NoReturn:
    print(f"train_speed: {message}", file=sys.stderr)
    sys.exit(code)


def make_environment(folder: Path) -> Path:
    """The Python of an environment with what requirements.txt pins; made once, and again when the pins change."""
    python, done = folder / "bin/python", folder / "installed.txt"
    wanted = REQUIREMENTS.read_text(encoding="utf-8")
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return python
    note(f"installing the peer in {folder} …")
    venv.create(folder, with_pip=True, symlinks=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    install = [str(python), "-m", "pip", "install", "--quiet", "--requirement", str(REQUIREMENTS)]
    if subprocess.run(install, stdout=sys.stderr, check=False).returncode:
        fail(f"{folder}: the peer could not be installed; see pip's message above")
    done.write_text(wanted, encoding="utf-8")
    return python


def measure(options: argparse.Namespace, peer_python: Path, folder: Path) -> dict[str, Any]:
    """All rounds, and what they come to."""
    run, ids, load = folder / "run", folder / "ids.npz", os.getloadavg()[0]
    count = options.warm + options.steps
    prepare = {"data": str(options.data), "run": str(run), "ids": str(ids), "batches": count, "settings": SETTINGS}
    data = child(Path(sys.executable), "preparation", prepare, options.threads)
    note(describe(options, data))
    rounds = []
    for number in range(options.rounds):
        rounds.append(one_round(options, peer_python, folder, data, number))
        note(table(number, rounds[-1]))
    found = summary(rounds)
    note(conclusion(found))
    return {**context(options, data, rounds), "load_average_before": load, **found, "rounds": rounds}


def one_round(
    options: argparse.Namespace, peer_python: Path, folder: Path, data: Measured, number: int
) -> dict[str, Measured]:
    """Ours, theirs in both types, and the roof."""
    timing = {"warm": options.warm, "steps": options.steps, "threads": options.threads}
    own = {**timing, "run": str(folder / "run"), "out": str(folder / f"round-{number}")}
    shape = {**MODEL, "vocab_size": data["vocab_size"]}
    theirs = {**timing, "ids": str(folder / "ids.npz"), "model": shape, **TRAINING}
    layers = products(data["vocab_size"])
    rows = {"rows": TOKENS_PER_BATCH, "shapes": [(layer.inputs, layer.outputs) for layer in layers], "repeats": 7}
    found = {OURS: child(Path(sys.executable), "dikkat_training", own, options.threads)}
    for name, dtype in PEERS.items():
        found[name] = child(peer_python, "huggingface_training", {**theirs, "dtype": dtype}, options.threads)
    rates = child(Path(sys.executable), "matrix_products", {**rows, "threads": options.threads}, options.threads)
    return {name: result(found[name], data, options.warm, rates) for name in found} | {"roof": roof(rates, data)}


def child(python: Path, side: str, job: dict[str, Any], threads: int) -> Measured:
    """Run one side in a process of its own; its last line of output is what it found."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONPATH", None)
    if python == Path(sys.executable):
        environment["PYTHONPATH"] = str(ROOT / "src")
    command = [str(python), str(HERE / "sides" / f"{side}.py"), json.dumps({**job, "threads": threads})]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        fail(f"{side} ended with exit code {done.returncode}; see its message above")
    found: Measured = json.loads(done.stdout.rstrip("\n").rpartition("\n")[2])
    return found


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
        "share_of_roof": fastest / seconds,
        **{key: found[key] for key in ("dtype", "attention", "parameters", "versions") if key in found},
    }


def work(data: Measured, warm: int, rates: list[float]) -> tuple[float, float]:
    """FLOP of the timed updates, and the seconds that they would take if only matrix products took time."""
    source, target = sum(data["source_tokens"][warm:]), sum(data["target_tokens"][warm:])
    flops = [layer.flop(source, target) for layer in products(data["vocab_size"])]
    return sum(flops), sum(flop / rate for flop, rate in zip(flops, rates, strict=True))


def roof(rates: Measured, data: Measured) -> Measured:
    """For both types: FLOP/s over all products of an update, the target tokens a second it allows, each shape."""
    shapes = [f"{TOKENS_PER_BATCH}x{layer.inputs}x{layer.outputs}" for layer in products(data["vocab_size"])]
    found: Measured = {}
    for dtype, each in rates.items():
        flop, seconds = work(data, 0, each)
        found[dtype] = {
            "flop_per_second": flop / seconds,
            "tokens_per_second": sum(data["target_tokens"]) / seconds,
            "shapes": dict(zip(shapes, each, strict=True)),
        }
    return found


def summary(rounds: list[dict[str, Measured]]) -> dict[str, Any]:
    """Medians over the rounds, and the ratio to the faster peer in each round."""
    medians = {
        name: {
            key: statistics.median(one[name][key] for one in rounds)
            for key in ("tokens_per_second", "seconds_per_update", "flop_per_second", "share_of_roof")
        }
        for name in (OURS, *PEERS)
    }
    peer = max(PEERS, key=lambda name: medians[name]["tokens_per_second"])
    ratios = [one[OURS]["tokens_per_second"] / one[peer]["tokens_per_second"] for one in rounds]
    roofs = {
        dtype: statistics.median(one["roof"][dtype]["flop_per_second"] for one in rounds) for dtype in PEERS.values()
    }
    return {
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "faster_peer": peer,
        "medians": medians,
        "roof_flop_per_second": roofs,
    }


def context(options: argparse.Namespace, data: Measured, rounds: list[dict[str, Measured]]) -> dict[str, Any]:
    """What a reader needs in order to judge the numbers."""
    versions = {**rounds[0][OURS]["versions"], **rounds[0][next(iter(PEERS))]["versions"]}
    return {
        "claim": "train_speed",
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "commit": git("describe", "--always", "--dirty"),
        "machine": machine(),
        "versions": {**versions, "python": platform.python_version()},
        "setting": {**SETTINGS, "pairs": data["pairs"], "vocab_size": data["vocab_size"]},
        "threads": options.threads,
        "warm": options.warm,
        "steps": options.steps,
        "target_tokens_per_update": sum(data["target_tokens"]) / len(data["target_tokens"]),
        "flop_formula": "6 x weights of the linear layers x tokens through each; attention scores, padding not counted",
    }


def machine() -> dict[str, Any]:
    """Processor and system."""
    names = [line for line in read_or_empty("/proc/cpuinfo").split("\n") if line.startswith("model name")]
    kinds = {"amx_bf16", "avx512_bf16", "avx512f", "avx2"} & set(read_or_empty("/proc/cpuinfo").split())
    return {
        "processor": names[0].partition(":")[2].strip() if names else platform.processor(),
        "flags": sorted(kinds),
        "cores": os.cpu_count(),
        "system": platform.platform(),
    }


def read_or_empty(path: str) -> str:
    return Path(path).read_text(encoding="utf-8") if Path(path).exists() else ""


def git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def describe(options: argparse.Namespace, data: Measured) -> str:
    mean = sum(data["target_tokens"]) / len(data["target_tokens"])
    return (
        f"multi30k en-de, {data['pairs']:,} pairs, vocabulary {data['vocab_size']:,}, {mean:,.0f} target tokens each\n"
        f"{options.threads} threads, {options.rounds} rounds of {options.warm} warm and {options.steps} timed updates\n"
        f"{'':24}{'target tok/s':>14}{'ms/update':>12}{'TFLOP/s':>10}{'of the roof':>13}"
    )


def table(number: int, found: dict[str, Measured]) -> str:
    lines = [f"round {number + 1}", *(row(name, found[name]) for name in (OURS, *PEERS))]
    for dtype, each in found["roof"].items():
        rate, tokens = each["flop_per_second"] / 1e12, each["tokens_per_second"]
        lines.append(f"  {'matrix products ' + dtype:26}{tokens:>10,.0f}{'':12}{rate:>10.3f}")
    return "\n".join(lines)


def row(name: str, found: Measured) -> str:
    tokens, milliseconds = found["tokens_per_second"], 1e3 * found["seconds_per_update"]
    rate, share = found["flop_per_second"] / 1e12, found["share_of_roof"]
    return f"  {name:26}{tokens:>10,.0f}{milliseconds:>12,.1f}{rate:>10.3f}{share:>13.1%}"


def conclusion(found: dict[str, Any]) -> str:
    ratios = ", ".join(f"{ratio:.2f}" for ratio in found["ratios"])
    medians = "\n".join(row(name, found["medians"][name]) for name in (OURS, *PEERS))
    return f"medians\n{medians}\ndikkat / {found['faster_peer']}: {found['ratio']:.2f} (rounds: {ratios})"


if __name__ == "__main__":
    main()
