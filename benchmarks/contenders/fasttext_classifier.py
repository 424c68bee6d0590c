"""Train fastText on labelled lines and print its answers to others, as JSON; run by `classifiers.py`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import fasttext  # type: ignore[import-not-found]


def main() -> None:
    """Learn the lines of one file, and answer those of another."""
    job = json.loads(sys.argv[1])
    rows = [line.split("\t", 1) for line in Path(job["train"]).read_text(encoding="utf-8").split("\n")[:-1]]
    labels = sorted({label for label, _ in rows})
    lines = Path(job["folder"]) / "fasttext.txt"
    written = [f"__label__{labels.index(label)} {text}\n" for label, text in rows]
    lines.write_text("".join(written), encoding="utf-8")
    started = time.process_time()
    # the settings of its tutorial on text classification, and one thread so that the answer is the same each time
    model = fasttext.train_supervised(str(lines), lr=1.0, epoch=25, wordNgrams=2, thread=1, verbose=0)
    texts = Path(job["test"]).read_text(encoding="utf-8").split("\n")[:-1]
    # its wrapper asks numpy 1 for an array without a copy where there are several lines
    answers = [model.f.predict(f"{text}\n", 1, 0.0, "strict") for text in texts]
    named = [labels[int(found[0][1].removeprefix("__label__"))] if found else labels[0] for found in answers]
    print(json.dumps({"answers": named, "seconds": time.process_time() - started}))


if __name__ == "__main__":
    main()
