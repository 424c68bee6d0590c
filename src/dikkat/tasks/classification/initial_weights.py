"""Initialize a classifier from the embeddings, encoder and tokenizer of another run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from dikkat.config import RunConfig
from dikkat.models.factory import build_classifier
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.settings import Settings
from dikkat_runtime.errors import UsageError

INITIAL = "initial.safetensors"
"""Name of the file of initial weights in the new run's own directory, since the other run may move."""

_BACKBONE = ("embedding.", "positions.", "embedding_norm.", "encoder.")
_FREE = (
    "vocab_size", "target_vocab_size", "dropout", "attention_dropout", "start_from_zero", "add_source_eos",
    "target_prefix",
)  # fmt: skip
"""Settings that no shape of a backbone depends on, and the size of the vocabulary, which comes with the tokenizer."""
_RENAMED = {
    "translator": {"source_embedding.": "embedding."},
    # a language model is one stack of encoder blocks, which it calls its decoder
    "lm": {"decoder.": "encoder."},
    "classifier": {},
}
"""Kinds of runs that keep the parts of a classifier's backbone under another name."""


def shape_settings(path: Path) -> Settings:
    """Return settings for a backbone of the shape of the run at `path`. Raises `UsageError` where it has none."""
    run = RunDirectory.open(path)
    settings = run.read_config()
    task = _task(run, settings)
    model = {key: value for key, value in settings["model"].items() if key not in _FREE}
    if task == "lm":
        model["encoder_layers"] = model["decoder_layers"]
    return {"model": model, "tokenizer": settings["tokenizer"]}


def initial_model(path: Path, config: RunConfig, num_classes: int) -> dict[str, Tensor]:
    """Return all weights of a classifier of `config`, those of the backbone from the run at `path`.

    Raises `UsageError` naming the first part that the run does not have or that has another shape.
    """
    run = RunDirectory.open(path)
    renamed = _RENAMED[_task(run, run.read_config())]
    tensors: dict[str, Tensor] = {}
    for name, tensor in run.load_weights().items():
        old = next((prefix for prefix in renamed if name.startswith(prefix)), "")
        tensors[renamed.get(old, "") + name.removeprefix(old)] = tensor
    if "output_weight" in tensors:
        # a matrix that is tied is saved once, under the name of the output
        tensors.setdefault("embedding.weight", tensors["output_weight"])
    model = build_classifier(config.model, config.classifier, num_classes, config.training.seed)
    own = {name: parameter.detach() for name, parameter in model.named_parameters()}
    for name, tensor in own.items():
        if not name.startswith(_BACKBONE):
            continue
        if name not in tensors:
            raise UsageError(f"{path}: cannot begin with it: it has no {name}")
        if tensors[name].shape != tensor.shape:
            theirs, ours = (tuple(shape) for shape in (tensors[name].shape, tensor.shape))
            raise UsageError(f"{path}: cannot begin with it: {name} has the shape {theirs} there, but {ours} here")
        own[name] = tensors[name]
    return own


def _task(run: RunDirectory, settings: dict[str, Any]) -> str:
    task = settings.get("task")
    if task not in _RENAMED:
        raise UsageError(f'{run.path}: holds a "{task}", whose encoder a classifier cannot begin with')
    return str(task)
