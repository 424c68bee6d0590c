"""The translator: lines of text in, lines of text out, by any engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from dikkat_runtime.engine.contract import Engine, EngineInfo
from dikkat_runtime.engine.native import NativeEngine
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions
from dikkat_runtime.engine.precision import PrecisionName, choose_precision
from dikkat_runtime.engine.run_directory import read_config, read_weights
from dikkat_runtime.engine.settings import NATIVE, model_settings
from dikkat_runtime.errors import UsageError
from dikkat_runtime.tasks.batches import BATCH_SIZE, search_all
from dikkat_runtime.tasks.line_translation import LineTranslator
from dikkat_runtime.tasks.loading import load_tokenizer
from dikkat_runtime.tasks.reading_limits import limits_of_run
from dikkat_runtime.tasks.translation_notes import TranslationNotes
from dikkat_runtime.tasks.translations import Translation, translations_of
from dikkat_runtime.text.segmentation import ReadingLimits, Segmenter
from dikkat_runtime.text.tokenizer import Tokenizer

__all__ = ["BEAM", "WINDOW", "Translation", "Translator"]

BEAM = BeamOptions()
WINDOW = 2048
"""Lines that are read ahead, so that sentences of like length share a batch."""


class Translator:
    """A trained encoder-decoder with its tokenizer."""

    def __init__(
        self,
        engine: Engine,
        tokenizer: Tokenizer,
        limits: ReadingLimits,
        *,
        language: str | None = None,
        notes: TranslationNotes | None = None,
    ) -> None:
        """`limits` are what the model has learned to read in one piece; `language` that of the source, by default the
        tokenizer's.
        """
        self.engine = engine
        self.language = tokenizer.language if language is None else language
        self.tokenizer = tokenizer
        self.limits = limits
        self.notes = notes or TranslationNotes()
        """What there is to say of the lines that were translated so far."""

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        precision: PrecisionName = "float32",
        threads: int | None = None,
        limits: ReadingLimits | None = None,
    ) -> Translator:
        """The translator of a run directory, by the native engine.

        Raises `MissingInputError` or `DataError` naming the file that is missing or damaged, and `UsageError` for a
        model of another kind, or one that the native engine does not compute.
        """
        run = Path(path)
        config = read_config(run, "translator")
        where = str(run / "config.json")
        settings = model_settings(config, where, NATIVE)
        weights = run / "model.safetensors"
        chosen, why = choose_precision(run, precision)
        engine = NativeEngine(settings, read_weights(weights), str(weights), precision=chosen, threads=threads)
        engine.info = replace(engine.info, why_precision=why)
        tokenizer = load_tokenizer(run, config, settings.vocab_size)
        return Translator(engine, tokenizer, limits or limits_of_run(config, where))

    @property
    def info(self) -> EngineInfo:
        """What computes, at what precision, with how many threads."""
        return self.engine.info

    def translate(
        self,
        texts: Iterable[str],
        options: DecodingOptions | None = None,
        *,
        beam_size: int = BEAM.beam_size,
        n_best: int = 1,
        length_penalty: float = BEAM.length_penalty,
    ) -> list[Translation]:
        """Translate all of `texts`, by beam search where no `options` say otherwise; see `stream`."""
        beam = BeamOptions(beam_size=beam_size, n_best=n_best, length_penalty=length_penalty)
        return list(self.stream(texts, beam if options is None else options))

    def stream(
        self,
        lines: Iterable[str],
        options: DecodingOptions = BEAM,
        *,
        batch_size: int | None = None,
        window: int = WINDOW,
        retry_loops: bool = True,
        notes: TranslationNotes | None = None,
    ) -> Iterator[Translation]:
        """Translate an endless stream in order, in constant memory; a line without words comes back as it is.

        A line that is longer than what the model has learned to read is cut, at sentences where that is enough, and its
        translations are joined; `notes`, by default those of the translator, hears of this and whatever else a user
        should know. At most `window` lines are read ahead, and `batch_size` pieces translated at once. With
        `retry_loops` an output that repeats itself over and over is decoded again with `no_repeat_ngram`.
        Batch size and neighbours do not change a translation.
        """
        if window < 1:
            raise UsageError(f"window must be at least 1, not {window}")
        segmenter = Segmenter(partial(self.tokenizer.encode_batch, language=self.language), self.limits, self.language)
        decode = partial(self._decoded, batch_size=BATCH_SIZE if batch_size is None else batch_size)
        translator = LineTranslator(segmenter, decode, options, self.notes if notes is None else notes, retry_loops)
        yield from translator.translate(lines, window)

    def encode(self, line: str) -> list[int]:
        """Source ids of a line, without end mark; none for a line of white space."""
        text = line.strip()
        return self.tokenizer.encode(text, self.language) if text else []

    def _decoded(
        self,
        sentences: Sequence[Sequence[int]],
        numbers: Sequence[int],
        options: DecodingOptions,
        *,
        batch_size: int,
    ) -> list[Translation]:
        """The translations of source ids, side by side as far as that is faster."""
        found = search_all(self.engine, sentences, options, numbers=numbers, batch_size=batch_size)
        return translations_of(found, self.tokenizer)
