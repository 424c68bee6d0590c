"""Claim: how many target tokens a second dikkat trains, and how many times what Joey NMT and eole train.

Setting as in train_speed.py: multi30k en-de, joint BPE of 8,000 entries, 3+3 layers, D=256, F=1024, H=4, about 4,096
tokens a batch, dropout 0.1, label smoothing 0.1, the same number of threads. The peers get the same pieces and the same
vocabulary, but make their own batches in their own way, and their speed is what their own log says; both compute in
float32, the only type they have on a CPU. Each side runs in a fresh process; in each round all take their turn.

A table goes to standard error, one JSON line to standard output. Exit codes: 66 the data is not there, 1 a side failed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
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
from benchmarks.train_speed import MODEL, OURS, SETTINGS, TOKENS_PER_BATCH, TRAINING, training_files

RATE = 1e-3
"""Of learning: it has no part in the speed."""


@dataclass(frozen=True, slots=True)
class Toolkit:
    """A peer with a command of its own."""

    package: str
    command: tuple[str, ...]
    after: tuple[str, ...]
    """Arguments after the configuration."""
    pattern: str
    """Of the target tokens a second in its log."""
    settings: Callable[[Path, Path, int, int], Measured]
    """From the folder of the pieces, that of the model, the updates, and how many there are between two reports."""


def joeynmt(data: Path, out: Path, updates: int, interval: int) -> Measured:
    side = {"level": "word", "max_length": 512, "voc_file": str(data / "vocabulary.txt")}
    layers = {
        "type": "transformer",
        "num_heads": MODEL["num_heads"],
        "embeddings": {"embedding_dim": MODEL["model_dim"], "scale": True},
        "hidden_size": MODEL["model_dim"],
        "ff_size": MODEL["feed_forward_dim"],
        "dropout": MODEL["dropout"],
        "layer_norm": MODEL["norm_placement"],
    }
    return {
        "name": "train_peers",
        "model_dir": str(out),
        "use_cuda": False,
        "random_seed": 1,
        "data": {
            "train": str(data / "train"),
            "dev": str(data / "validation"),
            "dataset_type": "plain",
            "special_symbols": {
                f"{name}_{key}": value
                for place, name in enumerate(("unk", "pad", "bos", "eos"))  # it knows no other order
                for key, value in (("id", place), ("token", f"<{name}>"))
            },
            "src": {"lang": "en", **side},
            "trg": {"lang": "de", **side},
        },
        "testing": {"batch_size": TOKENS_PER_BATCH, "batch_type": "token"},
        "training": {
            "optimizer": "adamw",
            "scheduling": "warmupinversesquareroot",  # it has no constant rate
            "learning_rate": RATE,
            "learning_rate_min": 0.0,
            "adam_betas": [0.9, 0.98],
            "label_smoothing": TRAINING["label_smoothing"],
            "clip_grad_norm": TRAINING["clip_norm"],
            "normalization": "tokens",
            "batch_size": TOKENS_PER_BATCH,
            "batch_type": "token",
            "epochs": updates,
            "updates": updates,
            "logging_freq": interval,
            "validation_freq": 1000 * updates,
        },
        "model": {
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": {"num_layers": MODEL["encoder_layers"], **layers},
            "decoder": {"num_layers": MODEL["decoder_layers"], **layers},
        },
    }


def eole(data: Path, out: Path, updates: int, interval: int) -> Measured:
    vocabulary = str(data / "vocabulary.txt")
    return {
        "seed": 1,
        "share_vocab": True,
        "src_vocab": vocabulary,
        "tgt_vocab": vocabulary,
        **{f"{name}_token": f"<{name}>" for name in ("pad", "bos", "eos", "unk")},
        "decoder_start_token": "<bos>",
        "data": {"train": {"path_src": str(data / "train.en"), "path_tgt": str(data / "train.de"), "transforms": []}},
        "report_every": interval,
        "training": {
            "model_path": str(out),
            "compute_dtype": "fp32",
            "optim": "adamw",
            "learning_rate": RATE,
            "decay_method": "none",
            "warmup_steps": 0,
            "adam_beta2": 0.98,
            "label_smoothing": TRAINING["label_smoothing"],
            "max_grad_norm": TRAINING["clip_norm"],
            "dropout": [MODEL["dropout"]],
            "attention_dropout": [0.0],
            "normalization": "tokens",
            "batch_size": TOKENS_PER_BATCH,
            "batch_type": "tokens",
            "train_steps": updates,
            "valid_steps": 1000 * updates,
            "save_checkpoint_steps": 1000 * updates,
            "num_workers": 0,
            "log_attention_entropy": False,  # on by default, and a seventh slower
        },
        "model": {
            "architecture": "transformer",
            "layers": MODEL["encoder_layers"],
            "heads": MODEL["num_heads"],
            "hidden_size": MODEL["model_dim"],
            "transformer_ff": MODEL["feed_forward_dim"],
            "embeddings": {"word_vec_size": MODEL["model_dim"], "position_encoding_type": "SinusoidalInterleaved"},
            "share_embeddings": True,
            "share_decoder_embeddings": True,
            "generator_bias": False,
            "add_qkvbias": True,
            "add_final_linear_bias": True,
            "add_ffnbias": True,
        },
    }


TOOLKITS = {
    "joeynmt": Toolkit("joeynmt", ("joeynmt", "train"), ("--skip-test",), r"Tokens per Sec:\s*([\d.]+)", joeynmt),
    "eole": Toolkit("eole", ("eole.bin.main", "train", "--config"), (), r"[\d.]+/\s*([\d.]+) tok/s", eole),
}


def main() -> None:
    options = parse()
    require_files(training_files(options.data))
    pythons = {
        name: make_environment(getattr(options, f"env_{name}"), HERE / f"requirements-{name}.txt") for name in TOOLKITS
    }
    with tempfile.TemporaryDirectory(prefix="dikkat-train-peers-") as folder:
        print(json.dumps(measure(options, pythons, Path(folder)), ensure_ascii=False))


def parse() -> argparse.Namespace:
    known = parser(__doc__)
    known.add_argument("--rounds", type=int, default=3, help="times that each side runs")
    known.add_argument("--updates", type=int, default=10, help="updates in an interval")
    known.add_argument("--intervals", type=int, default=2, help="timed intervals in each run, after one that is not")
    known.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="threads of every side")
    known.add_argument("--data", type=Path, default=MULTI30K, help="folder of multi30k")
    for name in TOOLKITS:
        known.add_argument(
            f"--env-{name}", type=Path, default=HERE / f".venv-{name}", help=f"where {name} is installed"
        )
    options = known.parse_args()
    if min(options.rounds, options.updates, options.intervals, options.threads) < 1:
        known.error("--rounds, --updates, --intervals and --threads must be at least 1")
    return options


def measure(options: argparse.Namespace, pythons: dict[str, Path], folder: Path) -> Measured:
    """All rounds, and what they come to."""
    load, run, pieces = os.getloadavg()[0], folder / "run", folder / "pieces"
    pieces.mkdir()
    prepare = {"data": str(options.data), "run": str(run), "ids": str(folder / "ids.npz"), "batches": 1}
    data = child(OWN_PYTHON, "preparation", {**prepare, "settings": SETTINGS}, options.threads)
    child(OWN_PYTHON, "pieces", {"run": str(run), "out": str(pieces)}, options.threads)
    note(f"{data['pairs']:,} pairs, {options.threads} threads, {options.rounds} rounds of {1 + len(TOOLKITS)} sides")
    rounds: list[Measured] = []
    for number in range(options.rounds):
        rounds.append(one_round(options, pythons, folder, number))
        note(f"round {number + 1}\n{table(rounds[-1])}")
    medians = {
        name: {key: statistics.median(one[name][key] for one in rounds) for key in ("tokens_per_second", "peak_bytes")}
        for name in rounds[0]
    }
    ratios = {
        name: [one[OURS]["tokens_per_second"] / one[name]["tokens_per_second"] for one in rounds] for name in TOOLKITS
    }
    note(f"medians\n{table(medians)}\n" + "\n".join(conclusion(name, each) for name, each in ratios.items()))
    return {
        **provenance("train_peers"),
        "versions": {
            **{key: value for side in rounds[0].values() for key, value in side["versions"].items()},
            "python": platform.python_version(),
        },
        "setting": {**SETTINGS, "pairs": data["pairs"], "vocab_size": data["vocab_size"]},
        "threads": options.threads,
        "updates": options.updates,
        "intervals": options.intervals,
        "load_average_before": load,
        "ratios": {name: statistics.median(each) for name, each in ratios.items()},
        "ratios_of_rounds": ratios,
        "medians": medians,
        "rounds": rounds,
    }


def one_round(options: argparse.Namespace, pythons: dict[str, Path], folder: Path, number: int) -> Measured:
    """Ours and theirs. The first interval of each run is left out: it warms up."""
    steps = options.updates * options.intervals
    own = {"run": str(folder / "run"), "out": str(folder / f"dikkat-{number}"), "warm": options.updates, "steps": steps}
    ours = child(OWN_PYTHON, "dikkat_training", own, options.threads)
    speed = sum(ours["target_tokens"][options.updates :]) / sum(ours["seconds"][options.updates :])
    found = {OURS: {**{key: ours[key] for key in ("peak_bytes", "versions", "dtype")}, "tokens_per_second": speed}}
    for name, toolkit in TOOLKITS.items():
        out = folder / f"{name}-{number}"
        job = {
            "package": toolkit.package,
            "command": toolkit.command,
            "after": toolkit.after,
            "pattern": toolkit.pattern,
            "configuration": str(folder / f"{name}-{number}.yaml"),
            "settings": toolkit.settings(folder / "pieces", out, steps + options.updates, options.updates),
        }
        theirs = child(pythons[name], "toolkit_training", job, options.threads)
        intervals = theirs["tokens_per_second"][1:]
        if len(intervals) != options.intervals:
            fail(f"{name} logged {len(intervals)} intervals after the first, not {options.intervals}")
        found[name] = {**theirs, "intervals": intervals, "tokens_per_second": statistics.harmonic_mean(intervals)}
    return found


def table(found: Measured) -> str:
    lines = [f"  {'':12}{'target tok/s':>14}{'peak MiB':>10}"]
    for name, each in found.items():
        lines.append(f"  {name:12}{each['tokens_per_second']:>14,.0f}{each['peak_bytes'] / 2**20:>10,.0f}")
    return "\n".join(lines)


def conclusion(name: str, ratios: list[float]) -> str:
    rounds = ", ".join(f"{ratio:.2f}" for ratio in ratios)
    return f"dikkat / {name}: {statistics.median(ratios):.2f} (rounds: {rounds})"


if __name__ == "__main__":
    main()
