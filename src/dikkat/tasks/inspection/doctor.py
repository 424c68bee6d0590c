"""Load the model of a run directory or checkpoint and examine it."""

from functools import partial
from pathlib import Path
from typing import Literal, cast

import torch

from dikkat.config import RunConfig
from dikkat.explain.doctor import Proof, examine
from dikkat.explain.doctor.specimen import ExaminableModel
from dikkat.models.classifier import EncoderClassifier
from dikkat.models.language_model import LanguageModel
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.settings import run_config
from dikkat.tasks.common.weights import build_checked, load_weights
from dikkat.tasks.inspection.native_proofs import Native, examine_native
from dikkat.tasks.kinds import load_part
from dikkat.torch_engine.texts import classifier_in_memory, engine_in_memory, language_model_in_memory
from dikkat_runtime.engine.choose import why_not_native
from dikkat_runtime.engine.contract import EngineInfo
from dikkat_runtime.engine.forced_attention import FORCED, ForcedAttention
from dikkat_runtime.engine.settings import NeedsTorchError, model_settings
from dikkat_runtime.engine.weights import Weights
from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.native.cpu import available_threads


def examine_path(
    path: Path, seed: int = 1, engine: Literal["torch", "native"] = "torch"
) -> tuple[list[Proof], EngineInfo]:
    """Run every check of the doctor on the model at `path`, a run or a checkpoint, by an engine.

    The engine "torch" is the model's own modules; "native" is proved against them.
    Raises `MissingInputError` or `DataError` naming the file that is missing or damaged, and `UsageError` for a model
    whose settings are unknown or whose learned positions are too few to be examined.
    """
    model = load_model(path)
    if engine == "native":
        run, config = _run_of(path)
        native, attention = _native_engine(model, run, config)
        return examine_native(model, native, attention, seed), native.info
    return examine(model, seed), EngineInfo("torch", "float32", torch.get_num_threads())


def load_model(path: Path) -> ExaminableModel:
    """Load the model at `path` in float32: the best weights of a run, or those of a checkpoint."""
    run, config = _run_of(path)
    checkpoint = path if run.path.resolve() != path.resolve() else None
    build = load_part(run, "build", msg("which the doctor cannot examine"))
    model: ExaminableModel = build_checked(run, config.model, partial(build, run, config), checkpoint)
    load_weights(model, run, checkpoint, must_be_finite=False)
    return model.eval()


def _run_of(path: Path) -> tuple[RunDirectory, RunConfig]:
    """The run that a path is or lies in; a checkpoint shares the settings of its run, two levels up."""
    is_checkpoint = path.resolve().parent.name == "checkpoints" and not (path / "config.json").exists()
    run = RunDirectory.open(path.resolve().parents[1] if is_checkpoint else path)
    return run, run_config(run.read_config(), str(run.config))


def _native_engine(
    model: ExaminableModel, run: RunDirectory, config: RunConfig
) -> tuple[Native, ForcedAttention | None]:
    """Return the native engine with the weights of `model`, and what aligns a translator, or raise as that does."""
    settings = run.read_config()
    if why := why_not_native(settings, str(run.config)):
        raise UsageError("the native engine cannot run here: {reason}", why)
    if isinstance(model, EncoderClassifier):
        return cast(Native, classifier_in_memory(model, config.model, config.classifier)), None
    if isinstance(model, LanguageModel):
        return cast(Native, language_model_in_memory(model, config.model)), None
    try:
        shape = model_settings(settings, str(run.config), FORCED)
    except NeedsTorchError:
        attention = None
    else:
        arrays = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
        attention = ForcedAttention(Weights(arrays, str(run.weights), False, available_threads()), shape)
    return cast(Native, engine_in_memory(model, config.model)), attention
