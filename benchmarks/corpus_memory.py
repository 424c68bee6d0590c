"""Claim: a corpus larger than memory trains in constant memory.

python benchmarks/corpus_memory.py --gigabytes 0.2 1 5 --folder DIR

For each size in turn, writes generated pairs as gzip-packed tables of about --shard-megabytes of text each, and runs
`dikkat train translator` on all of them with one small model. From outside it reads what Linux says of the process:
its most resident memory, and the most of its own (anonymous) memory and of mapped files that was seen at one time,
apart for preparation and training. Mapped files are cache of the disk, which the system takes back where it needs it.
Prints a JSON line a size. It needs about 2.5 times the text on the disk of --folder while it runs.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import ROOT, Measured, fail, note, parser, provenance

PHRASES = 100_000
WORDS = 30_000
PAIRS_AT_ONCE = 20_000
PHRASES_OF_A_PAIR = 5
EVERY = 0.1
"""Seconds between two looks at the process."""
SETTINGS = (
    "model.model_dim=64",
    "model.num_heads=4",
    "model.feed_forward_dim=128",
    "model.encoder_layers=1",
    "model.decoder_layers=1",
    "tokenizer.vocab_size=8000",
    "training.tokens_per_batch=4096",
)


def main() -> None:
    """Measure a training on shards of each size."""
    options = parser(__doc__)
    options.add_argument("--gigabytes", type=float, nargs="+", default=[0.2, 1.0], help="text of all shards together")
    options.add_argument("--folder", type=Path, help="where shards and runs lie meanwhile")
    options.add_argument("--shard-megabytes", type=float, default=250.0)
    options.add_argument("--minutes", type=float, default=1.0, help="time of the training after the preparation")
    options.add_argument("--set", action="append", default=list(SETTINGS), help="settings of the run")
    asked = options.parse_args()
    for gigabytes in asked.gigabytes:
        with tempfile.TemporaryDirectory(dir=asked.folder) as name:
            folder = Path(name)
            shards, pairs = write_shards(folder, round(gigabytes * 1e9), round(asked.shard_megabytes * 1e6))
            note(f"{gigabytes} GB: {pairs:,} pairs in {len(shards)} shards")
            found = train(folder, shards, asked.minutes, asked.set)
        result = {**provenance("training in constant memory"), "gigabytes": gigabytes, "pairs": pairs, **found}
        print(json.dumps(result), flush=True)


def write_shards(folder: Path, size: int, shard_size: int) -> tuple[list[Path], int]:
    """Write shards of `shard_size` bytes of text until there are `size`; return them, and the number of pairs."""
    blocks, shards, pairs, left = pair_blocks(seed=1), list[Path](), 0, size
    while left > 0:
        path = folder / f"{len(shards):05}.en-de.tsv.gz"
        room = min(left, shard_size)
        left -= room
        with gzip.open(path, "wb", compresslevel=1) as file:
            while room > 0:
                block = next(blocks)
                file.write(block)
                room -= len(block)
                pairs += PAIRS_AT_ONCE
        shards.append(path)
    return shards, pairs


def pair_blocks(seed: int) -> Iterator[bytes]:
    """Yield lines of a table of two columns, `PAIRS_AT_ONCE` each, without end; no two pairs are alike.

    A side is of about 90 characters: phrases of words that are as frequent as words of a language (Zipf's law).
    """
    random = np.random.default_rng(seed)
    sides = [phrases(random) for _ in range(2)]
    while True:
        chosen = random.integers(0, PHRASES, (PAIRS_AT_ONCE, PHRASES_OF_A_PAIR))
        lines = list[str]()
        for row in chosen.tolist():
            source, target = (" ".join([side[index] for index in row]) for side in sides)
            lines.append(f"{source}\t{target}\n")
        yield "".join(lines).encode()


def phrases(random: np.random.Generator) -> list[str]:
    """Return phrases of one to four words of a made-up language."""
    letters = np.array(list("abcdefghijklmnoprstuvyz"))
    frequency = 1.0 / np.arange(1, len(letters) + 1)
    lengths = random.integers(2, 11, WORDS)
    drawn = random.choice(letters, (WORDS, 10), p=frequency / frequency.sum())
    words = ["".join(row[:length]) for row, length in zip(drawn, lengths, strict=True)]
    rank = 1.0 / np.arange(1, WORDS + 1)
    numbers = random.choice(WORDS, (PHRASES, 4), p=rank / rank.sum()).tolist()
    counts = random.integers(1, 5, PHRASES).tolist()
    return [" ".join(words[number] for number in row[:count]) for row, count in zip(numbers, counts, strict=True)]


def train(folder: Path, shards: Sequence[Path], minutes: float, settings: Sequence[str]) -> Measured:
    """Train on shards in a process of its own; return what it took, apart for preparation and training."""
    run = folder / "run"
    command = [sys.executable, "-m", "dikkat", "train", "translator", *map(str, shards), "--out", str(run)]
    command += ["--minutes", str(minutes), *(word for setting in settings for word in ("--set", setting))]
    roots = os.pathsep.join(str(ROOT / part) for part in ("src", "runtime/src"))
    environment = {**os.environ, "PYTHONPATH": roots}
    free, begun = shutil.disk_usage(folder).free, time.perf_counter()
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        phases = {"preparation": Phase(), "training": Phase()}
        phase, least_free = phases["preparation"], free
        while process.poll() is None:
            phase.look(process.pid)
            least_free = min(least_free, shutil.disk_usage(folder).free)
            if phase is phases["preparation"] and (run / "config.json").exists():
                phase.end(process.pid, begun)
                phase, begun = phases["training"], time.perf_counter()
            time.sleep(EVERY)
        phase.seconds = time.perf_counter() - begun
    text = (folder / "log.txt").read_text(encoding="utf-8")
    if process.returncode:
        fail(f"the training ended with exit code {process.returncode}: {text}")
    return {
        **{name: phase.found() for name, phase in phases.items()},
        "most_disk_gigabytes": (free - least_free) / 1e9,
        "log": text.split("\n"),
    }


class Phase:
    """The most memory of a process in a part of its life."""

    def __init__(self) -> None:
        self._most = dict.fromkeys(("VmHWM", "RssAnon", "RssFile"), 0)
        self.seconds = 0.0

    def look(self, process: int) -> None:
        """Read what the process has now."""
        try:
            lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").split("\n")
        except (FileNotFoundError, ProcessLookupError):
            return
        for line in lines:
            name, _, value = line.partition(":")
            if name in self._most:
                self._most[name] = max(self._most[name], int(value.split()[0]))

    def end(self, process: int, begun: float) -> None:
        """Let the system forget the most that was resident."""
        self.look(process)
        self.seconds = time.perf_counter() - begun
        Path(f"/proc/{process}/clear_refs").write_text("5", encoding="ascii")

    def found(self) -> Measured:
        """Return seconds, and MiB by the names of Linux."""
        return {"seconds": self.seconds, **{name: kibibytes / 1024 for name, kibibytes in self._most.items()}}


if __name__ == "__main__":
    main()
