"""Make pairs out of text in one language: a translator writes the other side.

Backtranslation (Sennrich et al. 2016): real text of the target language, and a source that a translator of the other
direction has written. Distillation by sequences (Kim and Rush 2016): real sources, and the targets of a larger model,
from which a smaller one learns.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from dikkat.data.pairs import Pair
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions
from dikkat_runtime.errors import UsageError
from dikkat_runtime.files import (
    TEMPORARY_PREFIX,
    make_folder,
    reading_errors,
    write_atomically,
    write_errors,
    write_streaming,
)
from dikkat_runtime.notices import counted
from dikkat_runtime.rows.locks import LOCK_PREFIX, locked
from dikkat_runtime.shards.call import Call
from dikkat_runtime.shards.driver import Result
from dikkat_runtime.shards.work import Job, digest_of, read_record
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.text_files import read_text_lines

ROWS_PER_PART = 10_000
"""Lines that are lost at most when the work is stopped, for each worker."""
_TEXTS = "_texts.json"
Side = Literal["source", "target"]
RunCall = Callable[[Job, Call], Result]
"""Does a call of `dikkat_runtime.shards`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A side to write, and how pairs are marked."""

    written: Side
    """The side that the model writes."""
    origin: str
    """What stands in the column `origin` of every pair."""
    tag: str = ""
    """Words before each source that was written, so that a model can tell it (Caswell et al. 2019)."""

    @property
    def read(self) -> Side:
        return "source" if self.written == "target" else "target"


BACKTRANSLATED = Recipe(written="source", origin="backtranslated")
DISTILLED = Recipe(written="target", origin="distilled")


@dataclass(frozen=True, slots=True)
class Written:
    """Pairs in a file, and texts that became none since nothing was written for them."""

    pairs: int
    left_out: int


def write_pairs(recipe: Recipe, job: Job, call: Call, run_call: RunCall) -> Written:
    """Write `call.out`, a table of pairs, from the texts in the files `call.inputs`.

    What is done lies in a folder next to it until all is done, so that the same call goes on after a stop. Raises
    `UsageError` where that folder is of other texts, and the errors of `run_call` and of reading and writing.
    """
    folder = call.out.with_name(f"{call.out.name}.parts")
    inputs, outputs = folder / "in", folder / "out"
    # what is wrong with a file is found before anything is written
    description = {"side": recipe.read, "texts": [_described(path) for path in call.inputs]}
    is_new = not folder.exists()
    with locked(folder):
        try:
            split_texts(call.inputs, inputs, description, force=call.force and not call.estimate)
            result = run_call(
                replace(job, column=recipe.read, output_column=recipe.written),
                replace(call, inputs=[inputs], out=outputs),
            )
            result.check()
        finally:
            if call.estimate and is_new:
                shutil.rmtree(folder)
        if call.estimate:
            return Written(0, 0)
        written = _join(recipe, inputs, outputs, call.out)
        shutil.rmtree(folder)
    return written


def split_texts(texts: Sequence[Path], folder: Path, description: Mapping[str, Any], *, force: bool) -> None:
    """Write the lines with words of files as tables of `ROWS_PER_PART` rows with one column, named as described.

    Raises `UsageError` where there are tables of another description already, unless `force` replaces them, and where
    the folder around them holds something of somebody else.
    """
    before = read_record(folder / _TEXTS) if folder.exists() else None
    if before == {**description, "whole": True}:
        return
    if before is None and _holds_files(folder.parent):
        raise UsageError(
            "{parent}: exists already, and was not made by this command; move it, or give another --out", folder.parent
        )
    if before is not None and not force and {**before, "whole": True} != {**description, "whole": True}:
        raise UsageError(
            "{parent}: was started with other texts; remove it, or give another --out, or --force", folder.parent
        )
    with write_errors(folder):
        # what was written of other texts goes too
        _empty(folder.parent)
        make_folder(folder)
    write_atomically(folder / _TEXTS, json.dumps({**description, "whole": False}).encode())
    lines = (" ".join(line.split("\t")) for path in texts for line in read_text_lines(path) if line.strip())
    number = 0
    while part := list(islice(lines, ROWS_PER_PART)):
        number += 1
        rows = [description["side"], *part]
        write_atomically(folder / f"{number:07}.tsv", "".join(f"{row}\n" for row in rows).encode())
    # last, so that it stands for all of them
    write_atomically(folder / _TEXTS, json.dumps({**description, "whole": True}).encode())


def _empty(folder: Path) -> None:
    """Remove what is in a folder but its lock."""
    for path in folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif not path.name.startswith(LOCK_PREFIX):
            path.unlink()


def _holds_files(folder: Path) -> bool:
    """Return whether there is anything below a folder but folders, locks, and what a killed process half-wrote."""
    own = (TEMPORARY_PREFIX, LOCK_PREFIX)
    return any(path.is_file() and not path.name.startswith(own) for path in folder.rglob("*"))


def _described(path: Path) -> dict[str, str]:
    # reading tells what is wrong with a file; here it only has to be there
    next(read_text_lines(path), None)
    with path.open("rb") as file:
        return {"file": str(path), "sha256": digest_of(file)}


def _join(recipe: Recipe, inputs: Path, outputs: Path, out: Path) -> Written:
    pairs, left_out = 0, 0
    with write_streaming(out) as file:
        file.write("source\ttarget\torigin\n")
        for text, written in _rows(inputs, outputs):
            if not written.strip():
                left_out += 1
                continue
            pairs += 1
            tagged = f"{recipe.tag} {written}" if recipe.tag else written
            source, target = (text, written) if recipe.written == "target" else (tagged, text)
            file.write(f"{source}\t{target}\t{recipe.origin}\n")
    return Written(pairs, left_out)


def _rows(inputs: Path, outputs: Path) -> Iterator[tuple[str, str]]:
    """Yield all texts and what was written for them. Raises `MissingInputError` where an output is not there."""
    for path in (outputs / part.name for part in sorted(inputs.glob("[0-9]*.tsv"))):
        with reading_errors(path), path.open(encoding="utf-8", newline="\n") as lines:
            next(lines)
            for line in lines:
                text, _, written = line.removesuffix("\n").removesuffix("\r").partition("\t")
                yield text, written


# Make more pairs out of parallel text with two translators of opposite directions.

BEAM = BeamOptions()


@dataclass(frozen=True, slots=True)
class Diversified:
    """Hold the (source, target) pairs: the original ones, and then the new ones."""

    pairs: list[tuple[str, str]]
    original: int
    by_forward: int
    by_backward: int


def check_directions(forward: Translator, backward: Translator) -> None:
    """Raise `UsageError` where it is known that `backward` does not translate what `forward` writes."""
    there, back = (run.config.data for run in (forward, backward))
    known = (there.source_language, there.target_language), (back.target_language, back.source_language)
    if all(all(languages) for languages in known) and known[0] != known[1]:
        raise UsageError(
            "the second translator must go the other way, {target_language} to {source_language}, but goes from "
            "{source_language2} to {target_language2}"
        ).fill(there.target_language, there.source_language, back.source_language, back.target_language)


def diversify(
    forward: Translator,
    backward: Translator,
    pairs: Sequence[Pair],
    *,
    options: DecodingOptions = BEAM,
    batch_size: int | None = None,
) -> Diversified:
    """Return `pairs` and the new pairs that `forward` makes of their sources and `backward` of their targets.

    Raises `UsageError` for translators that do not go opposite ways.
    """
    check_directions(forward, backward)
    original = [(pair.source, pair.target) for pair in pairs]
    sources, targets = ([pair[side] for pair in original] for side in (0, 1))

    def write(translator: Translator, lines: Sequence[str]) -> Iterator[str]:
        return (one.text for one in translator.stream(counted(lines), options, batch_size=batch_size))

    # each pair once, in the order in which they came
    known, sizes = dict.fromkeys(original), list[int]()
    for new in (
        zip(sources, write(forward, sources), strict=True),
        zip(write(backward, targets), targets, strict=True),
    ):
        sizes.append(len(known))
        known |= dict.fromkeys(pair for pair in new if all(map(str.strip, pair)))
    added = list(known)[sizes[0] :]
    return Diversified(original + added, len(original), sizes[1] - sizes[0], len(known) - sizes[1])
