"""The translator: lines of text in, lines of text out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from dikkat.config import Device, RunConfig
from dikkat.decoding.batching import pad_sources
from dikkat.decoding.copies import Copies
from dikkat.decoding.hypothesis import EMPTY, Hypothesis
from dikkat.decoding.options import BeamOptions, DecodingOptions, Precision
from dikkat.decoding.strategies import batch_decoder
from dikkat.decoding.streaming import Part, decode_stream
from dikkat.errors import UsageError
from dikkat.explain.attention_map import AttentionMap
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_model
from dikkat.native.processor import keep_freed_memory
from dikkat.pipelines.attending import Attending
from dikkat.pipelines.device import find_device
from dikkat.pipelines.settings import run_config
from dikkat.pipelines.weights import load_weights
from dikkat.run_directory import RunDirectory
from dikkat.text.tokenizer import Tokenizer

GREEDY = DecodingOptions()
BEAM = BeamOptions()


@dataclass(frozen=True, slots=True)
class Translation:
    """One translation of one line."""

    text: str
    score: float
    """Log-probability divided by the length (to the power of the length penalty), in nats a token; see `Hypothesis`."""
    tokens: tuple[str, ...]
    """The subwords of `text` as the model wrote them."""
    alternatives: tuple[Translation, ...] = ()
    """The next best ones, when more than one was asked for."""


class Translator:
    """A trained encoder-decoder with its tokenizer."""

    def __init__(self, model: EncoderDecoder, tokenizer: Tokenizer, config: RunConfig) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.config = config
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
        model = build_model(config.model, seed=0)
        load_weights(model, run)
        found = cls(model.to(where), Tokenizer.load(run.tokenizer), config)
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
        """Translate all of `texts` by beam search; an empty text gives an empty translation."""
        options = BeamOptions(beam_size=beam_size, n_best=n_best, length_penalty=length_penalty)
        return list(self.stream(texts, options))

    def stream(
        self,
        lines: Iterable[str],
        options: DecodingOptions = GREEDY,
        *,
        batch_size: int | None = None,
        window: int = 2048,
    ) -> Iterator[Translation]:
        """Translate an endless stream in order, in constant memory; a line of white space stays empty.

        At most `window` lines are read ahead, and `batch_size` translated at once; None is as many as are fastest.
        Batch size and neighbours do not change a translation in float32.
        """
        if batch_size is None:
            beam = options.beam_size if isinstance(options, BeamOptions) else 1
            batch_size = self.model.sentences_at_once(beam)
        yield from decode_stream(
            self._encoded(lines, window),
            partial(_translated, self.model, self.tokenizer, options),
            _translations([[EMPTY]], self.tokenizer)[0],
            batch_size=batch_size,
            window=window,
            at_once=self.model.batches_at_once(),
            apart=None if self.model.decodes_natively() else partial(self._apart, options),
            device=self.device,
        )

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

    def _encoded(self, lines: Iterable[str], window: int) -> Iterator[list[int]]:
        """As `encode`, a window at a time."""
        given = iter(lines)
        while texts := [line.strip() for line in islice(given, window)]:
            ids = iter(self.tokenizer.encode_batch([text for text in texts if text], self.config.data.source_language))
            yield from (next(ids) if text else [] for text in texts)

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
    return _translations(batch_decoder(model, options)(source, source_mask, numbers), tokenizer)


def _translations(found: Sequence[Sequence[Hypothesis]], tokenizer: Tokenizer) -> list[Translation]:
    """Of the hypotheses of each sentence, best first."""
    flat = [hypothesis for hypotheses in found for hypothesis in hypotheses]
    texts = iter(tokenizer.decode_batch([hypothesis.tokens for hypothesis in flat]))

    def translation(hypothesis: Hypothesis) -> Translation:
        # a translation is one line, whatever the model writes
        text = next(texts).replace("\n", " ")
        return Translation(text, hypothesis.score, tuple(tokenizer.labels(hypothesis.tokens)))

    made = [[translation(hypothesis) for hypothesis in hypotheses] for hypotheses in found]
    return [Translation(best.text, best.score, best.tokens, tuple(others)) for best, *others in made]
