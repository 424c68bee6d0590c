"""The translator: lines of text in, lines of text out, by the native engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from dikkat_runtime.engine.contract import EngineInfo, Hypothesis, Precision, SearchOptions
from dikkat_runtime.engine.native import NativeEngine
from dikkat_runtime.engine.settings import NATIVE, model_settings
from dikkat_runtime.run_directory import read_config, read_weights
from dikkat_runtime.tasks.line_notes import LineNotes, has_words
from dikkat_runtime.tasks.loading import load_tokenizer
from dikkat_runtime.text.tokenizer import Tokenizer

BEAM = SearchOptions()
BATCH_SIZE = 128
"""Sentences that are searched together."""
BATCH_TOKENS = 16384
"""Source tokens of a batch, padding included; a longer sentence goes alone."""
WINDOW = 2048
"""Lines that are read ahead, so that sentences of like length share a batch."""


@dataclass(frozen=True, slots=True)
class Translation:
    """One translation of one line."""

    text: str
    score: float
    """Log-probability divided by the length to the power of the length penalty."""
    alternatives: tuple[Translation, ...] = ()
    """The next best ones, where more than one was asked for."""


class Translator:
    """A trained encoder-decoder with its tokenizer."""

    def __init__(self, engine: NativeEngine, tokenizer: Tokenizer, notes: LineNotes) -> None:
        self.engine = engine
        self.tokenizer = tokenizer
        self.notes = notes
        """What there is to say of the lines that were translated so far."""

    @classmethod
    def load(cls, path: str | Path, *, precision: Precision = "float32", threads: int | None = None) -> Translator:
        """The translator of a run directory.

        Raises `MissingInputError` or `DataError` naming the file that is missing or damaged, and `UsageError` for a
        model of another kind, or one that the native engine does not compute.
        """
        run = Path(path)
        config = read_config(run, "translator")
        settings = model_settings(config, str(run / "config.json"), NATIVE)
        weights = run / "model.safetensors"
        engine = NativeEngine(settings, read_weights(weights), str(weights), precision=precision, threads=threads)
        return cls(engine, load_tokenizer(run, config, settings.vocab_size), LineNotes.of_run(config))

    @property
    def info(self) -> EngineInfo:
        """What computes, at what precision, with how many threads."""
        return self.engine.info

    def translate(self, texts: Iterable[str], options: SearchOptions = BEAM) -> list[Translation]:
        """Translate all of `texts`; one without letters comes back as it is."""
        return list(self.stream(texts, options))

    def stream(
        self, lines: Iterable[str], options: SearchOptions = BEAM, *, batch_size: int = BATCH_SIZE, window: int = WINDOW
    ) -> Iterator[Translation]:
        """Translate lines in their order; at most `window` of them are read ahead. `notes` tell of odd ones."""
        reader, first = iter(lines), 1
        while texts := list(islice(reader, window)):
            yield from self._window(texts, options, batch_size, first)
            first += len(texts)

    def _window(self, texts: Sequence[str], options: SearchOptions, batch_size: int, first: int) -> list[Translation]:
        translations = [Translation(text, 0.0) for text in texts]
        numbers = [number for number, text in enumerate(texts) if has_words(text)]
        encoded = self.tokenizer.encode_batch([texts[number].strip() for number in numbers])
        ids = dict(zip(numbers, encoded, strict=True))
        for number in numbers:
            self.notes.note(first + number, texts[number].strip(), len(ids[number]))
        order = sorted((number for number in numbers if ids[number]), key=lambda number: -len(ids[number]))
        batches = list(_batches(order, [len(ids[number]) + 1 for number in order], batch_size))
        for batch, searched in zip(batches, self._side_by_side(batches, ids, options), strict=True):
            for number, translation in zip(batch, self._written(searched), strict=True):
                translations[number] = translation
        return translations

    def _side_by_side(
        self, batches: Sequence[list[int]], ids: dict[int, list[int]], options: SearchOptions
    ) -> Iterator[list[list[Hypothesis]]]:
        """In eight bits a thread is best alone with a batch; in float32 the threads had better share the weights."""
        info = self.info
        workers = min(info.threads, len(batches)) if info.precision == "int8" else 1
        share = max(1, info.threads // max(1, workers))

        def search(batch: list[int]) -> list[list[Hypothesis]]:
            memory = self.engine.encode([ids[number] for number in batch], threads=share)
            return self.engine.search(memory, options, threads=share)

        if workers <= 1:
            yield from map(search, batches)
            return
        with ThreadPoolExecutor(workers) as pool:
            yield from pool.map(search, batches)

    def _written(self, searched: list[list[Hypothesis]]) -> Iterator[Translation]:
        flat = [hypothesis for hypotheses in searched for hypothesis in hypotheses]
        texts = iter(self.tokenizer.decode_batch([hypothesis.tokens for hypothesis in flat]))
        for hypotheses in searched:
            # a translation is one line, whatever the model writes
            best, *others = [Translation(next(texts).replace("\n", " "), each.score) for each in hypotheses]
            yield Translation(best.text, best.score, tuple(others))


def _batches(order: Sequence[int], lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Sentences of falling length, cut into batches."""
    start = 0
    while start < len(order):
        end = start + max(1, min(batch_size, BATCH_TOKENS // lengths[start]))
        yield list(order[start:end])
        start = end
