"""Child of guard.py: one piece of work by the checkout that is on the path, timed without loading.

It asks only for what checkouts before and after the engines have alike.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# as the command does, before torch is loaded; in checkouts of before its folder has another name
_KERNELS = "dikkat.kernels" if find_spec("dikkat.kernels") else "dikkat.native"
import_module(f"{_KERNELS}.environment").set_environment()

ALONE = 50
TRAININGS = {
    "training 3+3": ("translator", "pairs", ["--preset", "small"]),
    "training IMDB": ("classifier", "labelled", []),
    "training LM": ("lm", "text", []),
}


def main(job: dict[str, Any]) -> dict[str, Any]:
    work = training(job) if job["row"] in TRAININGS else translating(job)
    wall, processor = time.perf_counter(), time.process_time()
    work()
    return {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}


def translating(job: dict[str, Any]) -> Callable[[], object]:
    """All sentences in batches, or some one by one, after a few that warm up."""
    from dikkat import Translator

    lines = Path(job["lines"]).read_text(encoding="utf-8").rstrip("\n").split("\n")
    translator = Translator.load(job["run"], job["precision"])
    if job["row"] == "one sentence alone":
        translator.translate(lines[:3], beam_size=1)
        return lambda: [translator.translate([line], beam_size=1) for line in lines[:ALONE]]
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
            limits = ["--set", f"training.max_updates={job['updates']}", "--set", "training.validations=1"]
            if code := run(["train", kind, job[data], *out, *more, *limits]):
                sys.exit(code)

    return train


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
