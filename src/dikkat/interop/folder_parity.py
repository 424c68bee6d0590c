"""Compare an exported folder with its run before it takes its name: texts, logits, and what is attended to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from dikkat.interop.exported_texts import check_tokenizer, exported_texts, lowercases_dotted, target_file
from dikkat.interop.parity import Parity, check_parity, largest_difference, shown_difference
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat.nn.recorder import MapName, record_attention
from dikkat_runtime.errors import DataError
from dikkat_runtime.messages import msg
from dikkat_runtime.special_tokens import source_ids

SENTENCES = 200
"""Sample sentences that the program translates."""
MAX_ATTENTION = 1e-5
"""Largest difference of a weight of cross-attention."""


class FolderProgram(Protocol):
    """Run the model of a folder by the program that it is for."""

    program: str
    """Its name and version."""

    def greedy(self, sources: Sequence[Sequence[int]], longest: int) -> list[list[int]]:
        """Return the ids written for each source, without marks, of `longest` at most."""

    def logits_and_maps(self, source: Sequence[int], target: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Return logits (T + 1, V) and cross-attention (L, H, T + 1, S) for a source and a target without marks."""


@dataclass(frozen=True, slots=True)
class FolderParity:
    """Hold how an exported folder was compared with its run."""

    parity: Parity
    largest_attention: float
    """Largest difference of a weight of cross-attention."""

    def __str__(self) -> str:
        return msg("{parity}, cross-attention within {shown_difference}").fill(
            self.parity, shown_difference(self.largest_attention)
        )


def check_folder(
    translator: TrainedTranslator, folder: Path, program: FolderProgram, count: int = SENTENCES
) -> FolderParity:
    """Translate `count` sentences by the `program` that reads `folder`.

    Raises `DataError` where a text or a logit is another one, as `check_parity` says, where the tokenizer cuts
    otherwise, and where a weight of cross-attention differs from that of the run in float64 by more than
    `MAX_ATTENTION`, and by more than `MAX_TIMES` what the run itself in float32 does.
    """
    texts = translator.samples(count)
    sources = [source_ids(ids, translator.model.add_source_eos) for ids in translator.tokenizers[0].encode_batch(texts)]
    dotted = lowercases_dotted(translator.tokenizer_settings[0], translator.languages.source)
    check_tokenizer(translator.run, folder / "tokenizer.json", texts, sources, dotted=dotted)
    computed: list[tuple[Sequence[int], Sequence[int], Tensor]] = []

    def write(lines: Sequence[str]) -> list[str]:
        ids = program.greedy(translator.tokenizers[0].encode_batch(lines), translator.longest_output)
        return exported_texts(folder / target_file(translator), translator.tokenizers[-1], ids)

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
    largest, most = largest_difference(differences, MAX_ATTENTION)
    if not largest <= most:
        raise DataError(
            "{run}: {program} computes cross-attention that differs by {largest:.2g}, more than {most:.2g}; nothing "
            "was written"
        ).fill(translator.run, program.program, largest, most)
    return FolderParity(parity, largest)


def _maps(translator: TrainedTranslator, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """Return the weights (L, H, T + 1, S) of cross-attention of the run itself."""

    def is_cross(name: MapName) -> bool:
        return name.kind == "cross"

    with record_attention(translator.network, is_cross) as maps:
        translator.logits(source, target)
    return torch.cat([maps[name][0] for name in sorted(maps)])
