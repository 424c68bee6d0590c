"""Compare an exported folder with its run before it takes its name: texts, logits, and what is attended to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tokenizers
import torch
from torch import Tensor

from dikkat.interop.onnx_export.program import OnnxTranslator
from dikkat.interop.onnx_export.settings_files import dotted_lower, lowercases_dotted, target_file
from dikkat.interop.parity import MOST_TIMES, Parity, check_parity
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat.nn.recorder import MapName, record_attention
from dikkat_runtime.errors import DataError
from dikkat_runtime.special_tokens import source_ids

SENTENCES = 200
"""Sample sentences that the graphs translate."""
MOST_ATTENTION = 1e-5
"""Largest difference of a weight of cross-attention."""


@dataclass(frozen=True, slots=True)
class OnnxParity:
    """Hold how graphs were compared with their run."""

    parity: Parity
    largest_attention: float
    """Largest difference of a weight of cross-attention."""

    def __str__(self) -> str:
        return f"{self.parity}, cross-attention within {max(self.largest_attention, 1e-9):.0e}"


def check_export(translator: TrainedTranslator, folder: Path, count: int = SENTENCES) -> OnnxParity:
    """Translate `count` sentences by ONNX Runtime with the graphs of `folder`.

    Raises `DataError` where a text or a logit is another one, as `check_parity` says, where the tokenizer cuts
    otherwise, and where a weight of cross-attention differs from that of the run in float64 by more than
    `MOST_ATTENTION`, and by more than `MOST_TIMES` what the run itself in float32 does.
    """
    texts = translator.samples(count)
    _check_tokenizer(translator, folder, texts)
    program = OnnxTranslator(folder, add_source_eos=translator.model.add_source_eos)
    computed: list[tuple[Sequence[int], Sequence[int], Tensor]] = []

    def write(lines: Sequence[str]) -> list[str]:
        ids = program.greedy(translator.tokenizers[0].encode_batch(lines), translator.longest_output)
        return _exported_texts(translator, folder, ids)

    def logits(source: Sequence[int], target: Sequence[int]) -> Tensor:
        values, maps = program.logits_and_maps(source, target)
        computed.append((source, target, maps))
        return values

    parity = check_parity(translator, program.program, write, logits, texts)
    exact = translator.in_float64()
    differences = []
    for source, target, maps in computed:
        expected = _maps(exact, source, target)
        differences.append([float((one - expected).abs().max()) for one in (_maps(translator, source, target), maps)])
    # a NaN is larger than any bound
    rounding, largest = np.array(differences).max(axis=0).tolist()
    if not largest <= (most := max(MOST_ATTENTION, MOST_TIMES * rounding)):
        raise DataError(
            f"{translator.run}: {program.program} computes cross-attention that differs by {largest:.2g}, more than"
            f" {most:.2g}; nothing was written"
        )
    return OnnxParity(parity, largest)


def _maps(translator: TrainedTranslator, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """Return the weights (L, H, T + 1, S) of cross-attention of the run itself."""

    def is_cross(name: MapName) -> bool:
        return name.kind == "cross"

    with record_attention(translator.network, is_cross) as maps:
        translator.logits(source, target)
    return torch.cat([maps[name][0] for name in sorted(maps)])


def _exported_texts(translator: TrainedTranslator, folder: Path, ids: Sequence[Sequence[int]]) -> list[str]:
    """Return the texts of ids by the written tokenizer of the target, read by the library tokenizers.

    Of bytes that make up no character the library writes other marks than the run: those texts are the run's.
    """
    theirs = tokenizers.Tokenizer.from_file(str(folder / target_file(translator)))
    ours = translator.tokenizers[-1].decode_batch(ids)
    return [
        own if "\ufffd" in own else theirs.decode(list(row), skip_special_tokens=False)
        for own, row in zip(ours, ids, strict=True)
    ]


def _check_tokenizer(translator: TrainedTranslator, folder: Path, texts: Sequence[str]) -> None:
    """Compare the ids of the written tokenizer, read by the library tokenizers, with those of the run."""
    theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    theirs.encode_special_tokens = True
    dotted = lowercases_dotted(translator)
    for text, ours in zip(texts, translator.tokenizers[0].encode_batch(texts), strict=True):
        wanted = source_ids(ours, translator.model.add_source_eos)
        if theirs.encode(dotted_lower(text) if dotted else text).ids != wanted:
            raise DataError(
                f"{translator.run}: the exported tokenizer cuts {text!r} in another way; nothing was written"
            )
