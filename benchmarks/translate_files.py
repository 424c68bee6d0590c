"""Claim: many files cost what their lines cost, and two workers do twice as much as one.

python benchmarks/translate_files.py RUN LINES

Writes --rows lines of the file LINES (repeated) as Parquet files of --files parts and as one text, and translates them
greedily in int8 by one thread: by `dikkat translate` line by line, by `dikkat translate-files` with one worker, and
with two. In turn, in fresh processes, --rounds times. Every line gets its number as a last word, so that no two are
equal and none is translated once for many. Prints rows a second of each, medians, and their ratios as JSON; and the
same by seconds of the processor, which other work on the machine disturbs less.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import ROOT, fail, note, parser, provenance


def main() -> None:
    """Measure one run on the lines of one file."""
    options = parser(__doc__)
    options.add_argument("run", type=Path, help="run directory of a translator")
    options.add_argument("lines", type=Path, help="text in its source language")
    options.add_argument("--rows", type=int, default=200_000)
    options.add_argument("--files", type=int, default=20)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--workers", type=int, default=2, help="the most that are compared with one")
    asked = options.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.lines.parent) as name:
        folder = Path(name)
        lines = write_data(folder, asked.lines, asked.rows, asked.files)
        contenders = {
            "lines": [*dikkat("translate", asked.run, lines), "--beam", "1", "--precision", "int8"],
            "one worker": files(asked.run, folder, 1),
            "many workers": files(asked.run, folder, asked.workers),
        }
        seconds: dict[str, list[float]] = {name: [] for name in contenders}
        processor: dict[str, list[float]] = {name: [] for name in contenders}
        for number, (name, command) in itertools.product(range(asked.rounds), contenders.items()):
            wall, used = timed(command, folder)
            seconds[name].append(wall)
            processor[name].append(used)
            note(f"round {number + 1}, {name}: {asked.rows / wall:,.0f} rows/s, {used:.1f} s of the processor")
    rates = {name: asked.rows / statistics.median(times) for name, times in seconds.items()}
    by_processor = {name: statistics.median(times) for name, times in processor.items()}
    found = {
        **provenance("translate-files beside translate"),
        "rows": asked.rows,
        "files": asked.files,
        "workers": asked.workers,
        "seconds": seconds,
        "processor_seconds": processor,
        "rows_per_second": rates,
        "one_worker_to_lines": rates["one worker"] / rates["lines"],
        "many_workers_to_one": rates["many workers"] / rates["one worker"],
        "one_worker_to_lines_by_processor": by_processor["lines"] / by_processor["one worker"],
    }
    print(json.dumps(found))


def write_data(folder: Path, path: Path, rows: int, files: int) -> Path:
    """Write the rows as Parquet files in `folder`/in, and return a text of the same rows."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        fail("needs pyarrow; pip install 'dikkat-runtime[parquet]'")
    texts = [line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
    repeated = [f"{text} {number}" for number, text in enumerate(itertools.islice(itertools.cycle(texts), rows))]
    (folder / "in").mkdir()
    for number in range(files):
        part = repeated[number * rows // files : (number + 1) * rows // files]
        parquet.write_table(pyarrow.table({"text": part}), folder / "in" / f"{number:04}.parquet")
    text = folder / "lines.txt"
    text.write_text("".join(f"{line}\n" for line in repeated), encoding="utf-8")
    return text


def dikkat(*words: str | Path) -> list[str]:
    """Return a command of this checkout."""
    return [sys.executable, "-m", "dikkat", *map(str, words)]


def files(run: Path, folder: Path, workers: int) -> list[str]:
    """Return the command that translates the Parquet files by so many workers."""
    options = ("--workers", str(workers), "--threads", "1", "--beam", "1", "--precision", "int8")
    return dikkat("translate-files", run, folder / "in", "--out", folder / "out", *options)


def timed(command: Sequence[str], folder: Path) -> tuple[float, float]:
    """Return the seconds of a command that begins with nothing done, and those of the processor; it fails with it."""
    shutil.rmtree(folder / "out", ignore_errors=True)
    path = os.pathsep.join(str(ROOT / part) for part in ("src", "runtime/src"))
    variables = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    before, begun = processor_seconds(), time.perf_counter()
    done = subprocess.run(command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        fail(f"{' '.join(command)} ended with exit code {done.returncode}: {done.stderr.decode()}")
    return time.perf_counter() - begun, processor_seconds() - before


def processor_seconds() -> float:
    """Return what all children that have ended, and theirs, took of the processor."""
    times = os.times()
    return times.children_user + times.children_system


if __name__ == "__main__":
    main()
