"""Child of train_peers.py: the prepared pairs as files of pieces with spaces between, and the vocabulary as a list."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.contenders.peer_tokenizer import PeerTokenizer

from dikkat.data.corpus import Corpus, Ids
from dikkat.run_directory import RunDirectory


def main(job: dict[str, Any]) -> dict[str, Any]:
    run, out = RunDirectory.open(Path(job["run"])), Path(job["out"])
    names = PeerTokenizer(job["run"]).vocabulary()
    for part in ("train", "validation"):
        corpus = Corpus.open(run.corpus, part, vocab_size=run.read_config()["model"]["vocab_size"])
        write(out / f"{part}.en", (corpus.source(place) for place in range(len(corpus))), names)
        write(out / f"{part}.de", (corpus.target(place) for place in range(len(corpus))), names)
    (out / "vocabulary.txt").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    return {"entries": len(names)}


def write(path: Path, rows: Iterator[Ids], names: list[str]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(" ".join(names[token] for token in row) + "\n" for row in rows)


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
