"""Measure the heads of a language model on held-out text: their maps, and the loss without them."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from dikkat.data.corpus import Corpus
from dikkat.data.documents import read_documents
from dikkat.data.packing import Example, Packed, Windows, hidden_tokens, next_tokens
from dikkat.explain.head_analysis.head_stats import HeadStatsCollector
from dikkat.explain.head_analysis.importance import Quality
from dikkat.nn.recorder import record_attention
from dikkat.run_directory import RunDirectory
from dikkat.tasks.inspection.head_analysis import HeadSubject
from dikkat.training.language_modelling import batch_loss, visible
from dikkat_runtime.errors import UsageError
from dikkat_runtime.tasks.generator import Generator as LanguageModel


def language_model_heads(path: Path, data: Sequence[str], most: int) -> HeadSubject:
    """Return windows of held-out text to measure the heads of the run at `path` on.

    There are at most `most`, of `data` if there is any.
    """
    trained = LanguageModel.load(path)
    model = trained.model
    windows = Windows(_stream(trained, RunDirectory.open(path), data), trained.context, trained.context, seed=0)
    packed = list(windows.in_order(most * windows.length))

    def example(number: int) -> Example:
        return question(trained, packed[number], number)

    def observe(collector: HeadStatsCollector, numbers: Sequence[int]) -> None:
        for number in numbers:
            asked = example(number)
            mask = visible(asked, model)
            with torch.no_grad(), record_attention(model) as maps:
                hidden_of(trained, asked)
            labels = trained.tokenizer.pieces(asked.tokens[0].tolist())
            length = len(labels)
            seen = np.ones((length, length), bool) if model.objective == "masked" else np.tri(length, dtype=bool)
            seen = seen if mask is None else mask[0, 0].numpy()
            for name, (weights,) in maps.items():
                collector.add(name, weights[0].double().numpy(), labels, labels, seen)

    def measure(numbers: Sequence[int]) -> Quality:
        with torch.inference_mode():
            losses = [batch_loss(model, example(number), smoothing=0.0) for number in numbers]
        nats, tokens = sum(float(loss.likelihood) for loss in losses), sum(loss.predictions for loss in losses)
        return Quality(nats / max(1, tokens), float("nan"))

    return HeadSubject(model, "lm", len(packed), windows.total, observe, measure, longest=trained.context)


def question(trained: LanguageModel, packed: Packed, number: int) -> Example:
    """Return what the model is to predict of a window: the next tokens, or hidden ones, the same each time."""
    if trained.model.objective != "masked":
        return next_tokens(packed)
    share, vocabulary = trained.config.language_model.masked_share, trained.model.output_weight.shape[0]
    return hidden_tokens(packed, share, vocabulary, np.random.default_rng((0, number)))


def hidden_of(trained: LanguageModel, asked: Example) -> torch.Tensor:
    """Return the hidden states (B, T, D) of the model over a question."""
    position_ids = None if asked.position_ids is None else torch.from_numpy(asked.position_ids)
    hidden: torch.Tensor = trained.model.hidden(
        torch.from_numpy(asked.tokens), visible(asked, trained.model), position_ids
    )
    return hidden


def _stream(trained: LanguageModel, run: RunDirectory, data: Sequence[str]) -> Corpus:
    if not data:
        if not run.corpus.is_dir():
            raise UsageError("{path}: this run held out no text; name data to examine the heads on", run.path)
        return Corpus.open(run.corpus, "validation", vocab_size=trained.config.model.vocab_size)
    begin = [] if trained.tokenizer.bos_id is None else [trained.tokenizer.bos_id]
    rows = trained.tokenizer.encode_batch([document.text for document in read_documents(data)])
    return Corpus.in_memory([([*begin, *ids], []) for ids in rows])
