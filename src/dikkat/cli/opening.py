"""Open the model of a run for the commands of `dikkat_runtime.cli`, by the native or the torch engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from dikkat.kernels.environment import set_environment
from dikkat_runtime.cli.opening import EngineOptions, ModelKind


def open_model(kind: ModelKind, run: Path, choice: EngineOptions) -> Any:
    """Return the model of a run directory; raises as the opener of its kind."""
    # before PyTorch is loaded, which may not be needed
    set_environment()
    model = _open(kind, run, choice)
    if choice.threads is not None:
        import torch

        torch.set_num_threads(choice.threads)
    return model


def _open(kind: ModelKind, run: Path, choice: EngineOptions) -> Any:
    engine, precision, device = choice.engine, choice.precision, choice.device
    if kind == "translator":
        from dikkat.tasks.translation.opening import open_translator

        return open_translator(run, engine, precision, device, all_words=choice.all_words)
    if kind == "classifier":
        from dikkat.tasks.classification.opening import open_classifier

        return open_classifier(run, engine, precision, device)
    if kind == "generator":
        from dikkat.tasks.language_model.opening import open_language_model

        return open_language_model(run, engine, precision, device)
    if kind == "cross_embedder":
        from dikkat.tasks.translation.cross_embedder import open_cross_embedder

        return open_cross_embedder(run, precision, device, engine)
    from dikkat.tasks.embedding.embedder import Embedder

    return Embedder.load(run, precision, device, engine)
