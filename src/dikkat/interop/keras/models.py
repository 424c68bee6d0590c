"""The translator and the classifier in Keras 3, with the weights of a run and the logits of the PyTorch engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from dikkat.config import ClassifierConfig, ModelConfig
from dikkat.interop.keras.layers import Block, Embedding, Tensor, Weights, fill_dense, fill_norm, norm
from dikkat.run_directory import RunDirectory
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.special_tokens import PAD_ID

ALLOWED: dict[str, tuple[object, ...]] = {
    "activation": ("relu", "gelu", "gelu_tanh"),
    "norm": ("layer",),
    "positions": ("sinusoidal", "sinusoidal_concatenated", "learned"),
    "positions_in_every_layer": (False,),
    "decoder_memory": ("attention",),
    "score": ("scaled_dot", "dot"),
    "selection": ("soft",),
    "attention_window": (None,),
    "num_kv_heads": (None,),
}
"""Settings that these layers compute."""


class Translator(keras.Model):
    """Map ids of the source (B, S) and of the target (B, T), padding 0, to logits (B, T, V) of each next token."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        check(config)
        self.source = Embedding(config)
        joint = config.tie_embeddings and config.target_vocab_size is None
        self.target = self.source if joint else Embedding(config, config.target_vocab_size)
        self.encoder = [Block(config) for _ in range(config.encoder_layers)]
        self.decoder = [Block(config, reads=True) for _ in range(config.decoder_layers)]
        self.final_norms = [norm(config), norm(config)] if config.norm_placement == "pre" else []
        self.logits = None
        if not config.tie_embeddings:
            size = config.target_vocab_size or config.vocab_size
            self.logits = keras.layers.Dense(size, use_bias=config.output_bias)
        elif config.output_bias:
            raise UsageError("a tied output matrix with a bias is not something that the Keras layers compute")
        self((np.ones((1, 2), "int32"), np.ones((1, 2), "int32")))  # makes the variables

    def call(self, inputs: tuple[Tensor, Tensor], training: bool = False) -> Tensor:
        """Return the logits for a pair of source and target ids."""
        source, target = inputs
        # (B, S) -> (B, 1, 1, S), and (T, T)
        real, past = (source != PAD_ID)[:, None, None, :], ops.tril(ops.ones((target.shape[1],) * 2, dtype="bool"))
        memory, x = self.source(source, training=training), self.target(target, training=training)
        for block in self.encoder:
            memory = block(memory, real, training=training)
        memory = self._final(0, memory)
        for block in self.decoder:
            x = block(x, past, memory, real, training=training)
        x = self._final(1, x)
        return self.target.project(x) if self.logits is None else self.logits(x)

    def fill(self, weights: Weights) -> None:
        """Take all of our exported weights. Raises `DataError` naming one that is missing or left over."""
        left = dict(weights)
        try:
            if self.target is self.source:
                # a tied matrix is saved once
                tied = next(name for name in ("output_weight", "source_embedding.weight") if name in left)
                self.source.fill(left, tied)
            else:
                # a tied matrix of a vocabulary of its own is saved once, too
                target = "output_weight" if self.logits is None else "target_embedding.weight"
                self.target.fill({**left, "embedding": left.pop(target)}, "embedding")
                self.source.fill(left, "source_embedding.weight")
            if self.logits is not None:
                left["logits.weight"] = left.pop("output_weight")
                if self.logits.use_bias:
                    left["logits.bias"] = left.pop("output_bias")
                fill_dense(self.logits, left, "logits")
            for stack in ("encoder", "decoder"):
                for number, block in enumerate(getattr(self, stack)):
                    block.fill(left, f"{stack}.blocks.{number}")
            for stack, layer in zip(("encoder", "decoder"), self.final_norms, strict=False):
                fill_norm(layer, left, f"{stack}.final_norm")
        except KeyError as error:
            raise DataError(f"the weight {error.args[0]} is missing") from None
        check_used(left)

    def _final(self, stack: int, x: Tensor) -> Tensor:
        return self.final_norms[stack](x) if self.final_norms else x


class Classifier(keras.Model):
    """Map ids (B, S), padding 0, to the logits (B, C) of the classes."""

    def __init__(self, config: ModelConfig, head_config: ClassifierConfig, num_classes: int) -> None:
        super().__init__()
        check(config)
        if head_config.objective != "cross_entropy" or head_config.pooling == "attention" or head_config.ngram_rows:
            raise UsageError(
                "the Keras classifier has a logit a class, pools by the mean, the first word or the max, and has no"
                " n-gram table"
            )
        self.pooling = head_config.pooling
        self.embedding = Embedding(config)
        self.encoder = [Block(config) for _ in range(config.encoder_layers)]
        self.final_norm = norm(config) if config.norm_placement == "pre" else None
        self.dropout = keras.layers.Dropout(config.dropout)
        self.output_layer = keras.layers.Dense(num_classes)
        self(np.ones((1, 2), "int32"))

    def call(self, ids: Tensor, training: bool = False) -> Tensor:
        """Return the logits for `ids`."""
        real = ids != PAD_ID
        x = self.embedding(ids, training=training)
        for block in self.encoder:
            x = block(x, real[:, None, None, :], training=training)
        x = x if self.final_norm is None else self.final_norm(x)
        return self.output_layer(self.dropout(self._pooled(x, real), training=training))

    def fill(self, weights: Weights) -> None:
        """Take all of our exported weights. Raises `DataError` naming one that is missing or left over."""
        left = dict(weights)
        try:
            self.embedding.fill(left, "embedding.weight")
            for number, block in enumerate(self.encoder):
                block.fill(left, f"encoder.blocks.{number}")
            if self.final_norm is not None:
                fill_norm(self.final_norm, left, "encoder.final_norm")
            fill_dense(self.output_layer, left, "output")
        except KeyError as error:
            raise DataError(f"the weight {error.args[0]} is missing") from None
        check_used(left)

    def _pooled(self, x: Tensor, real: Tensor) -> Tensor:
        if self.pooling == "first":
            return x[:, 0]
        if self.pooling == "max":
            return ops.max(ops.where(real[..., None], x, -3e38), axis=1)
        share = ops.cast(real, x.dtype) / ops.sum(ops.cast(real, x.dtype), axis=1, keepdims=True)
        return ops.sum(share[..., None] * x, axis=1)


def load(path: str | Path) -> Translator | Classifier:
    """Load the model of a run directory. Raises `UsageError` for one that these layers do not compute."""
    run = RunDirectory.open(Path(path))
    settings = run.read_config()
    config = ModelConfig.model_validate(settings["model"])
    weights: dict[str, Any] = {name: tensor.float().numpy() for name, tensor in run.load_weights().items()}
    if settings.get("task") == "classifier":
        head_config = ClassifierConfig.model_validate(settings["classifier"])
        model: Translator | Classifier = Classifier(config, head_config, len(settings["labels"]))
    elif settings.get("task") == "translator":
        model = Translator(config)
    else:
        raise UsageError(f"{path}: holds a {settings.get('task')}; the Keras models are a translator and a classifier")
    model.fill(weights)
    return model


def check(config: ModelConfig) -> None:
    """Raise `UsageError` naming a setting that these layers do not compute."""
    for name, values in ALLOWED.items():
        if (value := getattr(config, name)) not in values:
            raise UsageError(f"model.{name} = {value} is not something that the Keras layers compute; use PyTorch")


def check_used(left: Weights) -> None:
    """Raise `DataError` for a weight that no layer took."""
    if left:
        raise DataError(f"the weight {min(left)} has no place in this model")
