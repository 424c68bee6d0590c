"""A language model as a source of vectors."""

from __future__ import annotations

from dikkat.run_directory import RunDirectory
from dikkat.tasks.language_model.opening import open_language_model
from dikkat_runtime.engine.contract import EngineName
from dikkat_runtime.engine.options import Device
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.special_tokens import BOS_ID
from dikkat_runtime.tasks.embedder import Embedder, longest_text, of_language_model
from dikkat_runtime.text.tokenizer import Tokenizer


def language_model_embedder(
    run: RunDirectory, engine: EngineName, precision: PrecisionName, device: Device
) -> Embedder:
    """States before the output matrix. Raises as `open_language_model`."""
    model = open_language_model(run.path, engine, precision, device)
    begin = [BOS_ID] if isinstance(model.tokenizer, Tokenizer) else []
    longest = longest_text(run.path, run.read_config(), model.context, special=len(begin))
    return of_language_model(model, longest, begin)
