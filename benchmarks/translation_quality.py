"""Claim: how well dikkat translates after so many minutes of training from raw text, and with three models for one.

For each seed, each of --minutes is one `dikkat train translator --minutes N`, else plain defaults, on multi30k en-de.
With --teachers, README's way to more from the same pairs follows: two translators of so many minutes, one each way,
write what they make of the training text (`dikkat data diversify`), and a third learns from all of it; the first is
scored alone too. Commands are those of a user, one after another, in processes of their own.

What `dikkat translate` makes of test_2016_flickr, which no model has seen, is scored by sacreBLEU: cased and
detokenised, and in `lc.norm.tok`, as the literature on multi30k does: lower-cased, with normalised punctuation,
tokenised by Moses. There is no peer here; the record of text alone in `lc.norm.tok` is 41.02 (Wu et al. 2021).

Progress and a table go to standard error, one JSON line to standard output. Exit codes: 66 the data is not there, 1 a
command failed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

# a script has its own folder on the path, and the benchmarks are a package of the one above
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import (
    HERE,
    MULTI30K,
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

FORWARDS, BACKWARDS = ("en", "de"), ("de", "en")
TEST = "test_2016_flickr"
PARTS = ("train", "val", TEST)


@dataclass(frozen=True, slots=True)
class Bench:
    """Where everything lies, and with what it is done."""

    folder: Path
    scorer: Path
    """The Python of the environment that scores."""
    threads: int
    passes: float
    """Of the third model over the pairs of all."""
    seconds: dict[Path, float] = field(default_factory=dict)
    """Of every run that was trained."""

    def dikkat(self, *words: str | Path, output: Path | None = None) -> float:
        """Seconds of a command of this checkout; what it says goes to standard error, what it writes to `output`."""
        began = time.perf_counter()
        variables = {
            **os.environ,
            "OMP_NUM_THREADS": str(self.threads),
            "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'runtime/src'}",
        }
        note(f"$ dikkat {' '.join(map(str, words))}")
        with open(output, "wb") if output else nullcontext(sys.stderr) as stream:
            command = [OWN_PYTHON, "-m", "dikkat", *words]
            code = subprocess.run(command, env=variables, stdout=stream, check=False).returncode
        if code:
            fail(f"dikkat {words[0]} ended with exit code {code}; see its message above")
        return time.perf_counter() - began

    def train(self, pairs: list[Path], languages: tuple[str, str], run: Path, seed: int, *length: str) -> Path:
        """A finished run, from raw text; what was trained already is not trained again."""
        if run not in self.seconds:
            held_out = [word for language in languages for word in ("--valid", self.text("val", language))]
            words = (*pairs, *held_out, "--out", run, "--seed", str(seed), *length)
            self.seconds[run] = self.dikkat("train", "translator", *words)
        return run

    def text(self, part: str, language: str) -> Path:
        return self.folder / f"{part}.{language}"

    def single(self, minutes: float, seed: int, languages: tuple[str, str] = FORWARDS) -> Path:
        """The run of so many minutes."""
        run = self.folder / f"{'-'.join(languages)}-{minutes:g}-{seed}"
        pairs = [self.text("train", language) for language in languages]
        return self.train(pairs, languages, run, seed, "--minutes", str(minutes))

    def three(self, minutes: list[float], seed: int) -> tuple[Path, float]:
        """The third model, and the seconds of all."""
        there, back = (
            self.single(each, seed, languages) for each, languages in zip(minutes, (FORWARDS, BACKWARDS), strict=True)
        )
        more, third = self.folder / f"more-{seed}.tsv", self.folder / f"third-{seed}"
        texts = [self.text("train", language) for language in FORWARDS]
        writing = self.dikkat("data", "diversify", there, back, *texts, "--out", more, "--precision", "int8")
        self.train([more], FORWARDS, third, seed, "--set", f"training.max_epochs={self.passes}")
        return third, writing + sum(self.seconds[run] for run in (there, back, third))

    def scored(self, run: Path, kind: str, seed: int, seconds: float) -> Measured:
        """What the translations of a run are worth."""
        source, target = FORWARDS
        ours = self.folder / f"{run.name}.{target}"
        self.dikkat("translate", run, self.text(TEST, source), output=ours)
        job = {"ours": str(ours), "human": str(self.text(TEST, target)), "language": target}
        found = child(self.scorer, "quality_scores", job, self.threads)
        model = {"kind": kind, "seed": seed, "seconds": seconds, **found}
        note(table([model]))
        return model


def main() -> None:
    options = parse()
    files = [options.data / f"{part}.{language}.gz" for part in PARTS for language in FORWARDS]
    require_files(files)
    scorer = make_environment(options.env, HERE / "requirements-moses.txt")
    with tempfile.TemporaryDirectory(prefix="dikkat-translation-quality-") as folder:
        for path in files:
            (Path(folder) / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        bench = Bench(Path(folder), scorer, options.threads, options.passes)
        print(json.dumps(measure(options, bench), ensure_ascii=False))


def parse() -> argparse.Namespace:
    known = parser(__doc__)
    known.add_argument("--minutes", type=float, nargs="*", default=[5, 10, 20], help="of single models; may be none")
    known.add_argument(
        "--teachers", type=float, nargs=2, metavar=("FORWARDS", "BACKWARDS"), help="minutes of the first two of three"
    )
    known.add_argument("--seeds", type=int, nargs="+", default=[1], help="each trains every model once")
    known.add_argument("--passes", type=float, default=11, help="of the third model over the pairs of all")
    known.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="threads of every command")
    known.add_argument("--data", type=Path, default=MULTI30K, help="folder of multi30k")
    known.add_argument("--env", type=Path, default=HERE / ".venv-moses", help="where sacremoses is installed")
    options = known.parse_args()
    if not options.minutes and not options.teachers:
        known.error("name --minutes or --teachers, else there is nothing to train")
    if min(options.threads, options.passes, *options.minutes, *(options.teachers or ())) <= 0:
        known.error("--minutes, --teachers, --passes and --threads must be more than 0")
    return options


def measure(options: argparse.Namespace, bench: Bench) -> Measured:
    """All models, and the means of each kind over the seeds."""
    load = os.getloadavg()[0]
    models: list[Measured] = []
    for seed in options.seeds:
        for minutes in dict.fromkeys([*options.minutes, *(options.teachers or ())[:1]]):
            run = bench.single(minutes, seed)
            models.append(bench.scored(run, f"{minutes:g} min", seed, bench.seconds[run]))
        if options.teachers:
            third, seconds = bench.three(options.teachers, seed)
            models.append(bench.scored(third, "three models", seed, seconds))
    means = [mean([model for model in models if model["kind"] == kind]) for kind in {m["kind"]: None for m in models}]
    note(f"all\n{table(models)}\nmeans\n{table(means)}")
    return {
        **provenance("translation_quality"),
        "versions": {**models[0]["versions"], "python": platform.python_version()},
        "signatures": models[0]["signatures"],
        "threads": options.threads,
        "teachers": options.teachers,
        "passes": options.passes,
        "load_average_before": load,
        "means": means,
        "models": [{key: model[key] for key in ("kind", "seed", "seconds", "scores")} for model in models],
    }


def mean(models: list[Measured]) -> Measured:
    """Of models of one kind."""
    scores = {name: statistics.mean(model["scores"][name] for model in models) for name in models[0]["scores"]}
    seconds = statistics.mean(model["seconds"] for model in models)
    return {"kind": models[0]["kind"], "seed": "all", "seconds": seconds, "scores": scores}


def table(models: list[Measured]) -> str:
    lines = [f"  {'':20}{'seed':>5}{'minutes':>9}{'BLEU':>8}{'chrF':>8}{'lc.norm.tok':>13}"]
    for model in models:
        bleu, chrf, literature = (model["scores"][name] for name in ("bleu", "chrf", "lc_norm_tok"))
        minutes = model["seconds"] / 60
        lines.append(
            f"  {model['kind']:20}{model['seed']:>5}{minutes:>9.1f}{bleu:>8.2f}{chrf:>8.2f}{literature:>13.2f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
