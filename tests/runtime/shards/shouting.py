"""A driver over a model that needs no run: it writes texts in capitals, slowly, and dies of some.

Called as a script it does one call of `translate-files` with the JSON of its options, as the tests that kill it do.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dikkat_runtime.engine.contract import EngineInfo
from dikkat_runtime.errors import DikkatError
from dikkat_runtime.rows import line_rows
from dikkat_runtime.rows.contract import Column, Values
from dikkat_runtime.rows.locks import locked
from dikkat_runtime.shards import work
from dikkat_runtime.shards.call import Call, local_share, plan_shards, shards_of_part
from dikkat_runtime.shards.driver import Driver, Result
from dikkat_runtime.shards.processes import LocalWorkers, Workers
from dikkat_runtime.shards.work import Job
from dikkat_runtime.shards.writing import missing_shards

FINGERPRINT = {"model": "shouting", "options": {}}
SMALL_CHUNKS = "small-chunks"


class ShoutingModel:
    """Answers a text by the same in capitals."""

    def __init__(self, job: Job) -> None:
        self.info = EngineInfo("native", "float32", job.threads)
        self.columns = [Column(job.output_column or "translation", "text")]
        self.counts = Counter[str]()
        self.fingerprint = str(FINGERPRINT["model"])

    def answers(self, texts: Sequence[str]) -> list[Values]:
        """Return the capitals; POISON kills the process, SLOW takes time."""
        for text in texts:
            if text == "POISON":
                os.kill(os.getpid(), signal.SIGKILL)
            if text == "BUG":
                raise ValueError("a bug of ours")
            if text.startswith("SLOW"):
                time.sleep(0.002)
        return [(text.upper(),) for text in texts]

    def line_of(self, text: str, values: Values) -> str:
        """Return the capitals."""
        return str(values[0])


def open_shouting(job: Job) -> ShoutingModel:
    """Return the model; with a run called `SMALL_CHUNKS`, it reads few rows at a time."""
    if job.run.name == SMALL_CHUNKS:
        vars(line_rows)["CHUNK_ROWS"] = 20
    return ShoutingModel(job)


def job(**options: Any) -> Job:
    """Return a job for the model of this file."""
    kept = {"run": Path("none"), "task": "translate", "opener": "tests.runtime.shards.shouting:open_shouting"}
    return Job(**{**kept, **options})


def shout(
    inputs: Sequence[Path],
    out: Path,
    *,
    workers: int = 2,
    part: str | None = None,
    split_from: int = work.SPLIT_FROM,
    ray_address: str = "",
    **options: Any,
) -> Result:
    """Do a call, with one thread a worker, as `run_call` does; files of `split_from` bytes are shared by workers.

    With `ray_address`, the workers are actors of the Ray that runs there.
    """
    work.SPLIT_FROM = split_from
    if split_from < 1 << 20:
        options["run"] = Path(SMALL_CHUNKS)
    asked = Call(inputs=inputs, out=out, workers=workers)
    plan = plan_shards(asked.inputs, asked.out)
    shards = plan.shards if part is None else shards_of_part(plan.shards, part)
    with locked(out, part):
        missing = missing_shards(shards, FINGERPRINT, force=False)
        if not missing:
            return Result(skipped_items=len(shards))
        kind: Workers
        if ray_address:
            from dikkat_runtime.shards.ray_workers import RayWorkers, ray_share

            count, _ = ray_share(workers, 1, ray_address, missing)
            kind = RayWorkers(job(**options), FINGERPRINT)
        else:
            count, _ = local_share(workers, 1, missing)
            kind = LocalWorkers(job(**options), FINGERPRINT)
        driver = Driver(kind, count, missing, sys.stderr)
        try:
            driver.say(driver.estimate())
            result = driver.run()
        finally:
            driver.close()
    result.skipped_items = len(shards) - len(missing)
    return result


def main() -> None:
    """Do the call that the first argument describes."""
    options = json.loads(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        shout([Path(name) for name in options.pop("inputs")], Path(options.pop("out")), **options).check()
    except DikkatError as error:
        print(f"shouting: {error}", file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
