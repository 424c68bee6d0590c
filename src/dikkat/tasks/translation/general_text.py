"""General text that keeps what a base knows: pairs to train on beside new ones, and a part that is held out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from dikkat.data.lessons import installed_phrasebook
from dikkat.data.pairs import Pair
from dikkat.run_directory import HeldOut, RunDirectory
from dikkat.tasks.translation.base import Base
from dikkat_runtime.documents.memories import memory_kind, read_memory
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.placeholders import has_words
from dikkat_runtime.text.text_files import read_lines

T = TypeVar("T")
OLD_PAIRS_PER_NEW = 4.0
"""General pairs among those to train on, as a multiple of the new ones in all their passes."""
MAX_SCORED, MAX_GENERAL, MAX_WRITTEN, WRITTEN_PER_NEW = 500, 200, 20_000, 8
"""Sentences at most: of the new held-out part that are translated for the scores before and after, of the general
part, and of general text that the base translates, in all and for each new pair."""
GENERAL_SHARE = 0.2
"""Share of the general text that is held out, at most."""


def repeats_of(new: int, general: int, passes: float) -> int:
    """Return how often the new pairs are among those to train on, so that of `general` ones none is seen twice.

    It is `passes` at most, and one where there are too few: general pairs that are seen as often as the new ones are
    learned by heart as well, and say nothing of other general text.
    """
    return max(1, min(int(passes), int(general / (OLD_PAIRS_PER_NEW * max(1, new)))))


@dataclass(frozen=True, slots=True)
class General:
    """Hold what keeps the knowledge of a base: general pairs to train on, and some that are held out."""

    train: list[Pair]
    """Pairs that the base wrote; its own are read when they are trained on."""
    held_out: list[Pair]
    kind: str
    """"old" where people wrote the held-out references, "written" where the base did, "" where there are none."""

    @classmethod
    def of(
        cls, base: Base, keep: Sequence[Path], new_pairs: int, passes: float, note: Callable[[str], object]
    ) -> "General":
        """Return general text for `passes` over so many new pairs: the base's own, of `keep`, or bundled sentences.

        Memories have pairs that people translated, with a `note` of what is left out; one-sided text is translated by
        the base. Raises `DataError`, `UsageError` or `MissingInputError` for a file of `keep`.
        """
        own = [Pair(*lines, 0) for lines in zip(*held_out_lines(base.run), strict=True)][:MAX_GENERAL]
        wanted = round(OLD_PAIRS_PER_NEW * new_pairs * passes) + MAX_GENERAL
        tables = [path for path in keep if memory_kind(path)]
        languages = (base.config.data.source_language, base.config.data.target_language)
        translator = Translator.load(base.run.path, "auto")
        translator.corrections = None
        read_pairs = partial(read_memory, languages=languages, note=note, translator=translator)
        pairs = _evenly([Pair(*pair, 0) for path in tables for pair in read_pairs(path).kept], wanted)
        most = min(MAX_WRITTEN, WRITTEN_PER_NEW * new_pairs + MAX_GENERAL, wanted - len(pairs))
        lines = (line.strip() for path in keep if path not in tables for line in read_lines(path) if has_words(line))
        texts = list(dict.fromkeys(lines))
        if not keep and not base.pairs:
            texts = _bundled(languages[0])
        written = _written(translator, _evenly(texts, most))
        if own or not (pairs or written):
            return cls([*pairs, *written], own, "old" if own else "")
        some = pairs or written
        held_out = _evenly(some, min(MAX_GENERAL, round(GENERAL_SHARE * len(some))))
        known = {id(pair) for pair in held_out}
        train = [pair for pair in some if id(pair) not in known]
        return cls([*train, *(written if pairs else ())], held_out, "old" if pairs else "written")


def _evenly(items: list[T], count: int) -> list[T]:
    """Return `count` items at most, from first to last: those of a file in an order are alike where they are near."""
    return [items[index] for index in np.linspace(0, len(items) - 1, min(count, len(items))).astype(int)]


def _written(translator: Translator, texts: list[str]) -> list[Pair]:
    """Return texts with the translations that the base finishes."""
    lines = translator.stream(texts, DecodingOptions(scores=False))
    return [
        Pair(text, line.text, 0) for text, line in zip(texts, lines, strict=True) if line.text.strip() and line.finished
    ]


def _bundled(language: str) -> list[str]:
    """Return the sources of the bundled phrasebook in a language; none where it has none."""
    lessons = installed_phrasebook()
    return [
        phrase.source
        for pair in ("en-fr", "tr-en")
        if lessons.languages_of_pair(pair)[0] == language
        for phrase in lessons.phrasebook(pair, MAX_WRITTEN)
    ]


def held_out_lines(run: RunDirectory, part: HeldOut = "validation") -> tuple[list[str], list[str]]:
    """Return the first sources and targets of a held-out part of a run; nothing where it has none."""
    lines: dict[str, list[str]] = {}
    for side in ("source", "target"):
        path = run.path / "held_out" / f"{part}.{side}.txt"
        lines[side] = list(read_lines(path))[:MAX_SCORED] if path.exists() and path.stat().st_size else []
    return lines["source"], lines["target"]
