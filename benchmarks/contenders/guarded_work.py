"""Child of guard.py: one piece of work by the checkout that is on the path, timed without loading.

It asks only for what checkouts before and after the engines have alike.
"""

from __future__ import annotations

import hashlib
import json
import resource
import sys
import tempfile
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# as the command does, before torch is loaded; in checkouts of before its folder has another name
_KERNELS = "dikkat.kernels" if find_spec("dikkat.kernels") else "dikkat.native"
import_module(f"{_KERNELS}.environment").set_environment()

ALONE = 50
OPENINGS = 10
TRAININGS = {
    "training 3+3": ("translator", "pairs", ["--preset", "small"]),
    "training IMDB": ("classifier", "labelled", []),
    "training LM": ("lm", "text", []),
}


def main(job: dict[str, Any]) -> dict[str, Any]:
    work = training if job["row"] in TRAININGS else opening if job["row"] == "opening" else translating
    return {**work(job), "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def opening(job: dict[str, Any]) -> dict[str, Any]:
    """Seconds of opening a run some times, after once that loads what is imported late."""
    from dikkat import Translator

    Translator.load(job["run"], job["precision"])
    start = clocks()
    for _ in range(OPENINGS):
        Translator.load(job["run"], job["precision"])
    return since(start)


def translating(job: dict[str, Any]) -> dict[str, Any]:
    """Seconds of all sentences in batches, or of some one by one, after a few that warm up; and what was written."""
    from dikkat import Translator

    lines = Path(job["lines"]).read_text(encoding="utf-8").rstrip("\n").split("\n")
    translator = Translator.load(job["run"], job["precision"])
    beam_size = 5 if job["row"] == "beam 5" else 1
    alone = job["row"] == "one sentence alone"
    batches = [[line] for line in lines[:ALONE]] if alone else [lines]
    translator.translate(lines[:3] if alone else lines[:64], beam_size=beam_size)
    start = clocks()
    translations = [translator.translate(batch, beam_size=beam_size) for batch in batches]
    seconds = since(start)
    text = "\n".join(translation.text for batch in translations for translation in batch)
    return {**seconds, "text_sha256": hashlib.sha256(text.encode()).hexdigest()}


def training(job: dict[str, Any]) -> dict[str, Any]:
    """Seconds from the second update of a new run to its last, in a folder that is thrown away.

    The first update finds its memory; what a run does before and after its updates is not compared.
    """
    from dikkat.training.loop import Trainer

    # the program was that of dikkat once, and is the runtime's now
    program = "dikkat.cli.main" if find_spec("dikkat.cli.main") else "dikkat_runtime.cli.main"
    run = import_module(program).run
    kind, data, more = TRAININGS[job["row"]]
    begun: list[dict[str, float]] = []
    launch = Trainer.launch

    def timed(*arguments: Any) -> Any:
        begun.append(clocks())
        return launch(*arguments)

    Trainer.launch = timed  # type: ignore[method-assign, assignment]
    with tempfile.TemporaryDirectory() as folder:
        out = ["--out", str(Path(folder) / "run")]
        limits = ["--set", f"training.max_updates={job['updates'] + 2}", "--set", "training.validations=1"]
        if code := run(["train", kind, job[data], *out, *more, *limits]):
            sys.exit(code)
    return {clock: begun[-1][clock] - begun[1][clock] for clock in begun[0]}


def clocks() -> dict[str, float]:
    return {"wall": time.perf_counter(), "processor": time.process_time()}


def since(start: dict[str, float]) -> dict[str, float]:
    return {clock: value - start[clock] for clock, value in clocks().items()}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
