"""Child of guard.py: one piece of work by the checkout that is on the path, timed without loading.

It asks only for what checkouts before and after the engines have alike.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

try:
    from dikkat.kernels.environment import set_environment
except ModuleNotFoundError:  # a checkout from before dikkat.kernels
    from dikkat.native.environment import set_environment  # type: ignore[import-not-found,unused-ignore,no-redef]

# as the command does, before torch is loaded
set_environment()

UPDATES = 40
TRAININGS = {
    "training 3+3": ("translator", "pairs", ["--preset", "small"]),
    "training IMDB": ("classifier", "labelled", []),
    "training LM": ("lm", "text", []),
}


def main(job: dict[str, Any]) -> dict[str, Any]:
    work = training(job) if job["row"] in TRAININGS else translating(job)
    started = time.perf_counter()
    work()
    return {"seconds": time.perf_counter() - started}


def translating(job: dict[str, Any]) -> Callable[[], object]:
    """All sentences in batches, or the first fifty one by one, after a few that warm up."""
    from dikkat import Translator

    with open(job["lines"], encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in islice(file, job["sentences"])]
    translator = Translator.load(job["run"], job["precision"])
    if job["row"] == "one sentence alone":
        translator.translate(lines[:3], beam_size=1)
        return lambda: [translator.translate([line], beam_size=1) for line in lines[:50]]
    beam_size = 5 if job["row"] == "beam 5" else 1
    translator.translate(lines[:64], beam_size=beam_size)
    return lambda: translator.translate(lines, beam_size=beam_size)


def training(job: dict[str, Any]) -> Callable[[], object]:
    """A few updates of a new run, its preparation and one validation included, in a folder that is thrown away."""
    from dikkat.cli.main import run

    kind, data, more = TRAININGS[job["row"]]

    def train() -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = ["--out", str(Path(folder) / "run")]
            limits = ["--set", f"training.max_updates={UPDATES}", "--set", "training.validations=1"]
            if code := run(["train", kind, job[data], *out, *more, *limits]):
                sys.exit(code)

    return train


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
