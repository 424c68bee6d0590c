"""Evaluation of a language model by perplexity and bits a byte, with a sliding window."""

import gzip
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from dikkat.data.corpus import Corpus
from dikkat.data.documents import read_documents
from dikkat.evaluation.kneser_ney import KneserNey
from dikkat.run_directory import RunDirectory
from dikkat_runtime.engine.contract import EngineInfo, EngineName
from dikkat_runtime.engine.options import Device
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import DataError, SettingError, UsageError, msg
from dikkat_runtime.notices import counted
from dikkat_runtime.special_tokens import EOS_ID, UNK_ID
from dikkat_runtime.tasks.generator import Generator

_WINDOWS_AT_ONCE = 16


MAX_BASELINE_TOKENS = 4_000_000
"""Tokens that the n-gram model counts at most, the first ones."""


@dataclass(frozen=True, slots=True)
class NgramBaseline:
    """The likelihood of the same tokens by a 5-gram model with Kneser-Ney smoothing."""

    nats: float
    num_tokens: int
    """Training tokens that it counted."""
    seconds: float
    """Processor time."""


@dataclass(frozen=True, slots=True)
class LanguageModelEvaluation:
    """The likelihood of a text, each token given at least `context - stride` tokens before it if there are so many."""

    nats: float
    """Negative log-likelihood of all tokens."""
    num_tokens: int
    num_bytes: int
    """Of the text in UTF-8."""
    context: int
    stride: int
    unknown: tuple[str, ...]
    """What of the text had no token; its price is that of `<unk>`."""
    seconds: float
    gzip_bytes: int = 0
    """Of the text, compressed by gzip alone; 0 where it was not asked for."""
    baseline: NgramBaseline | None = None
    """The n-gram model of the same training tokens, where the run holds them."""

    @property
    def loss(self) -> float:
        """Nats a token."""
        return self.nats / self.num_tokens

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700.0))

    @property
    def bits_per_byte(self) -> float:
        return self.nats / self.num_bytes / math.log(2)

    def lines(self) -> list[str]:
        return [
            msg("loss {loss:8.4f}  nats a token", self.loss),
            msg("perplexity {perplexity:.4f}  a token", self.perplexity),
            msg("bits a byte {bits_per_byte:.4f}", self.bits_per_byte),
            msg("{num_tokens:,} tokens, {num_bytes:,} bytes; window {context}, stride {stride}; {seconds:.1f} s").fill(
                self.num_tokens, self.num_bytes, self.context, self.stride, self.seconds
            ),
            *self._baselines(),
        ]

    def _baselines(self) -> list[str]:
        lines: list[str] = []
        if self.gzip_bytes:
            lines.append(msg("gzip alone: {bits:.4f} bits a byte", 8 * self.gzip_bytes / self.num_bytes))
        if (other := self.baseline) is not None:
            perplexity = math.exp(min(other.nats / self.num_tokens, 700.0))
            lines.append(
                msg(
                    "5-gram Kneser-Ney on {tokens:,} of the same training tokens: perplexity {perplexity:.4f},"
                    " {bits:.4f} bits a byte, in {seconds:.1f} s"
                ).fill(other.num_tokens, perplexity, other.nats / self.num_bytes / math.log(2), other.seconds)
            )
            if other.nats < self.nats:
                lines.append(msg("the n-gram model is better; give more text or --minutes, or use it"))
        return lines


