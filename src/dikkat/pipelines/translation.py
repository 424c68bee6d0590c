"""The translator: lines of text in, lines of text out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from dikkat.config import Device, RunConfig
from dikkat.decoding.batching import pad_sources
from dikkat.decoding.copies import Copies
from dikkat.decoding.strategies import batch_decoder
from dikkat.decoding.streaming import Batches, Part
from dikkat.explain.attention_map import AttentionMap
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_model
from dikkat.native.processor import keep_freed_memory
from dikkat.pipelines.attending import Attending
from dikkat.pipelines.device import find_device
from dikkat.pipelines.reading import default_limits, reading_limits
from dikkat.pipelines.settings import run_config
from dikkat.pipelines.weights import build_checked, load_weights
from dikkat.run_directory import RunDirectory
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, Precision
from dikkat_runtime.errors import UsageError
from dikkat_runtime.tasks.line_translation import LineTranslator
from dikkat_runtime.tasks.translation_notes import TranslationNotes
from dikkat_runtime.tasks.translations import Translation, copied, translations_of
from dikkat_runtime.text.segmentation import ReadingLimits, Segmenter
from dikkat_runtime.text.tokenizer import Tokenizer

GREEDY = DecodingOptions()
BEAM = BeamOptions()


class Translator:
    """A trained encoder-decoder with its tokenizer."""

    def __init__(
        self, model: EncoderDecoder, tokenizer: Tokenizer, config: RunConfig, limits: ReadingLimits | None = None
    ) -> None:
        """`limits` are what the model has learned to read in one piece; else `data.max_length` tokens."""
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.config = config
        self.limits = limits or default_limits(config)
        self._copies: Copies[tuple[DecodingOptions, Part], list[Translation]] | None = None
        self._copied: tuple[object, ...] = ()
        """What the copies were made of."""

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return self.model.output_weight.device

    @classmethod
    def load(cls, path: str | Path, precision: Precision = "float32", device: Device = "cpu") -> Translator:
        """The translator of a run directory, in float32; or with weights and activations in eight bits.

        int8 is faster and smaller and writes almost the same. Raises `UsageError` for a model of another kind, weights
        that int8 cannot hold and a device that is not to be had, and `MissingInputError` or `DataError` naming the file
        that is missing or damaged.
        """
        if precision == "int8" and device != "cpu":
            raise UsageError(f"int8 is for processors; leave it out, or the device {device}")
        where = find_device(device)
        run = RunDirectory.open(Path(path))
        # a batch frees what the next one asks for again
        keep_freed_memory()
        settings = run.read_config()
        if (task := settings.get("task", "translator")) != "translator":
            raise UsageError(f'{path}: holds a "{task}", not a translator')
        config = run_config(settings, str(run.config))
        model = build_checked(run, config.model, partial(build_model, config.model, 0))
        load_weights(model, run)
        tokenizer = Tokenizer.load(run.tokenizer, config.model.vocab_size)
        found = cls(model.to(where), tokenizer, config, reading_limits(run, settings, config, tokenizer))
        if precision == "int8":
            try:
                model.quantize()
            except ValueError as error:
                raise UsageError(f"{path}: {error}; leave int8 out") from None
        return found

    def translate(
        self,
        texts: Iterable[str],
        *,
        beam_size: int = BEAM.beam_size,
        n_best: int = 1,
        length_penalty: float = BEAM.length_penalty,
    ) -> list[Translation]:
        """Translate all of `texts` by beam search; an empty text gives an empty translation. See `stream`."""
        options = BeamOptions(beam_size=beam_size, n_best=n_best, length_penalty=length_penalty)
        return list(self.stream(texts, options))

    def stream(
        self,
        lines: Iterable[str],
        options: DecodingOptions = GREEDY,
        *,
        batch_size: int | None = None,
        window: int = 2048,
        retry_loops: bool = True,
        notes: TranslationNotes | None = None,
    ) -> Iterator[Translation]:
        """Translate an endless stream in order, in constant memory; a line without words comes back as it is.

        A line that is longer than what the model has learned to read is cut, at sentences where that is enough, and its
        translations are joined; `notes` hears of this and whatever else a user should know. At most `window` lines are
        read ahead, and `batch_size` pieces translated at once; None is as many as are fastest. With `retry_loops` an
        output that repeats itself over and over is decoded again with `no_repeat_ngram`.
        Batch size and neighbours do not change a translation in float32.
        """
        if window < 1:
            raise UsageError(f"window must be at least 1, not {window}")
        if batch_size is None:
            beam = options.beam_size if isinstance(options, BeamOptions) else 1
            batch_size = self.model.sentences_at_once(beam)
        language = self.config.data.source_language
        segmenter = Segmenter(lambda texts: self.tokenizer.encode_batch(texts, language), self.limits, language)
        decode = partial(self._decoded, batch_size=batch_size)
        translator = LineTranslator(segmenter, decode, options, notes or TranslationNotes(), retry_loops)
        yield from translator.translate(lines, window)

    def _decoded(
        self,
        sentences: Sequence[Sequence[int]],
        numbers: Sequence[int],
        options: DecodingOptions,
        *,
        batch_size: int,
    ) -> list[Translation]:
        """The translations of source ids, side by side as far as that is faster."""
        batches = Batches(
            partial(_translated, self.model, self.tokenizer, options),
            copied(""),
            batch_size,
            at_once=self.model.batches_at_once(),
            apart=None if self.model.decodes_natively() else partial(self._apart, options),
            device=self.device,
        )
        return batches.of(sentences, numbers)

    def _apart(self, options: DecodingOptions, parts: Sequence[Part]) -> Iterator[list[Translation]]:
        """By this process and copies of it, which outlive a text where the model cannot change any more."""
        jobs = [(options, part) for part in parts]
        count = self.model.batches_at_once()
        fresh = Copies(partial(_translated_part, self.model, self.tokenizer), count)
        if not self.model.is_settled():
            with closing(fresh):
                yield from fresh.map(jobs)
            return
        copied = self.model.quantized, self.tokenizer, count
        if self._copies is None or self._copied != copied:
            self._copies, self._copied = fresh, copied
        yield from self._copies.map(jobs)

    def encode(self, line: str) -> list[int]:
        """Source ids of a line, without end mark; none for a line of white space."""
        text = line.strip()
        return self.tokenizer.encode(text, self.config.data.source_language) if text else []

    def attention(self, text: str, translation: str | None = None) -> list[AttentionMap]:
        """Attention of every stack, layer and head while reading `text` and writing `translation` (default: its own).

        Axes carry the subwords; a decoder row is labelled with the token that is fed in, `<bos>` first. See
        `Attending`, which also records beam-search hypotheses, and single layers. Raises `DataError`.
        """
        attending = Attending(self)
        found = attending.greedy(text) if translation is None else attending.forced(text, translation)
        return list(found.maps)


def _translated_part(
    model: EncoderDecoder, tokenizer: Tokenizer, part: tuple[DecodingOptions, Part]
) -> list[Translation]:
    options, (sentences, numbers) = part
    padded = pad_sources(sentences, model.output_weight.device)
    return _translated(model, tokenizer, options, *padded, numbers)


def _translated(
    model: EncoderDecoder,
    tokenizer: Tokenizer,
    options: DecodingOptions,
    source: Tensor,
    source_mask: Tensor,
    numbers: Sequence[int],
) -> list[Translation]:
    return translations_of(batch_decoder(model, options)(source, source_mask, numbers), tokenizer)
