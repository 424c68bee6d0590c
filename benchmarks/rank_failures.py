"""Claim: a training whose processes and machines die at random goes on by itself, ends with the weights of the
undisturbed one, and is late by what a model of restarts says.

Setting: `dikkat train translator` on random pairs with two ranks and `--max-restarts`. In one run nothing happens. In
the others failures come after times drawn from exponential distributions: a rank gets SIGKILL, which dikkat answers
by itself, or all ranks and their launcher get it, as when a machine is lost, after which this script starts the same
command again with `--resume`, as the queue of a cluster does. The model: the ranks start anew (S seconds) at the last
checkpoint, and failures come at the rate L also while they start. The I seconds of work between two checkpoints then
take exp(L S) (exp(L I) - 1) / L in the mean (Daly 2006, without the cost of a dump), and a failure costs S + I / 2.
S is the first start of a run and I the median of what its intervals took, so that a busy machine changes both sides.

The table of docs/scaling.md goes to standard error, one JSON line to standard output. Exit code 1: a run failed, or
weights differ.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

# a script has its own folder on the path, and the benchmarks are a package of the one above
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import OWN_PYTHON, ROOT, Measured, fail, note, parser, provenance

WORDS = [first + second for first in ("ka", "le", "mi", "no", "su", "ta") for second in ("ra", "ni", "lo", "ku", "me")]
Kind = Literal["rank", "machine"]


@dataclass
class Failures:
    """Draw when failures come, and of which kind."""

    means: dict[Kind, float]
    """Seconds between two failures of a kind, in the mean; a kind that is absent never fails."""
    draw: random.Random

    def next(self) -> tuple[float, Kind]:
        """Return the seconds to the next failure, and its kind."""
        return min((self.draw.expovariate(1 / mean), kind) for kind, mean in self.means.items())

    @property
    def rate(self) -> float:
        """Failures a second."""
        return sum(1 / mean for mean in self.means.values())


@dataclass
class Run:
    """Hold what happened to one training, in seconds since it began."""

    seconds: float = 0.0
    start: float = 0.0
    """When its first update began."""
    trained: float = 0.0
    """When its last validation was done."""
    weights: str = ""
    failures: list[tuple[float, Kind]] = field(default_factory=list)
    restarts: list[float] = field(default_factory=list)
    """Seconds from a failure to the next update, of failures after which there was one."""
    intervals: list[float] = field(default_factory=list)
    """Seconds of each interval between checkpoints that no failure fell into."""
    redone: float = 0.0
    """Seconds of training since the last checkpoint that the failures took."""


def main() -> None:
    options = parser(__doc__)
    options.add_argument("--updates", type=int, default=120, help="updates of a run")
    options.add_argument("--checkpoints", type=int, default=8, help="validations of a run, each with a checkpoint")
    options.add_argument("--rank-mean", type=float, default=2.0, help="starts' time between two lost ranks, mean")
    options.add_argument("--machine-mean", type=float, default=4.0, help="starts' time between two lost machines")
    options.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3], help="of the failures, each for a run")
    chosen = options.parse_args()
    if min(chosen.updates, chosen.checkpoints, chosen.rank_mean, chosen.machine_mean) <= 0:
        options.error("every number must be above 0")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_pairs(folder / "pairs.tsv")
        settings = {"max_updates": chosen.updates, "validations": chosen.checkpoints, "patience": 10_000}
        undisturbed = Training(folder, "undisturbed", settings).run(None)
        note(f"undisturbed: {undisturbed.start:.0f} s to start, {undisturbed.trained:.0f} s to the last checkpoint")
        # a busy machine starts slowly, and would get nowhere between failures that know nothing of that
        means: dict[Kind, float] = {
            "rank": chosen.rank_mean * undisturbed.start,
            "machine": chosen.machine_mean * undisturbed.start,
        }
        found = provenance("restarts after random failures")
        for line in heading(found):
            note(line)
        disturbed = []
        for seed in chosen.seeds:
            failures = Failures(means, random.Random(seed))
            disturbed.append(Training(folder, f"seed-{seed}", settings).run(failures))
            note(row(disturbed[-1], chosen.checkpoints, failures.rate, undisturbed.weights))
    if any(run.weights != undisturbed.weights for run in disturbed):
        fail("weights differ")
    result = {"undisturbed": asdict(undisturbed), "disturbed": [asdict(run) for run in disturbed]}
    print(json.dumps({**found, "options": vars(chosen), **result}))


def expected_seconds(start: float, interval: float, checkpoints: int, rate: float) -> float:
    """Return the mean time to the last of so many checkpoints where failures come at `rate` a second."""
    if rate == 0.0:
        return start + checkpoints * interval
    return (math.expm1(rate * start) + checkpoints * math.exp(rate * start) * math.expm1(rate * interval)) / rate


COLUMNS = (
    "S, s",
    "I, s",
    "lost ranks",
    "lost machines",
    "S again, s",
    "late, s",
    "by the model of these failures, s",
    "by the mean at these rates, s",
    "late ÷ model",
    "share of the time",
    "weights",
)


def heading(found: Measured) -> list[str]:
    """Return the first lines of the table: where and when, and the columns."""
    machine = found["machine"]
    where = f"{machine['cores']} cores, {machine['processor']}, {found['date'][:10]}, commit {found['commit']}"
    return [f"two ranks of a tiny model, {where}", "", f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]


def row(run: Run, checkpoints: int, rate: float, weights: str) -> str:
    """Return a row of the table about a run that failed, beside the `weights` of the undisturbed one."""
    kinds = [kind for _, kind in run.failures]
    interval = statistics.median(run.intervals)
    undisturbed = run.start + checkpoints * interval
    late, by_model = run.trained - undisturbed, len(kinds) * (run.start + interval / 2)
    expected = expected_seconds(run.start, interval, checkpoints, rate) - undisturbed
    cells = [
        f"{run.start:.1f}",
        f"{interval:.1f}",
        str(kinds.count("rank")),
        str(kinds.count("machine")),
        f"{statistics.median(run.restarts):.1f}" if run.restarts else "–",
        f"{late:.0f}",
        f"{by_model:.0f}",
        f"{expected:.0f}",
        f"{late / by_model:.2f}" if kinds else "–",
        f"{late / run.trained:.0%}",
        "the same" if run.weights == weights else "others",
    ]
    return f"| {' | '.join(cells)} |"


def write_pairs(path: Path) -> None:
    """Write random sentences beside the same words backwards."""
    draw = random.Random(3)
    lines = [[draw.choice(WORDS) for _ in range(draw.randint(3, 10))] for _ in range(2_000)]
    text = "".join(f"{' '.join(words)}\t{' '.join(reversed(words))}\n" for words in lines)
    path.write_text(text, encoding="utf-8")


class Training:
    """Train with two ranks in a process that is started again when its machine is lost."""

    def __init__(self, folder: Path, name: str, settings: dict[str, int]) -> None:
        words = [f"--set=training.{key}={value}" for key, value in settings.items()]
        command = [str(OWN_PYTHON), "-m", "dikkat", "train", "translator", "pairs.tsv", "--out", name]
        self._command = [*command, "--preset", "tiny", *words, "--nproc", "2", "--max-restarts", "1000"]
        self._folder, self._name = folder, name
        self._paths = os.pathsep.join(str(ROOT / part) for part in ("src", "runtime/src"))
        self._result = Run()
        self._checkpoint: float | None = None
        """When the last checkpoint was due, or the ranks began; None while they start."""
        self._failed: float | None = None
        """When the failure came that the ranks start after; None while they train."""
        self._over = threading.Event()

    def run(self, failures: Failures | None) -> Run:
        """Train to the end and return what happened."""
        result = self._result
        self._began = time.monotonic()
        self._process = self._start([])
        if failures is not None:
            threading.Thread(target=self._fail, args=(failures,), daemon=True).start()
        last = self._follow()
        # by a signal ends only the launcher of a machine that was lost
        while self._process.returncode == -signal.SIGKILL:
            resume = ["--resume"] if (self._folder / self._name).exists() else []
            self._process = self._start(resume)
            last = self._follow()
        self._over.set()
        if self._process.returncode:
            fail(f"{self._name}: exit code {self._process.returncode}: {last}")
        result.seconds = self._now()
        result.weights = hashlib.sha256((self._folder / self._name / "model.safetensors").read_bytes()).hexdigest()
        return result

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _start(self, more: list[str]) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": self._paths}
        return subprocess.Popen(
            [*self._command, *more], cwd=self._folder, env=environment, stderr=subprocess.PIPE, text=True
        )

    def _follow(self) -> str:
        """Read what the command says until it ends; returns its last line."""
        assert self._process.stderr is not None
        line = ""
        for line in self._process.stderr:
            now = self._now()
            if line.startswith("numbers:"):
                self._result.start = self._result.start or now
                self._checkpoint = now
                if self._failed is not None:
                    self._result.restarts.append(now - self._failed)
                    self._failed = None
            elif line.startswith("pass ") and "validation loss" in line and self._checkpoint is not None:
                self._result.intervals.append(now - self._checkpoint)
                self._checkpoint = self._result.trained = now
            elif line.startswith("int8"):
                # what is left writes the card of the finished run
                self._over.set()
        self._process.wait()
        return line

    def _fail(self, failures: Failures) -> None:
        seconds, kind = failures.next()
        while not self._over.wait(seconds):
            launcher = self._process.pid
            if kind == "rank":
                victims = computing(children_of(launcher))
                victims = [failures.draw.choice(victims)] if victims else []
            else:
                with suppress(ProcessLookupError):
                    # lest it starts others while they are looked for
                    os.kill(launcher, signal.SIGSTOP)
                victims = [*children_of(launcher), launcher]
            for victim in victims:
                with suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
            if victims:
                now = self._now()
                self._result.failures.append((now, kind))
                self._result.redone += 0.0 if self._checkpoint is None else now - self._checkpoint
                # a second failure while the ranks start is a part of the same start
                self._failed = now if self._failed is None else self._failed
                self._checkpoint = None
            seconds, kind = failures.next()


def children_of(launcher: int) -> list[int]:
    """Return the processes that the launcher has started."""
    try:
        words = Path(f"/proc/{launcher}/task/{launcher}/children").read_text(encoding="ascii").split()
    except FileNotFoundError:
        return []
    return [int(word) for word in words]


def computing(processes: list[int]) -> list[int]:
    """Return those of the processes that have threads, which nothing but ranks have."""
    return [process for process in processes if len(list(Path(f"/proc/{process}/task").glob("*"))) > 1]


if __name__ == "__main__":
    main()
