"""Claim: a corpus larger than memory trains in constant memory.

python benchmarks/corpus_memory.py --gigabytes 0.2 1 5 --folder DIR

For each size in turn, writes generated pairs as gzip-packed tables of about --shard-megabytes of text each, and runs
`dikkat train translator` on all of them with one small model. From outside it reads what Linux says of the process:
its most resident memory, and the most of its own (anonymous) memory and of mapped files that was seen at one time,
apart for preparation and training. Mapped files are cache of the disk, which the system takes back where it needs it.
Prints a JSON line a size. It needs about 2.5 times the text on the disk of --folder while it runs.

With --copies N the prepared corpus is repeated N times on the disk before training, which is then like that on N times
the text, without the hours that its preparation takes.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import ROOT, Measured, fail, note, parser, provenance

if TYPE_CHECKING:
    import numpy as np

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
)
TOKENS_PER_BATCH = 4096


def main() -> None:
    """Measure a training on shards of each size."""
    options = parser(__doc__)
    options.add_argument("--gigabytes", type=float, nargs="+", default=[0.2, 1.0], help="text of all shards together")
    options.add_argument("--folder", type=Path, help="where shards and runs lie meanwhile")
    options.add_argument("--shard-megabytes", type=float, default=250.0)
    options.add_argument("--updates", type=int, default=300, help="how long is trained")
    options.add_argument("--copies", type=int, default=1, help="how often the prepared corpus is repeated")
    options.add_argument("--set", action="append", default=list(SETTINGS), help="settings of the run")
    asked = options.parse_args()
    for gigabytes in asked.gigabytes:
        with tempfile.TemporaryDirectory(dir=asked.folder) as name:
            folder = Path(name)
            shards, pairs = write_shards(folder, round(gigabytes * 1e9), round(asked.shard_megabytes * 1e6))
            note(f"{gigabytes} GB: {pairs:,} pairs in {len(shards)} shards")
            length = (f"training.tokens_per_batch={TOKENS_PER_BATCH}", f"training.max_updates={asked.updates}")
            settings = [*asked.set, *length]
            found = train(folder, shards, settings, asked.copies)
        size = {"gigabytes": gigabytes, "pairs": pairs, "copies": asked.copies}
        result = {**provenance("training in constant memory"), **size, **found}
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
    import numpy as np

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
    import numpy as np

    letters = np.array(list("abcdefghijklmnoprstuvyz"))
    frequency = 1.0 / np.arange(1, len(letters) + 1)
    lengths = random.integers(2, 11, WORDS)
    drawn = random.choice(letters, (WORDS, 10), p=frequency / frequency.sum())
    words = ["".join(row[:length]) for row, length in zip(drawn, lengths, strict=True)]
    rank = 1.0 / np.arange(1, WORDS + 1)
    numbers = random.choice(WORDS, (PHRASES, 4), p=rank / rank.sum()).tolist()
    counts = random.integers(1, 5, PHRASES).tolist()
    return [" ".join(words[number] for number in row[:count]) for row, count in zip(numbers, counts, strict=True)]


def train(folder: Path, shards: Sequence[Path], settings: Sequence[str], copies: int) -> Measured:
    """Train on shards in a process of its own; return what it took, apart for preparation and training."""
    run = folder / "run"
    words = [*map(str, shards), "--out", str(run), *(word for setting in settings for word in ("--set", setting))]
    free = shutil.disk_usage(folder).free
    preparation, training = Phase(), Phase()
    with dikkat(folder, words) as process:
        preparation.watch(process, folder, until=run / "config.json")
        if copies == 1:
            training.watch(process, folder)
        else:
            # one that a job in the background of a shell does not ignore
            process.send_signal(signal.SIGTERM)
    if copies > 1:
        for name in ("ids", "offsets"):
            repeat(run / "corpus" / f"train.{name}.npy", copies)
        # it tells of the corpus as it was
        (run / "manifest.json").unlink()
        note("the corpus is repeated")
        with dikkat(folder, ["--out", str(run), "--resume"]) as process:
            training.watch(process, folder)
    text = (folder / "log.txt").read_text(encoding="utf-8")
    if process.returncode:
        fail(f"the training ended with exit code {process.returncode}: {text}")
    return {
        "preparation": preparation.found(free),
        "training": training.found(free),
        "corpus_gigabytes": sum(path.stat().st_size for path in (run / "corpus").iterdir()) / 1e9,
        "log": text.split("\n"),
    }


@contextmanager
def dikkat(folder: Path, words: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a training whose messages go to a file; wait for its end."""
    roots = os.pathsep.join(str(ROOT / part) for part in ("src", "runtime/src"))
    command = [sys.executable, "-m", "dikkat", "train", "translator", *words]
    with (folder / "log.txt").open("ab") as log:
        process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": roots}, stdout=log, stderr=log)
        yield process
        process.wait()


def repeat(path: Path, copies: int) -> None:
    """Repeat an array of a corpus in its file; of offsets, those of a copy follow those of the one before."""
    import numpy as np

    content = np.load(path)
    is_offsets = content.dtype == np.int64
    once = content[:-1] if is_offsets else content
    header = {"descr": np.lib.format.dtype_to_descr(content.dtype), "fortran_order": False}
    beside = path.with_name("repeated")
    with beside.open("wb") as file:
        shape = (len(once) * copies + is_offsets,)
        np.lib.format.write_array_header_1_0(file, {**header, "shape": shape})
        for number in range(copies):
            file.write((once + number * content[-1] if is_offsets else once).tobytes())
        if is_offsets:
            file.write((content[-1:] * copies).tobytes())
    beside.replace(path)


class Phase:
    """The most memory of a process in a part of its life."""

    def __init__(self) -> None:
        self._most = dict.fromkeys(("VmHWM", "RssAnon", "RssFile"), 0)
        self._least_free = sys.maxsize
        self._seconds = 0.0

    def watch(self, process: subprocess.Popen[bytes], folder: Path, until: Path | None = None) -> None:
        """Look at a process until it ends, or a file is there; then the system forgets the most that was resident."""
        begun = time.perf_counter()
        while process.poll() is None and not (until is not None and until.exists()):
            self._look(process.pid)
            self._least_free = min(self._least_free, shutil.disk_usage(folder).free)
            time.sleep(EVERY)
        if process.poll() is None:
            self._look(process.pid)
            Path(f"/proc/{process.pid}/clear_refs").write_text("5", encoding="ascii")
        self._seconds = time.perf_counter() - begun

    def _look(self, process: int) -> None:
        try:
            lines = Path(f"/proc/{process}/status").read_text(encoding="ascii").split("\n")
        except (FileNotFoundError, ProcessLookupError):
            return
        for line in lines:
            name, _, value = line.partition(":")
            if name in self._most:
                self._most[name] = max(self._most[name], int(value.split()[0]))

    def found(self, free: int) -> Measured:
        """Return seconds, MiB by the names of Linux, and what was taken of the bytes that were `free` on the disk."""
        mebibytes = {name: kibibytes / 1024 for name, kibibytes in self._most.items()}
        return {"seconds": self._seconds, **mebibytes, "disk_gigabytes": (free - self._least_free) / 1e9}


if __name__ == "__main__":
    main()