def evaluate_language_model(
    path: Path,
    data: Sequence[str],
    stride: int | None = None,
    *,
    engine: EngineName = "auto",
    precision: PrecisionName = "float32",
    device: Device = "cpu",
    on_engine: Callable[[EngineInfo], None] = lambda info: None,
) -> LanguageModelEvaluation:
    """Compute the likelihood of the documents of `data`, or of the run's own held-out part when empty.

    `on_engine` receives what computes. The window moves by `stride` tokens, by
    default half the context. Raises `UsageError` for a stride outside 1 ... context and for a model without a
    likelihood, and the errors of reading.
    """
    model = Generator.load(path, precision, device, engine)
    on_engine(model.info)
    if model.objective == "masked":
        raise UsageError(
            "{path}: was trained to fill in hidden tokens (objective masked): a text has no likelihood", path
        )
    stride = max(1, model.context // 2) if stride is None else stride
    if not 1 <= stride <= model.context:
        raise SettingError(
            msg("{name} must be a whole number from 1 to the context, {context}, not {value}").fill(
                "stride", model.context, stride
            ),
            "stride",
        )
    started = time.monotonic()
    texts = [document.text for document in read_documents(data)]
    unknown: list[str] = []
    if data:
        encoded = model.tokenizer.encode_batch(texts)
        unknown = [
            piece for text, ids in zip(texts, encoded, strict=True) if UNK_ID in ids for piece in model.unknown(text)
        ]
        begin = [] if model.special_tokens.begin is None else [model.special_tokens.begin]
        rows, num_bytes = [[*begin, *ids] for ids in encoded], sum(len(text.encode()) for text in texts)
    else:
        rows, num_bytes = held_out_rows(RunDirectory.open(path))
    nats, num_tokens = 0.0, 0
    for ids in counted(rows):
        text_nats, count = likelihood(model, ids, stride)
        nats, num_tokens = nats + text_nats, num_tokens + count
    if not num_tokens:
        raise DataError("{data}: holds no token to predict", " ".join(data) or path)
    distinct = tuple(dict.fromkeys(unknown))
    seconds = time.monotonic() - started
    content = "\n".join(texts if data else model.tokenizer.decode_batch(rows)).encode()
    baseline = ngram_baseline(RunDirectory.open(path), rows)
    return LanguageModelEvaluation(
        nats, num_tokens, num_bytes, model.context, stride, distinct, seconds, len(gzip.compress(content)), baseline
    )


def ngram_baseline(run: RunDirectory, rows: Sequence[Sequence[int]]) -> NgramBaseline | None:
    """Count the training tokens that a run holds, and score `rows`; nothing where it holds none."""
    if not (run.corpus / "train.ids.npy").exists():
        return None
    started, vocab_size = time.process_time(), int(run.read_config()["model"]["vocab_size"])
    corpus = Corpus.open(run.corpus, "train", vocab_size=vocab_size)
    train, count = [], 0
    for number in range(len(corpus)):
        train.append(corpus.source(number)[: MAX_BASELINE_TOKENS - count].tolist())
        count += len(train[-1])
        if count >= MAX_BASELINE_TOKENS:
            break
    nats = KneserNey(train, vocab_size).nats(rows)
    return NgramBaseline(nats, count, time.process_time() - started)


def likelihood(model: Generator, ids: Sequence[int], stride: int) -> tuple[float, int]:
    """Return the negative log-likelihood in nats of all ids but the first, and their number."""
    context, total, count = model.context, 0.0, 0
    stream = np.array(ids, np.int64)
    whole, rest = _windows(len(ids) - 1, context, stride)
    starts = iter(whole)
    while some := list(islice(starts, _WINDOWS_AT_ONCE)):
        # (B, T+1)
        windows = np.stack([stream[start : start + context + 1] for start in some])
        # what an earlier window has predicted is only read again
        skipped = [0 if start == 0 else context - stride for start in some]
        total += model.engine.nats(windows, skipped)
        count += sum(context - skip for skip in skipped)
    for start, skip in rest:
        total += model.engine.nats(stream[None, start:], [skip])
        count += len(ids) - 1 - start - skip
    return total, count


def _windows(length: int, context: int, stride: int) -> tuple[Iterator[int], list[tuple[int, int]]]:
    """Starts of the full windows over `length` predictions, and the last, shorter one with what it need not predict."""
    full = 0 if length < context else 1 + (length - context) // stride
    done = 0 if full == 0 else (full - 1) * stride + context
    starts = (number * stride for number in range(full))
    if done == length:
        return starts, []
    start = full * stride
    return starts, [(start, done - start)]


def held_out_rows(run: RunDirectory) -> tuple[list[list[int]], int]:
    """Ids of the texts that a run held out, and their bytes. Raises `UsageError` where it held none out."""
    source = run.read_config().get("data_source", {})
    if not run.corpus.is_dir() or "validation_bytes" not in source:
        raise UsageError("{path}: this run held out no text; name data to evaluate on", run.path)
    corpus = Corpus.open(run.corpus, "validation", vocab_size=run.read_config()["model"]["vocab_size"])
    rows = [corpus.source(number).tolist() for number in range(len(corpus))]
    return [row[:-1] if row[-1:] == [EOS_ID] else row for row in rows], source["validation_bytes"]
