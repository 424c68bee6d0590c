"""Compare an export with the run that it was made of, before it is called done, and keep it from being half there."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from dikkat.interop.exported_texts import check_tokenizer, exported_texts, lowercases_dotted, target_file
from dikkat.interop.paths import require_empty_folder
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat.nn.recorder import MapName, record_attention
from dikkat_runtime.errors import CannotCreateError, DataError, msg
from dikkat_runtime.files import make_folder, sync_directory, temporary_next_to, write_errors
from dikkat_runtime.notices import counted
from dikkat_runtime.special_tokens import EOS_ID, UNK_ID, source_ids

SAMPLES = 24
"""Sentences that every export is tried with."""
MAX_DIFFERENCE = 1e-4
"""Largest difference of a logit."""
MAX_TIMES = 4.0
"""Largest difference as a multiple of that of the run itself in float32, where that is more.

Firefox's students have logits of 60, which are off by 5e-5 in any float32.
"""

WriteTexts = Callable[[Sequence[str]], list[str]]
"""Translations of texts, greedily, of `longest_output` tokens of the run at most."""
ComputeLogits = Callable[[Sequence[int], Sequence[int]], Tensor]
"""The logits (T + 1, V) for our ids of a source and a target without marks, in the order of our ids."""


@dataclass(frozen=True, slots=True)
class Parity:
    """Hold how an export was compared with its run."""

    program: str
    """What computed the export."""
    sentences: int
    """Zero where only weights were compared, bit by bit."""
    largest_difference: float
    """Of a logit."""
    largest_attention: float | None = None
    """Of a weight of cross-attention, where it was compared."""

    def __str__(self) -> str:
        if not self.sentences:
            return self.program
        parity = msg(
            "{sentences} sentences by {program}: the same text by greedy search, logits within {difference}"
        ).fill(self.sentences, self.program, shown_difference(self.largest_difference))
        if self.largest_attention is None:
            return parity
        return msg("{parity}, cross-attention within {difference}", parity, shown_difference(self.largest_attention))


def shown_difference(largest: float) -> str:
    """Return a difference as a report shows it."""
    return f"{max(largest, 1e-9):.0e}"


def check_parity(
    translator: TrainedTranslator, program: str, write: WriteTexts, logits: ComputeLogits, texts: Sequence[str]
) -> Parity:
    """Compare the texts that `program` writes, and its logits for them, with those of the run.

    Raises `DataError` where a text is another one, or a logit differs from that of the run in float64 by more than
    `MAX_DIFFERENCE`, and by more than `MAX_TIMES` the largest difference of the run itself in float32. Logits of the
    padding and of the begin mark, which nothing writes, are left out.
    """
    sources = translator.tokenizers[0].encode_batch(texts)
    targets = translator.greedy(texts)
    ours = [text.strip() for text in translator.tokenizers[-1].decode_batch(targets)]
    exact = translator.in_float64()
    differences = []
    for source, target in counted(list(zip(sources, targets, strict=True))):
        expected = exact.logits(source, target)
        computed = (translator.logits(source, target), logits(source, target))
        differences.append([float((values - expected)[:, min(EOS_ID, UNK_ID) :].abs().max()) for values in computed])
    largest = largest_difference(translator.run, program, msg("logits that differ"), differences, MAX_DIFFERENCE)
    for text, own, other in zip(texts, ours, write(texts), strict=True):
        if own != other.strip():
            raise DataError(
                "{run}: {program} translates {text} to {written}, not {expected}; nothing was written"
            ).fill(translator.run, program, repr(text), repr(other.strip()), repr(own))
    return Parity(program, len(texts), largest)


def largest_difference(
    run: Path, program: str, what: str, differences: Sequence[Sequence[float]], bound: float
) -> float:
    """Return the largest difference of `what` a program computes from the run in float64.

    `differences` are pairs: of the run itself in float32, and of the program. Raises `DataError` for one of more than
    `bound`, and more than `MAX_TIMES` the largest of the run.
    """
    rounding, largest = np.array(differences).max(axis=0).tolist()
    most = max(bound, MAX_TIMES * rounding)
    # a NaN is too large
    if not largest <= most:
        raise DataError(
            "{run}: {program} computes {what} by {difference:.2g}, more than {limit:.2g}; nothing was written"
        ).fill(run, program, what, largest, most)
    return float(largest)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Give a folder to write into, which becomes `folder` at the end, or is removed where that fails.

    Where `folder` is there, it stays the same one, since it may be the one that a shell is in, or another disk.

    Folders above it that were missing are removed where that fails. Raises `CannotCreateError` for a folder that holds
    anything, and `DiskError` where it cannot be written.
    """
    require_empty_folder(folder)
    with write_errors(folder):
        target = folder.resolve()
        is_new = not target.exists()
        home = target.parent if is_new else target
        missing = [above for above in (home, *home.parents) if not above.exists()]
        make_folder(home)
        # not by the name of the folder, which may be as long as a name can be
        temporary = temporary_next_to(home / "export")
        try:
            temporary.mkdir()
            yield temporary
            if is_new:
                temporary.rename(target)
            else:
                _move_up(temporary)
            sync_directory(home)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            for above in missing:
                # another may have put something there by now
                with suppress(OSError):
                    above.rmdir()
            raise


def _move_up(temporary: Path) -> None:
    """Put what is in a folder into that above it, where nothing else may be, and remove it; all or nothing."""
    home, done = temporary.parent, list[Path]()
    if list(home.iterdir()) != [temporary]:
        raise CannotCreateError("{folder}: is not an empty folder; give another --out", home)
    try:
        for path in list(temporary.iterdir()):
            path.rename(home / path.name)
            done.append(path)
    except BaseException:
        for path in done:
            (home / path.name).rename(path)
        raise
    temporary.rmdir()


# Compare an exported folder with its run before it takes its name: texts, logits, and what is attended to.

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


def check_folder(translator: TrainedTranslator, folder: Path, program: FolderProgram, count: int = SENTENCES) -> Parity:
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
    for source, target, maps in counted(computed):
        expected = _maps(exact, source, target)
        differences.append([float((one - expected).abs().max()) for one in (_maps(translator, source, target), maps)])
    what = msg("cross-attention that differs")
    largest = largest_difference(translator.run, program.program, what, differences, MAX_ATTENTION)
    return replace(parity, largest_attention=largest)


def _maps(translator: TrainedTranslator, source: Sequence[int], target: Sequence[int]) -> Tensor:
    """Return the weights (L, H, T + 1, S) of cross-attention of the run itself."""

    def is_cross(name: MapName) -> bool:
        return name.kind == "cross"

    with record_attention(translator.network, is_cross) as maps:
        translator.logits(source, target)
    return torch.cat([maps[name][0] for name in sorted(maps)])
