"""The encoder of a translator as a source of vectors."""

from __future__ import annotations

from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.settings import run_config
from dikkat.tasks.translation.opening import open_translator
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import Device
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.tasks.embedder import Embedder, longest_text, of_translator


def translator_embedder(run: RunDirectory, engine: EngineName, precision: PrecisionName, device: Device) -> Embedder:
    """The encoder, which reads as in training. Raises as `open_translator`."""
    settings = run.read_config()
    # nothing is written, so that no shortlist is needed
    translator = open_translator(run.path, engine, precision, device, all_words=True)
    config = run_config(settings, str(run.config))
    longest = longest_text(run.path, config.model_dump(), config.data.max_length, special=1)
    return of_translator(translator, longest, config.model.model_dim, config.model.add_source_eos)
