"""Vectors of lines of text, and of their tokens, by any trained model and any engine."""

from __future__ import annotations

from pathlib import Path

from dikkat.run_directory import RunDirectory
from dikkat.tasks.kinds import load_part
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import Device
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.messages import msg
from dikkat_runtime.tasks import embedder
from dikkat_runtime.tasks.embedder import WINDOW, Vector

__all__ = ["WINDOW", "Embedder", "Vector"]


class Embedder(embedder.Embedder):
    """A trained translator (its encoder), classifier, language model or imported encoder, as a source of vectors."""

    @classmethod
    def load(  # type: ignore[override]
        cls,
        path: str | Path,
        precision: PrecisionName = "float32",
        device: Device = "cpu",
        engine: EngineName = "auto",
    ) -> Embedder:
        """Load the model of a run directory.

        Raises `MissingInputError` or `DataError` naming the file, and `UsageError` for a kind without vectors and an
        engine that cannot run.
        """
        run = RunDirectory.open(Path(path))
        make = load_part(run, "embedder", msg("which this version has no vectors of"))
        opened: embedder.Embedder = make(run, engine, precision, device)
        return cls(opened.engine, opened.reading)
