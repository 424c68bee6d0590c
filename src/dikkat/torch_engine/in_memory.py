"""The engine for a model in memory, whose weights may still change."""

from __future__ import annotations

import torch

from dikkat.config import ModelConfig
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.torch_engine.engine import TorchEngine
from dikkat_runtime.engine.choose import why_not_native
from dikkat_runtime.engine.contract import Engine
from dikkat_runtime.engine.native import NativeEngine
from dikkat_runtime.engine.settings import NATIVE, model_settings

_WHERE = "the model"


def engine_in_memory(model: EncoderDecoder, config: ModelConfig) -> Engine:
    """The native engine with the weights that `model`, built by `config`, has now; else the torch engine over it."""
    settings = {"model": config.model_dump()}
    why = why_not_native(settings, _WHERE)
    if why is None and model.output_weight.device.type != "cpu":
        why = f"the model is on {model.output_weight.device.type}"
    if why is not None:
        return TorchEngine(model, why_not_native=why)
    # a model in training may be computed with in bfloat16, which numpy does not have
    arrays = {name: parameter.detach().float().numpy() for name, parameter in model.named_parameters()}
    return NativeEngine(model_settings(settings, _WHERE, NATIVE), arrays, _WHERE, threads=torch.get_num_threads())
