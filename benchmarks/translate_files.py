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
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import ROOT, fail, note, parser, provenance, require_files

GROUP_ROWS = 100_000
"""Rows of a row group of the Parquet files."""
EVERY = 0.5
"""Seconds between two looks at the memory."""
QUARTERS = 4


def main() -> None:
    """Measure one run on the lines of one file."""
    options = parser(__doc__)
    options.add_argument("run", type=Path, help="run directory of a translator")
    options.add_argument("lines", type=Path, help="text in its source language")
    options.add_argument("--rows", type=int, default=200_000)
    options.add_argument("--files", type=int, default=20)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--workers", type=int, default=2, help="the most that are compared with one")
    options.add_argument("--memory", action="store_true", help="watch the memory of one call instead of its speed")
    asked = options.parse_args()
    require_files([asked.run, asked.lines], "name a run directory and a text in its source language")
    with tempfile.TemporaryDirectory(dir=asked.lines.parent) as name:
        folder = Path(name)
        lines = write_data(folder, asked.lines, asked.rows, asked.files)
        if asked.memory:
            measure_memory(files(asked.run, folder, asked.workers), folder, asked.rows)
            return
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
    numbered = (f"{text} {number}" for number, text in enumerate(itertools.islice(itertools.cycle(texts), rows)))
    (folder / "in").mkdir()
    schema = pyarrow.schema({"text": pyarrow.string()})
    text = folder / "lines.txt"
    with text.open("w", encoding="utf-8") as plain:
        for number in range(files):
            left = (number + 1) * rows // files - number * rows // files
            with parquet.ParquetWriter(folder / "in" / f"{number:04}.parquet", schema) as writer:
                while part := list(itertools.islice(numbered, min(left, GROUP_ROWS))):
                    writer.write_table(pyarrow.table({"text": part}, schema))
                    plain.writelines(f"{line}\n" for line in part)
                    left -= len(part)
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
    variables = own_variables()
    before, begun = processor_seconds(), time.perf_counter()
    done = subprocess.run(command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        fail(f"{' '.join(command)} ended with exit code {done.returncode}: {done.stderr.decode()}")
    return time.perf_counter() - begun, processor_seconds() - before


def own_variables() -> dict[str, str]:
    """Return an environment with one thread in which this checkout is found."""
    path = os.pathsep.join(str(ROOT / part) for part in ("src", "runtime/src"))
    return {**os.environ, "OMP_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1", "PYTHONPATH": path}


def measure_memory(command: Sequence[str], folder: Path, rows: int) -> None:
    """Print the memory of a command and of its workers, quarter by quarter; fails where it grows."""
    begun, looks = time.perf_counter(), list[tuple[float, dict[int, tuple[float, float]]]]()
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(command, env=own_variables(), stdout=subprocess.DEVNULL, stderr=log)
        while process.poll() is None:
            looks.append((time.perf_counter() - begun, memory_of_all(process.pid)))
            time.sleep(EVERY)
    seconds = time.perf_counter() - begun
    log_text = (folder / "log.txt").read_text(encoding="utf-8")
    if process.returncode:
        fail(f"{' '.join(command)} ended with exit code {process.returncode}: {log_text}")
    written = sum(json.loads(path.read_text())["rows"] for path in (folder / "out").glob("_[!j]*.json"))
    if written != rows:
        fail(f"{written} rows were written of {rows}")
    by_process = quarters(looks, seconds)
    note(f"{rows:,} rows, {seconds:.0f} s, {processor_seconds():.0f} s of the processor; MiB: least, median, most")
    note("| process | what | " + " | ".join(f"quarter {number + 1}" for number in range(QUARTERS)) + " |")
    note("|---" * (2 + QUARTERS) + "|")
    for name, kinds in by_process.items():
        for kind, found in kinds.items():
            cells = " | ".join(", ".join(f"{value:.0f}" for value in quarter) for quarter in found)
            note(f"| {name} | {kind} | {cells} |")
    print(json.dumps({**provenance("memory of translate-files"), "rows": rows, "seconds": seconds, **by_process}))
    for name, kinds in by_process.items():
        for kind, found in kinds.items():
            if found[-1][1] > found[0][2]:
                fail(f"{name}, {kind}: {found[-1][1]:.1f} MiB in the last quarter, {found[0][2]:.1f} in the first")


def memory_of_all(driver: int) -> dict[int, tuple[float, float]]:
    """Return resident and own memory in MiB of a process and of its children."""
    with suppress(FileNotFoundError, ProcessLookupError):
        workers = Path(f"/proc/{driver}/task/{driver}/children").read_text(encoding="ascii").split()
        return {process: memory for process in (driver, *map(int, workers)) if (memory := memory_of(process))}
    return {}


def memory_of(process: int) -> tuple[float, float] | None:
    """Return resident and own (anonymous) memory of a process in MiB; None where it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").split("\n")
        values = dict(line.split(":", 1) for line in lines if ":" in line)
        if "VmRSS" in values:
            return int(values["VmRSS"].split()[0]) / 1024, int(values["RssAnon"].split()[0]) / 1024
    return None


def quarters(
    looks: Sequence[tuple[float, dict[int, tuple[float, float]]]], seconds: float
) -> dict[str, dict[str, list[tuple[float, float, float]]]]:
    """Return least, median and most of each quarter, by process and kind of memory, after the first twentieth."""
    warm = seconds / 20
    length = (seconds - warm) / QUARTERS
    found = dict[str, dict[str, list[tuple[float, float, float]]]]()
    processes = dict.fromkeys(process for when, memory in looks if when >= warm for process in memory)
    for index, process in enumerate(processes):
        name = f"worker {index}" if index else "driver"
        for kind, title in enumerate(("resident", "own")):
            values: list[list[float]] = [[] for _ in range(QUARTERS)]
            for when, memory in looks:
                if when >= warm and process in memory:
                    values[min(QUARTERS - 1, int((when - warm) / length))].append(memory[process][kind])
            if not all(values):
                fail(f"{name} did not work in every quarter of the time; give more --rows, or see why it was lost")
            found.setdefault(name, {})[title] = [(min(part), statistics.median(part), max(part)) for part in values]
    return found


def processor_seconds() -> float:
    """Return what all children that have ended, and theirs, took of the processor."""
    times = os.times()
    return times.children_user + times.children_system


if __name__ == "__main__":
    main()
