"""What the heads of a classifier or a language model are measured on: held-out text, its maps, and its loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from dikkat.data.corpus import Corpus
from dikkat.data.documents import read_documents
from dikkat.data.labelled import read_labelled, with_known_labels
from dikkat.data.objectives import Example, hidden_tokens, next_tokens
from dikkat.data.packing import Windows
from dikkat.evaluation.calibration import label_probabilities, probabilities
from dikkat.evaluation.classification import class_scores
from dikkat.evaluation.multi_label import label_scores
from dikkat.explain.honesty.importance import Quality
from dikkat.explain.honesty.portrait import Portraits
from dikkat.nn.recorder import record_attention
from dikkat.pipelines.classification import BATCH_SIZE, Classifier
from dikkat.pipelines.classifier_evaluation import held_out_texts
from dikkat.pipelines.classifier_preparation import read_ids
from dikkat.pipelines.language_model import LanguageModel
from dikkat.run_directory import RunDirectory
from dikkat.training.classification import pad_texts
from dikkat.training.language_modelling import batch_loss, visible
from dikkat_runtime.errors import DataError, UsageError


@dataclass(frozen=True, slots=True)
class Subject:
    """A model whose heads are all those of self-attention, and the texts they are examined on."""

    model: nn.Module
    kind: str
    """`classifier`, `multi_label` or `lm`: names what is measured."""
    count: int
    """Texts, or windows of text."""
    observe: Callable[[Portraits, Sequence[int]], None]
    """Adds the maps of the texts of these numbers."""
    measure: Callable[[Sequence[int]], Quality]
    """How good the model is on them, as it is now."""


def load_subject(path: Path, data: Sequence[str], most: int) -> Subject:
    """The model of `path` with at most `most` texts of `data`, or of its own validation part when empty.

    Raises `UsageError` for a run that holds neither kind, and the errors of reading.
    """
    task = RunDirectory.open(path).read_config().get("task")
    if task == "classifier":
        return _classifier(path, data, most)
    if task == "lm":
        return _language_model(path, data, most)
    raise UsageError(f'{path}: holds a "{task}", whose heads cannot be examined')


def _classifier(path: Path, data: Sequence[str], most: int) -> Subject:
    classifier = Classifier.load(path)
    settings = classifier.config.classifier
    if data:
        read = read_labelled(data, separator=settings.label_separator)
        texts = list(with_known_labels(read, data, classifier.labels))
    else:
        texts = held_out_texts(RunDirectory.open(path), "validation")
    encoded = classifier.encode([each.text for each in texts])
    both = [(each, read_ids(ids, settings)) for each, ids in zip(texts, encoded, strict=True) if ids]
    chosen = [both[index] for index in _spread(len(both), most, path)]
    rows = [ids for _, ids in chosen]
    wanted = np.array([[label in each.labels for label in classifier.labels] for each, _ in chosen])

    def observe(portraits: Portraits, numbers: Sequence[int]) -> None:
        for number in numbers:
            tokens, mask = pad_texts([rows[number]], torch.device("cpu"))
            with torch.no_grad(), record_attention(classifier.model) as maps:
                classifier.model(tokens, mask)
            labels = classifier.tokenizer.pieces(rows[number])
            for name, (weights,) in maps.items():
                portraits.add(name, weights[0].double().numpy(), labels, labels)

    def measure(numbers: Sequence[int]) -> Quality:
        found = np.zeros((len(numbers), len(classifier.labels)))
        order = sorted(range(len(numbers)), key=lambda index: len(rows[numbers[index]]))
        for start in range(0, len(order), BATCH_SIZE):
            some = order[start : start + BATCH_SIZE]
            tokens, mask = pad_texts([rows[numbers[index]] for index in some], torch.device("cpu"))
            with torch.inference_mode():
                found[some] = classifier.model(tokens, mask).double().numpy()
        return _quality(classifier, wanted[list(numbers)], found)

    kind = "multi_label" if classifier.is_multi_label else "classifier"
    return Subject(classifier.model, kind, len(rows), observe, measure)


def _quality(classifier: Classifier, wanted: np.ndarray, logits: np.ndarray) -> Quality:
    """Nats a text at temperature 1, and accuracy or micro F1 in percent."""
    tiny = np.finfo(np.float64).tiny
    if classifier.is_multi_label:
        shares = label_probabilities(logits)
        right = np.where(wanted, shares, 1.0 - shares)
        score = label_scores(classifier.labels, wanted, logits >= 0.0).micro_f1
        return Quality(-float(np.log(np.maximum(right, tiny)).sum(axis=1).mean()), 100 * score)
    right = probabilities(logits)[wanted]
    scores = class_scores(classifier.labels, wanted.argmax(axis=1).tolist(), logits.argmax(axis=1).tolist())
    return Quality(-float(np.log(np.maximum(right, tiny)).mean()), 100 * scores.accuracy)


def _language_model(path: Path, data: Sequence[str], most: int) -> Subject:
    found = LanguageModel.load(path)
    model, settings = found.model, found.config.language_model
    windows = Windows(_stream(found, RunDirectory.open(path), data), found.context, found.context, seed=0)
    packed = list(windows.in_order(most * windows.length))
    vocabulary = model.output_weight.shape[0]

    def example(number: int) -> Example:
        if model.objective != "masked":
            return next_tokens(packed[number])
        # the same question each time
        return hidden_tokens(packed[number], settings.masked_share, vocabulary, np.random.default_rng((0, number)))

    def observe(portraits: Portraits, numbers: Sequence[int]) -> None:
        for number in numbers:
            asked = example(number)
            mask = visible(asked, model)
            places = None if asked.places is None else torch.from_numpy(asked.places)
            with torch.no_grad(), record_attention(model) as maps:
                model.hidden(torch.from_numpy(asked.tokens), mask, places)
            labels = found.tokenizer.pieces(asked.tokens[0].tolist())
            length = len(labels)
            seen = np.ones((length, length), bool) if model.objective == "masked" else np.tri(length, dtype=bool)
            seen = seen if mask is None else mask[0, 0].numpy()
            for name, (weights,) in maps.items():
                portraits.add(name, weights[0].double().numpy(), labels, labels, seen)

    def measure(numbers: Sequence[int]) -> Quality:
        with torch.inference_mode():
            losses = [batch_loss(model, example(number), smoothing=0.0) for number in numbers]
        nats, tokens = sum(float(each.likelihood) for each in losses), sum(each.predictions for each in losses)
        return Quality(nats / max(1, tokens), float("nan"))

    return Subject(model, "lm", len(packed), observe, measure)


def _stream(found: LanguageModel, run: RunDirectory, data: Sequence[str]) -> Corpus:
    if not data:
        if not run.corpus.is_dir():
            raise UsageError(f"{run.path}: this run held no text out; name data to examine the heads on")
        return Corpus.open(run.corpus, "validation", vocab_size=found.config.model.vocab_size)
    begin = [] if found.tokenizer.bos_id is None else [found.tokenizer.bos_id]
    rows = found.tokenizer.encode_batch([document.text for document in read_documents(data)])
    return Corpus.in_memory([([*begin, *ids], []) for ids in rows])


def _spread(count: int, most: int, path: Path) -> list[int]:
    if not count:
        raise DataError(f"{path}: there is no text to examine the heads on")
    return [int(index) for index in np.unique(np.linspace(0, count - 1, most).astype(int))]
