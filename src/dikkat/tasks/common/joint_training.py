"""Let the ranks of one training begin together, with the same settings and the same data."""

from __future__ import annotations

import hashlib
import json

from dikkat.config import TrainingConfig
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.version import installed_version
from dikkat.training.distributed.ranks import Ranks
from dikkat.training.task import Validation
from dikkat.training.watching import StepReport
from dikkat_runtime.errors import UsageError
from dikkat_runtime.run.manifest import listed


class SilentWatcher:
    """Ignore what happens, on ranks that are not the first; see `Watcher`."""

    def step(self, report: StepReport) -> None:
        return None

    def validation(self, row: dict[str, float], validation_result: Validation, is_best: bool) -> None:
        return None

    def note(self, text: str) -> None:
        return None


def require_parts(run: RunDirectory, config: TrainingConfig, count: int) -> None:
    """Raise `UsageError` where there are more ranks than parts of a micro-batch."""
    if count > config.micro_batches:
        raise UsageError(
            f"{run.path}: its micro-batches are cut into {config.micro_batches} (training.micro_batches), which {count}"
            f" processes cannot share; give --nproc {config.micro_batches}, or begin anew in another --out"
        )


def begin_together(ranks: Ranks, run: RunDirectory, started: float) -> float:
    """Compare what the ranks are about to train on; returns when the first one started. Raises `DataError`."""
    # what a rank sees of the data: the checksums that the preparation wrote, and how long the files are
    sizes = {name: (run.path / name).stat().st_size if (run.path / name).exists() else -1 for name in listed(run.path)}
    facts = {
        "settings": _digest(run.read_config()),
        "data": _digest({name: [sizes[name], str(entry)] for name, entry in listed(run.path).items()}),
        "dikkat": installed_version(),
    }
    ranks.check_same(facts, str(run.path))
    (started,) = ranks.share([started])
    return started


def _digest(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
