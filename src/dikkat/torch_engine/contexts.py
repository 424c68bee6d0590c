"""Compute what each target token reads from the source, with the modules of a translator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.special_tokens import BOS_ID, source_ids


class TorchContexts:
    """Hold a translator in evaluation mode, and give the output of its last cross-attention."""

    def __init__(self, model: EncoderDecoder) -> None:
        self._model = model.eval()

    @torch.inference_mode()
    def __call__(self, source: Sequence[int], target: Sequence[int]) -> Array:
        """Return (T, D) for the ids of a source and of a target, without marks and not empty.

        A row is what cross-attention of the last decoder layer adds in the step that writes the token.
        """
        outputs: list[Tensor] = []

        def keep(module: nn.Module, arguments: object, output: Tensor) -> None:
            outputs.append(output)

        device = self._model.output_weight.device
        last = self._model.decoder.blocks[-1].get_submodule("cross_attention")
        handle = last.register_forward_hook(keep)
        try:
            sources = torch.tensor([source_ids(source, self._model.add_source_eos)], device=device)
            read = torch.ones_like(sources, dtype=torch.bool)
            targets = torch.tensor([[BOS_ID, *target[:-1]]], device=device)
            self._model.decode(targets, self._model.encode(sources, read), read)
        finally:
            handle.remove()
        # nobody asks what the prefix of every target reads
        return np.asarray(outputs[-1][0, self._model.forced :].float().cpu().numpy())
