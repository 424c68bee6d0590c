"""Shapes of our weights, known before any number is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Size, nn

from dikkat.config import ModelConfig
from dikkat.models.factory import Factory
from dikkat.models.key_table import Row
from dikkat_runtime.errors import DataError
from dikkat_runtime.text.foreign_json import shown

_LAYER = re.compile(r"^((?:encoder|decoder)\.blocks)\.\d+\.")


def our_shapes(
    rows: Sequence[Row], model: ModelConfig, build: Callable[[Factory], nn.Module], settings: Path
) -> dict[str, Size]:
    """Return the shape of the weight of each row, from a model of one layer without numbers: all layers are alike.

    Raises `DataError` naming the file of `settings` where no model is of these sizes.
    """
    short = dict.fromkeys(("encoder_layers", "decoder_layers"), 1)
    try:
        with torch.device("meta"):
            ours = build(Factory(model.model_copy(update=short)))
    except RuntimeError as error:  # such as more numbers than an address can count
        raise DataError("{settings}: there is no model of these sizes ({error})").fill(
            settings, shown(str(error))
        ) from None
    shapes = {name: parameter.shape for name, parameter in ours.named_parameters()}
    return {row.ours: shapes[_LAYER.sub(r"\1.0.", row.ours)] for row in rows}
