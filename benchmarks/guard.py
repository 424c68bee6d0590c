"""Is the code of today as fast and as small as that of another commit? Both alternate in one run, on one machine.

Makes a checkout of the other commit beside this one (`git worktree`), by default of the last one before there was a
runtime without PyTorch, and times in turn, each time in a process of its own: a translator's batches greedily and by
beam 5, one sentence alone, opening a run, and updates of training a translator, a classifier and a language model.
What is translated is the held-out text of the run: longer lines than a model was trained on are cut today, which is
work that was not done before. Both sides must write the same text. A round is written down when it is over, so that a
run that was stopped goes on. Prints the medians of seconds on the wall, of processor seconds and of the largest
memory in MiB with their ratios, which are above 1 where today's code needs less, and the ratio of each round. Ends
with code 1 where a ratio on the wall or of memory is below the limit.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
from itertools import islice
from pathlib import Path

# a script has its own folder on the path, and the benchmarks are a package of the one above
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import HERE, OWN_PYTHON, ROOT, Measured, child, fail, git, note, parser, provenance

ROWS = ("greedy", "beam 5", "one sentence alone", "opening", "training 3+3", "training IMDB", "training LM")
SHARED = ROOT.parent / "shared" / "data"
FILES = {
    "pairs": SHARED / "tatoeba" / "eng-fra.tsv.gz",
    "labelled": SHARED / "imdb" / "train.tsv.gz",
    "text": SHARED / "shakespeare" / "input.txt.gz",
}
MAX_LINES = {"lines": 1_000, "pairs": 6_000, "labelled": 1_000, "text": 20_000}
"""Of the data, so many are used: what is measured are updates, not their preparation."""
DATA = {"training 3+3": "pairs", "training IMDB": "labelled", "training LM": "text"}
MIN_RATIO = 0.98
"""Of the speed and memory of before; what is less is told by the exit code."""
UNITS = {"wall": "s", "processor": "s", "memory": "MiB"}


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--before", help="commit to compare with; by default the last without a runtime")
    arguments.add_argument(
        "--before-variables", nargs="*", default=[], help="environment of the other side, NAME=VALUE"
    )
    arguments.add_argument("--checkout", type=Path, default=ROOT.parent / "before", help="folder of its checkout")
    arguments.add_argument("--run", type=Path, help="run of a translator; else the other commit makes its quickstart")
    arguments.add_argument("--lines", type=Path, help="sentences to translate; else the run's held-out text")
    arguments.add_argument("--pairs", type=Path, default=FILES["pairs"], help="table of pairs to train a translator on")
    arguments.add_argument("--labelled", type=Path, default=FILES["labelled"], help="table of labels and texts")
    arguments.add_argument("--text", type=Path, default=FILES["text"], help="text to train a language model on")
    arguments.add_argument("--precision", choices=("float32", "int8"), default="float32", help="of translating")
    arguments.add_argument("--rounds", type=int, default=5, help="times that each is measured")
    arguments.add_argument("--updates", type=int, default=30, help="of each training")
    arguments.add_argument("--threads", type=int, default=2, help="threads of each process")
    arguments.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), help="what is measured")
    arguments.add_argument("--out", type=Path, default=HERE / "results" / "guard.json", help="where to write it")
    options = arguments.parse_args()
    if min(options.rounds, options.updates, options.threads) < 1:
        fail("every number must be at least 1", 2)
    if wrong := [pair for pair in options.before_variables if "=" not in pair]:
        fail(f"--before-variables {wrong[0]}: write NAME=VALUE", 2)
    translates = any(row not in DATA for row in options.rows)
    needed = {name: vars(options)[name] for name in FILES if name in {DATA.get(row) for row in options.rows}}
    needed |= {name: path for name, path in (("run", options.run), ("lines", options.lines)) if path and translates}
    for name, path in needed.items():
        if not path.exists():
            fail(f"{path}: not there; see --{name}", 66)
    wanted = options.before or before_the_runtime()
    before = checkout(options.checkout, wanted)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    # today's code reads what was written then, and not the other way round
    if translates and not options.run:
        needed["run"] = quickstart(before, options.out.with_name(f"guard-run-{before.name}"), options.threads)
    if translates and not options.lines:
        needed["lines"] = held_out_text(needed["run"])
    work = {name: str(path if name == "run" else part_of(path, name, options.out)) for name, path in needed.items()}
    work |= {"precision": options.precision, "updates": options.updates}
    known = {**work, "threads": options.threads, "commits": commits(before), "variables": options.before_variables}
    rounds = Rounds(options.out.with_suffix(".rounds.jsonl"), known)
    compile_all(work, options, before)
    measured = {row: measure(row, work, options, before, rounds) for row in options.rows}
    result = {**provenance(f"speed beside {wanted}"), "before": git("describe", "--always", wanted)}
    options.out.write_text(json.dumps({**result, "rows": measured}, indent=1) + "\n", encoding="utf-8")
    print(f"{'medians':20}" + "".join(f"{f'{name}, {unit}':>16} before     now  ratio" for name, unit in UNITS.items()))
    for row, found in measured.items():
        cells = (
            f"{found[name]['before']:23.3f} {found[name]['now']:7.3f} {found[name]['ratio']:6.3f}" for name in UNITS
        )
        print(f"{row:20}" + "".join(cells))
    for row, found in measured.items():
        for name in UNITS:
            print(f"{row}, {name}, each round: " + " ".join(f"{ratio:.3f}" for ratio in found[name]["rounds"]))
    return (
        0 if all(found[name]["ratio"] >= MIN_RATIO for found in measured.values() for name in ("wall", "memory")) else 1
    )


def before_the_runtime() -> str:
    """The parent of the commit that brought the runtime."""
    first = git("log", "--diff-filter=A", "--format=%H", "--", "runtime/pyproject.toml").rpartition("\n")[2]
    if not first:
        fail("there is no commit without a runtime here; name one with --before", 2)
    return git("rev-parse", "--short", f"{first}^")


def checkout(folder: Path, commit: str) -> Path:
    """The folder with the sources of that commit."""
    wanted = git("rev-parse", "--verify", f"{commit}^{{commit}}")
    if not wanted:
        fail(f"{commit}: there is no such commit", 2)
    if not folder.exists():
        git("worktree", "add", "--detach", str(folder), wanted)
    found = git("-C", str(folder), "rev-parse", "HEAD")
    if found != wanted:
        fail(f"{folder}: is at {found or 'no commit'}, not at {wanted}; remove it (git worktree remove)", 2)
    return folder


def commits(before: Path) -> list[str]:
    """What is compared: rounds of other sources are not gone on with."""
    return [git("-C", str(before), "rev-parse", "HEAD"), git("describe", "--always", "--dirty", "--abbrev=40")]


def quickstart(before: Path, run: Path, threads: int) -> Path:
    """The quickstart of the other commit, which is gone on with where it was stopped, and made once."""
    if not (run / "card.md").exists():
        variables = {**os.environ, "PYTHONPATH": str(before / "src"), "OMP_NUM_THREADS": str(threads)}
        command = [str(OWN_PYTHON), "-m", "dikkat", "quickstart", "--out", str(run)]
        if code := subprocess.run(command, env=variables, stdout=sys.stderr, check=False).returncode:
            fail(f"{run}: the quickstart of the other commit ended with exit code {code}; see its message above")
    return run


def held_out_text(run: Path) -> Path:
    """The source side of what the run did not train on."""
    path = run / "held_out" / "test.source.txt"
    if not path.exists():
        fail(f"{path}: the run keeps no test text; name sentences with --lines", 66)
    return path


def part_of(path: Path, name: str, out: Path) -> Path:
    """The first lines of a file, unpacked, beside the results."""
    part = out.with_name(f"guard-{name}{'.tsv' if '.tsv' in path.suffixes else '.txt'}")
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as file:
        part.write_text("".join(islice(file, MAX_LINES[name])), encoding="utf-8")
    return part


class Rounds:
    """What was measured already, a line each; of other settings nothing counts."""

    def __init__(self, path: Path, settings: Measured) -> None:
        self._path, self._settings = path, json.loads(json.dumps(settings))
        self._known: list[Measured] = []
        if path.exists():
            lines = [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]
            self._known = [line for line in lines if line["settings"] == self._settings]

    def find(self, row: str, number: int, side: str) -> Measured | None:
        """The seconds of one process, if it has run."""
        wanted = (row, number, side)
        return next(
            (each["seconds"] for each in self._known if (each["row"], each["round"], each["side"]) == wanted), None
        )

    def add(self, row: str, number: int, side: str, seconds: Measured) -> None:
        """Write down what one process took."""
        line = {"row": row, "round": number, "side": side, "seconds": seconds, "settings": self._settings}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def compile_all(work: Measured, options: argparse.Namespace, before: Path) -> None:
    """Let both sides compile their kernels and their bytecode before a clock runs."""
    for row in options.rows[:1]:
        for root in (before, ROOT):
            side(row, {**work, "updates": 1}, options, root)


def measure(row: str, work: Measured, options: argparse.Namespace, before: Path, rounds: Rounds) -> Measured:
    """Seconds and memory of before and of now, by turns; which is first changes with each round."""
    sides = [("before", before), ("now", ROOT)]
    seconds: dict[str, list[Measured]] = {"before": [], "now": []}
    for number in range(options.rounds):
        for name, root in sides if number % 2 == 0 else sides[::-1]:
            found = rounds.find(row, number, name)
            if found is None:
                found = side(row, work, options, root)
                rounds.add(row, number, name, found)
            seconds[name].append(found)
            told = ", ".join(f"{found[name]:.3f} {unit} {name}" for name, unit in UNITS.items())
            note(f"{row}, round {number + 1} of {options.rounds}, {name}: {told}")
    if len(texts := {one.get("text_sha256") for values in seconds.values() for one in values}) > 1:
        fail(f"{row}: before and now write different text ({len(texts)} kinds); a speed beside it says nothing")
    result: Measured = {"seconds": seconds}
    for name in UNITS:
        medians = {key: statistics.median(each[name] for each in values) for key, values in seconds.items()}
        ratios = [old[name] / new[name] for old, new in zip(seconds["before"], seconds["now"], strict=True)]
        result[name] = {**medians, "ratio": medians["before"] / medians["now"], "rounds": ratios}
    return result


def side(row: str, work: Measured, options: argparse.Namespace, root: Path) -> Measured:
    """Run one piece of work by the sources in `root`."""
    variables = {"PYTHONPATH": ":".join([str(ROOT), str(root / "src"), str(root / "runtime" / "src")])}
    if root != ROOT:
        variables |= dict(pair.split("=", 1) for pair in options.before_variables)
    return child(OWN_PYTHON, "guarded_work", {**work, "row": row}, options.threads, variables)


if __name__ == "__main__":
    sys.exit(main())
