"""Is the code of today as fast as that of another commit? Both alternate in one run, on the same machine.

Makes a checkout of the other commit beside this one (`git worktree`), and times in turn, each time in a process of its
own: a translator's batches greedily and by beam 5, one sentence alone, and a few updates of training a translator, a
classifier and a language model. Prints the medians and their ratio, which is above 1 where today's code is faster, and
ends with exit code 1 where one is below the limit.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

# a script has its own folder on the path, and the benchmarks are a package of the one above
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import HERE, OWN_PYTHON, ROOT, Measured, child, fail, git, note, parser, provenance

ROWS = ("greedy", "beam 5", "one sentence alone", "training 3+3", "training IMDB", "training LM")
DATA = {"training 3+3": "pairs", "training IMDB": "labelled", "training LM": "text"}
LEAST = 0.97
"""Of the speed of before; what is less is told by the exit code."""


def main() -> int:
    arguments = parser(__doc__)
    arguments.add_argument("--before", default="HEAD~1", help="commit to compare with")
    arguments.add_argument("--checkout", type=Path, default=ROOT.parent / "before", help="folder of its checkout")
    arguments.add_argument("--run", type=Path, default=ROOT / "runs" / "quickstart-fr", help="run of a translator")
    arguments.add_argument("--lines", type=Path, required=True, help="sentences to translate, one a line")
    arguments.add_argument("--pairs", help="table of pairs to train a translator on")
    arguments.add_argument("--labelled", help="table of labels and texts to train a classifier on")
    arguments.add_argument("--text", help="text to train a language model on")
    arguments.add_argument("--sentences", type=int, default=1_000, help="of the lines, so many")
    arguments.add_argument("--precision", choices=("float32", "int8"), default="float32", help="of translating")
    arguments.add_argument("--rounds", type=int, default=5, help="times that each is measured")
    arguments.add_argument("--threads", type=int, default=2, help="threads of each process")
    arguments.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), help="what is measured")
    arguments.add_argument("--out", type=Path, default=HERE / "results" / "guard.json", help="where to write it")
    options = arguments.parse_args()
    if min(options.sentences, options.rounds, options.threads) < 1:
        fail("every number must be at least 1", 2)
    for path in (options.run, options.lines):
        if not path.exists():
            fail(f"{path}: not there", 66)
    rows = [row for row in options.rows if row not in DATA or vars(options)[DATA[row]]]
    before = checkout(options.checkout, options.before)
    measured = {row: measure(row, options, before) for row in rows}
    result = {**provenance(f"speed beside {options.before}"), "before": git("describe", "--always", options.before)}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps({**result, "rows": measured}, indent=1) + "\n", encoding="utf-8")
    for row, found in measured.items():
        print(f"{row:20} before {found['before']:9.4f} s   now {found['now']:9.4f} s   ratio {found['ratio']:.3f}")
    return 0 if all(found["ratio"] >= LEAST for found in measured.values()) else 1


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


def measure(row: str, options: argparse.Namespace, before: Path) -> Measured:
    """Seconds of before and of now, by turns; the first round of each only compiles and warms up."""
    settings = vars(options)
    job = {"row": row, **{name: str(settings[name]) for name in ("run", "lines", "pairs", "labelled", "text")}}
    job |= {"sentences": settings["sentences"], "precision": settings["precision"]}
    seconds: dict[str, list[float]] = {"before": [], "now": []}
    for number in range(settings["rounds"] + 1):
        for name, root in (("before", before), ("now", ROOT)):
            roots = [str(ROOT), str(root / "src"), str(root / "runtime" / "src")]
            environment = {"PYTHONPATH": ":".join(roots)}
            found = child(OWN_PYTHON, "guarded_work", job, settings["threads"], environment)
            if number:
                seconds[name].append(found["seconds"])
                note(f"{row}, round {number}, {name}: {found['seconds']:.4f} s")
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    return {**medians, "ratio": medians["before"] / medians["now"], "seconds": seconds}


if __name__ == "__main__":
    sys.exit(main())
