"""Claim: on Shakespeare's characters dikkat trains nanoGPT's recipe for a CPU in less time than nanoGPT's own script.

Setting: 4 layers, 4 heads, D=128, context 64, no dropout, 2,000 updates of 12 x 64 characters. Each side is started as
its user would start it, `dikkat train lm --preset nanogpt_cpu` and `train.py` with the options of nanoGPT's README, in
turn, in fresh processes with the same number of threads. The clock runs from the start of a process to its end; it
includes the preparation of the text on our side alone, since theirs is a script of its own. The loss is the best that a
side says of itself, on the same held-out tenth: we take all of it, nanoGPT a sample of 20 batches.

nanoGPT's code is not part of this project: name a clone of it with --nanogpt; nothing is written into it. A table goes
to standard error, one JSON line to standard output. Exit codes: 66 the data or the clone is not there, 1 a side failed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import pickle
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

# a script has its own folder on the path, and the benchmarks are a package of the one above
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import OWN_PYTHON, ROOT, Measured, fail, note, parser, provenance, require_files

OPTIONS = (
    "--device=cpu --compile=False --eval_iters=20 --log_interval=100 --block_size=64 --batch_size=12 --n_layer=4"
    " --n_head=4 --n_embd=128 --max_iters=2000 --lr_decay_iters=2000 --dropout=0.0"
)
"""Those of nanoGPT's README for a CPU; every hundredth loss is printed instead of every one."""
SCRIPTS = ("train.py", "model.py", "configurator.py", "config/train_shakespeare_char.py")
VALIDATION = re.compile(r"val loss (\d+\.\d+)")
OURS, PEER = "dikkat", "nanoGPT"
Command = list[str | Path]


def main() -> None:
    options = parse()
    require_files([options.data, *(options.nanogpt / name for name in SCRIPTS)], "see --data and --nanogpt")
    with tempfile.TemporaryDirectory(prefix="dikkat-lm-speed-") as folder:
        print(json.dumps(measure(options, Path(folder)), ensure_ascii=False))


def parse() -> argparse.Namespace:
    known = parser(__doc__)
    known.add_argument("--nanogpt", type=Path, required=True, help="a clone of karpathy/nanoGPT")
    known.add_argument("--rounds", type=int, default=3, help="times that each side runs")
    known.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="threads of either side")
    default = ROOT.parent / "shared/data/shakespeare/input.txt.gz"
    known.add_argument("--data", type=Path, default=default, help="the text, plain or .gz")
    known.add_argument("--set", action="append", default=[], help="settings of dikkat's run, to try the script")
    options: argparse.Namespace = known.parse_args()
    if min(options.rounds, options.threads) < 1:
        known.error("--rounds and --threads must be at least 1")
    return options


def measure(options: argparse.Namespace, folder: Path) -> Measured:
    """All rounds, and what they come to."""
    load = os.getloadavg()[0]
    peer = lay_out(options, folder / "nanogpt")
    note(f"{options.threads} threads\n{'':18}{'seconds':>10}{'loss':>10}")
    rounds = []
    for number in range(options.rounds):
        found = {OURS: ours(options, folder / f"round-{number}"), PEER: theirs(options, peer)}
        note("\n".join([f"round {number + 1}", *(row(name, found[name]) for name in found)]))
        rounds.append(found)
    ratios = [each[PEER]["seconds"] / each[OURS]["seconds"] for each in rounds]
    note(f"{PEER} / {OURS}: {statistics.median(ratios):.2f} times the seconds")
    return {
        **provenance("lm_speed"),
        "threads": options.threads,
        "load_average_before": load,
        "options_of_nanogpt": OPTIONS,
        "changed_settings": options.set,
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "medians": {
            name: {key: statistics.median(each[name][key] for each in rounds) for key in ("seconds", "loss")}
            for name in (OURS, PEER)
        },
        "rounds": rounds,
    }


def lay_out(options: argparse.Namespace, folder: Path) -> Path:
    """A copy of nanoGPT's scripts, and the data as they read it: sorted characters, the last tenth apart."""
    for name in SCRIPTS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(options.nanogpt / name, folder / name)
    raw = gzip.decompress(options.data.read_bytes()) if options.data.suffix == ".gz" else options.data.read_bytes()
    text = raw.decode("utf-8")
    numbers = {character: number for number, character in enumerate(sorted(set(text)))}
    ids = np.array([numbers[character] for character in text], np.uint16)
    data, cut = folder / "data/shakespeare_char", int(len(text) * 0.9)
    data.mkdir(parents=True)
    ids[:cut].tofile(data / "train.bin")
    ids[cut:].tofile(data / "val.bin")
    (data / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": len(numbers)}))
    return folder


def ours(options: argparse.Namespace, out: Path) -> Measured:
    command: Command = [
        OWN_PYTHON,
        "-m",
        "dikkat",
        "train",
        "lm",
        options.data,
        "--out",
        out,
        "--preset",
        "nanogpt_cpu",
        *(word for setting in options.set for word in ("--set", setting)),
    ]
    seconds, _ = timed(command, ROOT, options.threads, {"PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'runtime/src'}"})
    rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
    return {"seconds": seconds, "loss": min(each["valid_loss"] for each in rows), "updates": rows[-1]["step"]}


def theirs(options: argparse.Namespace, folder: Path) -> Measured:
    command: Command = [OWN_PYTHON, "train.py", "config/train_shakespeare_char.py", *OPTIONS.split()]
    seconds, told = timed(command, folder, options.threads, {})
    return {"seconds": seconds, "loss": min(map(float, VALIDATION.findall(told)))}


def timed(command: Command, where: Path, threads: int, variables: dict[str, str]) -> tuple[float, str]:
    """Seconds of a process from its start to its end, and its standard output."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), **variables}
    started = time.perf_counter()
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - started
    if done.returncode:
        fail(f"{command[1]} ended with exit code {done.returncode}: {done.stderr[-2000:]}")
    return seconds, done.stdout


def row(name: str, found: Measured) -> str:
    return f"  {name:16}{found['seconds']:>10.1f}{found['loss']:>10.4f}"


if __name__ == "__main__":
    main()
