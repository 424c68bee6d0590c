"""Claim: a training whose ranks die at random goes on by itself, ends with the weights of the undisturbed one, and is
late by what the formula says.

Setting: `dikkat train translator` on random pairs with two ranks and `--max-restarts`; in one run nothing happens, in
the other a random rank gets SIGKILL after times drawn from an exponential distribution. A failure costs the start of
the ranks and, of the work since the last checkpoint, half an interval in the mean (Young 1974): with F failures, a
start of S and intervals of I seconds the run is late by F (S + I / 2).

Two rows go to standard error, one JSON line to standard output. Exit code 1: a run failed, or the weights differ.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

# a script has its own folder on the path, and the benchmarks are a package of the one above
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import OWN_PYTHON, ROOT, Measured, fail, note, parser, provenance

WORDS = [first + second for first in ("ka", "le", "mi", "no", "su", "ta") for second in ("ra", "ni", "lo", "ku", "me")]


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--updates", type=int, default=240, help="updates of a run")
    options.add_argument("--checkpoints", type=int, default=12, help="validations of a run, each with a checkpoint")
    options.add_argument("--mean", type=float, default=25.0, help="seconds between two failures, in the mean")
    options.add_argument("--seed", type=int, default=1, help="of the moments and of the ranks that are killed")
    chosen = options.parse_args()
    if min(chosen.updates, chosen.checkpoints, chosen.mean) <= 0:
        options.error("every number must be above 0")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        draw = random.Random(3)
        lines = [[draw.choice(WORDS) for _ in range(draw.randint(3, 10))] for _ in range(2_000)]
        rows = "".join(f"{' '.join(words)}\t{' '.join(reversed(words))}\n" for words in lines)
        (folder / "pairs.tsv").write_text(rows, encoding="utf-8")
        settings = {"max_updates": chosen.updates, "validations": chosen.checkpoints, "patience": 10_000}
        undisturbed = train(folder, "undisturbed", settings, None)
        disturbed = train(folder, "disturbed", settings, (chosen.mean, random.Random(chosen.seed)))
    interval = (undisturbed["seconds"] - undisturbed["start"]) / chosen.checkpoints
    late = disturbed["failures"] * (undisturbed["start"] + interval / 2)
    note(f"undisturbed: {undisturbed['seconds']:.0f} s, of them {undisturbed['start']:.0f} s to start")
    note(
        f"{disturbed['failures']} failures: {disturbed['seconds']:.0f} s,"
        f" {disturbed['seconds'] - undisturbed['seconds']:.0f} s late; by the formula {late:.0f} s"
    )
    if undisturbed["weights"] != disturbed["weights"]:
        fail("the weights differ")
    result = {"undisturbed": undisturbed, "disturbed": disturbed, "late_by_formula": late}
    print(json.dumps({**provenance("restarts of ranks that die at random"), "options": vars(chosen), **result}))


def train(folder: Path, name: str, settings: dict[str, int], failures: tuple[float, random.Random] | None) -> Measured:
    """Train by two ranks, and kill one of them now and then; returns the seconds, the kills and the weights' sum."""
    words = [f"--set=training.{key}={value}" for key, value in settings.items()]
    paths = os.pathsep.join(str(ROOT / part) for part in ("src", "runtime/src"))
    command = [str(OWN_PYTHON), "-m", "dikkat", "train", "translator", "pairs.tsv", "--out", name, "--preset", "tiny"]
    began = time.monotonic()
    process = subprocess.Popen(
        [*command, *words, "--nproc", "2", "--max-restarts", "1000"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        stderr=subprocess.PIPE,
        text=True,
    )
    over, killed = threading.Event(), []

    def kill_now_and_then(mean: float, draw: random.Random) -> None:
        while not over.wait(draw.expovariate(1 / mean)):
            if ranks := ranks_of(process.pid):
                os.kill(draw.choice(ranks), signal.SIGKILL)
                killed.append(time.monotonic() - began)

    thread = threading.Thread(target=kill_now_and_then, args=failures or (1.0, random.Random()), daemon=True)
    start, lines = 0.0, []
    assert process.stderr is not None
    for line in process.stderr:
        lines.append(line)
        if line.startswith("numbers:") and not start:
            start = time.monotonic() - began
            # a start that fails again and again is another story
            if failures:
                thread.start()
        if line.startswith("int8"):
            over.set()
    over.set()
    if process.wait():
        fail(f"{name}: exit code {process.returncode}: {lines[-1]}")
    weights = subprocess.run(["sha256sum", folder / name / "model.safetensors"], capture_output=True, check=True).stdout
    seconds = time.monotonic() - began
    return {"seconds": seconds, "start": start, "failures": len(killed), "weights": weights.split()[0].decode()}


def ranks_of(launcher: int) -> list[int]:
    """Return the processes that the launcher has started, once they compute."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children")
    threads = [(int(word), len(list(Path(f"/proc/{word}/task").glob("*")))) for word in children.read_text().split()]
    return [process for process, count in threads if count > 1]


if __name__ == "__main__":
    main()
