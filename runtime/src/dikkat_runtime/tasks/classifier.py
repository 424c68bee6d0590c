"""Classify lines of text by any engine: labels and probabilities."""

import math
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from dikkat_runtime.engine.choose import EngineRequest
from dikkat_runtime.engine.contract import ClassifyingEngine, Rows
from dikkat_runtime.engine.products import softmax
from dikkat_runtime.errors import DataError, UsageError, msg
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.notices import counted
from dikkat_runtime.run.config import labels_of, section
from dikkat_runtime.run.manifest import checked
from dikkat_runtime.run.metrics import metrics_of_run
from dikkat_runtime.run.parts import TOKENIZER
from dikkat_runtime.run.weights import read_note
from dikkat_runtime.special_tokens import BOS_ID
from dikkat_runtime.tasks.batches import length_batches
from dikkat_runtime.tasks.opening import OpenedModel, native_classifier, open_engine, vocabulary_sizes
from dikkat_runtime.tasks.word_table import WordTable, read_word_table
from dikkat_runtime.text.foreign_tokenizer import AnyTokenizer, ForeignTokenizer, load_tokenizer

BATCH_SIZE, WINDOW = 1024, 1024
"""Texts classified at once, and lines read ahead, so that texts of like length share a batch."""
BATCH_TOKENS = 16384
"""Tokens of a batch, padding included; a longer text goes alone."""
MIN_PROBABILITY = 0.5
"""Smallest probability of a label where a text may have several and no cut was found for it."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision holds how scores become labels, as it was found on the validation part for the kept weights."""

    temperature: float = 1.0
    """Divides the logits (Guo et al. 2017)."""
    encoder_weight: float = 1.0
    """Factor of what the encoder adds to the word table, where there is one; 0 where it adds nothing of use."""
    cuts: tuple[float, ...] = ()
    """Smallest probability of each label where a text may have several; none for `MIN_PROBABILITY` of all."""


UNDECIDED = Decision()


class Classification(NamedTuple):
    """The classes of one text and their probabilities."""

    label: str
    """The likeliest class; empty for a text without words."""
    probability: float
    """Of that class, calibrated on the validation part; NaN for a text without words."""
    probabilities: dict[str, float]
    """Of every class, in the order of training; empty for a text without words."""
    labels: tuple[str, ...] = ()
    """Labels of the text, the likeliest first: its class, or all that reach their cut where there may be several."""
    num_tokens: int = 0
    """Tokens of the text, of more than `max_tokens` of which only the beginning and the end were read; 0 where the
    encoder adds nothing, and reads none."""
    is_unlike_training: bool = False
    """Whether so many of its words are new that it is of another kind than the training texts: doubt the label."""

    def is_sure(self, least: float) -> bool:
        """Return whether its label is at least as likely as `least`, and the text like those of training."""
        return self.probability >= least and not self.is_unlike_training


NOTHING = Classification("", math.nan, {})
"""The answer to a text without words."""


class Answers(NamedTuple):
    """Hold the answers to B texts by columns: objects for each take longer than the model; see `Classification`."""

    classes: tuple[str, ...]
    shares: Array  # (B, C)
    chosen: list[list[int]]  # indices of classes
    num_tokens: Array  # (B,), as the others
    has_words: Array
    is_unlike: Array

    def rows(self) -> Iterator[Classification]:
        columns = (column.tolist() for column in (self.shares, self.num_tokens, self.has_words, self.is_unlike))
        for shares, num_tokens, has_words, is_unlike, chosen in zip(*columns, self.chosen, strict=True):
            most, labels = max(shares), tuple(map(self.classes.__getitem__, chosen))
            by_label, label = dict(zip(self.classes, shares, strict=True)), self.classes[shares.index(most)]
            yield Classification(label, most, by_label, labels, num_tokens, is_unlike) if has_words else NOTHING

    def written(self, abstain: float = 0.0, *, has_all: bool = False) -> list[str]:
        """Return a line for each text: labels, or all classes, and probabilities, where it `is_sure` of `abstain`."""
        most = np.where(self.has_words, self.shares.max(axis=1), math.nan)
        is_shown = self.has_words & ((most >= abstain) & ~self.is_unlike if abstain else True)
        indices, classes = ranked(self.shares).tolist() if has_all else self.chosen, self.classes
        rows = zip(indices, self.shares.tolist(), is_shown.tolist(), most.tolist(), strict=True)
        return [
            "\t".join([f"{classes[index]}\t{own[index]:.4f}" for index in row]) if is_sure else f"\t{best:.4f}"
            for row, own, is_sure, best in rows
        ]


def kept_ids(tokenizer: AnyTokenizer, ids: Sequence[int], most: int, beginning: float) -> list[int]:
    """Return `ids`, or of more than `most` the first up to the share `beginning`, then the last.

    The special tokens of an imported model count among them.
    """
    most -= tokenizer.frame_size if isinstance(tokenizer, ForeignTokenizer) else 0
    if len(ids) <= most:
        return list(ids)
    first = round(most * beginning)
    return [*ids[:first], *ids[len(ids) - (most - first) :]]


def read_ids(tokenizer: AnyTokenizer, ids: Sequence[int], most: int, beginning: float) -> list[int]:
    """Return the ids that a classifier reads: `kept_ids` after a begin mark, or between those of an imported model."""
    if isinstance(tokenizer, ForeignTokenizer):
        return tokenizer.framed(kept_ids(tokenizer, ids, most, beginning))
    return [BOS_ID, *(ids if len(ids) <= most else kept_ids(tokenizer, ids, most, beginning))]


class Classifier(OpenedModel):
    """A trained classifier with its classes and tokenizer."""

    kind = "classifier"

    def __init__(
        self,
        engine: ClassifyingEngine,
        tokenizer: AnyTokenizer,
        labels: Sequence[str],
        settings: Mapping[str, Any],
        decision: Decision = UNDECIDED,
        *,
        language: str | None = None,
        table: WordTable | None = None,
    ) -> None:
        """`settings` are those of the section `classifier`; `language` is that of the texts, else the tokenizer's.

        The encoder adds to what the `table` says, if there is one.
        """
        self.engine: ClassifyingEngine = engine
        self.tokenizer, self.labels = tokenizer, tuple(labels)
        own = "" if isinstance(tokenizer, ForeignTokenizer) else tokenizer.language
        self.language = own if language is None else language
        self.max_tokens, self.beginning = int(settings["max_tokens"]), float(settings["beginning"])
        self.decision, self.table = decision, table
        self.is_multi_label = settings.get("objective") == "multi_label"
        """Whether a text gets any number of labels."""
        self.cuts = np.array(decision.cuts or (MIN_PROBABILITY,) * len(self.labels))
        """Smallest probability (C,) of each label where a text may have several."""

    @classmethod
    def of_request(cls, request: EngineRequest) -> Self:
        """Return the classifier that is asked for; raises as `load`."""
        run, config = request.run, request.config
        computing: ClassifyingEngine = open_engine(request, native_classifier)
        settings = section(config, "classifier", run)
        labels, language = labels_of(run, config), str(section(config, "data", run).get("source_language", ""))
        tokenizer = load_tokenizer(checked(run, TOKENIZER), vocabulary_sizes(run, config)[0], language)
        table = open_word_table(run, settings, len(labels), language)
        if table is not None and computing.info.name == "native":
            table.threads = computing.info.threads
        # an imported classifier was never validated here
        is_imported = "imported_from" in config and not (run / "metrics.jsonl").exists()
        decision = UNDECIDED if is_imported else decision_of(run, settings, len(labels))
        classifier = cls(computing, tokenizer, labels, settings, decision, table=table)
        classifier.request = request
        return classifier

    def classify(self, texts: Iterable[str]) -> list[Classification]:
        """Classify all of `texts`; the answer to one without words is `NOTHING`."""
        return list(self.stream(texts))

    def stream(
        self, lines: Iterable[str], *, batch_size: int = BATCH_SIZE, window: int = WINDOW
    ) -> Iterator[Classification]:
        """Classify an endless stream in order, in constant memory.

        At most `window` lines are read ahead; a window of 1 answers each line before it reads the next. Batch size and
        neighbours do not change a probability by more than rounding.
        """
        for answers in self.answers(lines, batch_size, window):
            yield from answers.rows()

    def answers(self, lines: Iterable[str], batch_size: int = BATCH_SIZE, window: int = WINDOW) -> Iterator[Answers]:
        """Classify as `stream`, and yield the answers to a whole window at once."""
        for logits, *columns in self.scored(lines, batch_size, window):
            shares = self.probabilities(logits)
            yield Answers(self.labels, shares, self._chosen(shares), *columns)

    def scored(self, lines: Iterable[str], batch_size: int, window: int) -> Iterator[tuple[Array, Array, Array, Array]]:
        """Yield of each window of B lines the logits (B, C), and `num_tokens`, `has_words`, `is_unlike` of `Answers`.

        A text without words has the logits of the word table.
        """
        reader = iter(lines)
        while texts := list(islice(reader, window)):
            logits, is_unlike = self.read_by_table(texts)
            if self._is_read_by_table(texts):
                has_words = np.fromiter((bool(text) and not text.isspace() for text in texts), bool, len(texts))
                yield logits, np.zeros(len(texts), np.int64), has_words, is_unlike
                continue
            encoded = self.encode(texts)
            rows = [self.read(ids) if ids else [] for ids in encoded]
            batches = list(length_batches([len(row) for row in rows], batch_size, BATCH_TOKENS))
            for batch in counted(batches, msg("batches")):
                logits[batch] += self.encoder_logits([rows[index] for index in batch])
            num_tokens = np.fromiter(map(len, encoded), np.int64, len(texts))
            yield logits, num_tokens, num_tokens > 0, is_unlike

    def _is_read_by_table(self, texts: Sequence[str]) -> bool:
        """Return whether the word table alone reads `texts`."""
        try:
            "".join(texts).encode()
        except UnicodeEncodeError:
            return False  # the tokenizer says what is wrong
        # which characters an imported tokenizer takes for none, it alone knows
        return not (self.decision.encoder_weight or isinstance(self.tokenizer, ForeignTokenizer))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Return all ids of each text; none for a text without words."""
        return self.tokenizer.encode_batch([text.strip() for text in texts], self.language)

    def read(self, ids: Sequence[int]) -> list[int]:
        """Return the ids that the model reads of a text; see `read_ids`."""
        return read_ids(self.tokenizer, ids, self.max_tokens, self.beginning)

    def kept(self, ids: Sequence[int]) -> list[int]:
        """Return `ids`, or of more than are read the beginning and the end."""
        return kept_ids(self.tokenizer, ids, self.max_tokens, self.beginning)

    def table_logits(self, texts: Sequence[str]) -> Array:
        """Return the logits (B, C) of the word table, in float64; 0 where there is none."""
        return self.read_by_table(texts)[0]

    def read_by_table(self, texts: Sequence[str]) -> tuple[Array, Array]:
        """Return the logits (B, C) of the word table, and whether each text is unlike those of training (B,)."""
        if self.table is None:
            return np.zeros((len(texts), len(self.labels))), np.zeros(len(texts), bool)
        scores, shares = self.table.read(texts)
        return scores.astype(np.float64), shares > self.table.novelty.most

    def encoder_logits(self, rows: Rows, shown: Array | None = None) -> Array:
        """Return what the encoder adds to the logits (B, C) of B rows of ids, of which those `shown` alone are read."""
        if not self.decision.encoder_weight:
            return np.zeros((len(rows), len(self.labels)))
        return self.decision.encoder_weight * self.engine.logits(rows, shown).astype(np.float64)

    def probabilities(self, logits: Array) -> Array:
        """Return the probabilities (B, C) of logits."""
        scaled = logits / self.decision.temperature
        # each label is a decision of its own: the logistic function
        return 0.5 * (1.0 + np.tanh(0.5 * scaled)) if self.is_multi_label else softmax(scaled)

    def _chosen(self, shares: Array) -> list[list[int]]:
        """Return the labels of each text from their probabilities (B, C), by their indices, the likeliest first."""
        if not self.is_multi_label:
            return [[best] for best in shares.argmax(axis=1).tolist()]
        return [row[own[row] >= self.cuts[row]].tolist() for row, own in zip(ranked(shares), shares, strict=True)]


class ImportedHead(OpenedModel):
    """Base of imported models that read texts as a classifier does, and answer something else than its class."""

    def __init__(self, reader: Classifier) -> None:
        self.reader, self.request = reader, reader.request
        self.engine, self.tokenizer = reader.engine, reader.tokenizer

    @classmethod
    def of_request(cls, request: EngineRequest) -> Self:
        return cls(Classifier.of_request(request))


class Regressor(ImportedHead):
    """An imported model that answers a text with a number, or with one for each of its outputs."""

    kind = "regressor"

    def predict(self, texts: Iterable[str]) -> list[dict[str, float]]:
        """Return the numbers of each text by the names of the outputs; none for a text without words."""
        return list(self.stream(texts))

    def stream(
        self, lines: Iterable[str], *, batch_size: int = BATCH_SIZE, window: int = WINDOW
    ) -> Iterator[dict[str, float]]:
        """Answer an endless stream in order, in constant memory; see `Classifier.stream`."""
        for logits, _, has_words, _ in self.reader.scored(lines, batch_size, window):
            for numbers, has_any in zip(logits.tolist(), has_words.tolist(), strict=True):
                yield dict(zip(self.reader.labels, numbers, strict=True)) if has_any else {}


def ranked(shares: Array) -> Array:
    """Return the indices (B, C) of the classes from their probabilities (B, C), the likeliest first."""
    return np.argsort(-shares, axis=1, kind="stable")


def score_column(settings: Mapping[str, Any]) -> str:
    """Return the column of metrics.jsonl by which weights are kept, from the section `classifier`."""
    if settings.get("objective") == "multi_label":
        return "micro_f1"
    return "macro_f1" if settings.get("balance") else "accuracy"


def open_word_table(run: Path, settings: Mapping[str, Any], classes: int, language: str) -> WordTable | None:
    """Return the table of a classifier with these `settings`, or None. Raises as `read_word_table`."""
    if not settings.get("word_table"):
        return None
    is_single = classes == 2 and settings.get("objective") != "multi_label"
    return read_word_table(run, 1 if is_single else classes, language)


def decision_of(run: Path, settings: Mapping[str, Any], classes: int) -> Decision:
    """Return what was found for the kept weights. Raises `DataError` where it is not recorded."""
    where, step, rows = run / "metrics.jsonl", read_note(run / "model.safetensors", "step"), metrics_of_run(run)
    kept = [row for row in rows if str(row.get("step")) == step]
    if not kept:
        raise DataError(
            "{path}: has no row of update {step}, whose weights were kept; continue with --resume", where, step
        )
    try:
        best = max(kept, key=lambda row: float(row[score_column(settings)]))
        cuts = [float(best[f"cut_{label}"]) for label in range(classes) if f"cut_{label}" in best]
        decision = Decision(float(best["temperature"]), float(best.get("encoder_weight", 1.0)), tuple(cuts))
    except (LookupError, TypeError, ValueError):
        raise DataError("{where}: damaged: a row has no score or no temperature; restore the file", where) from None
    if not 0.0 < decision.temperature < math.inf:
        raise DataError("{where}: damaged: the temperature is {value}; restore the file", where, decision.temperature)
    if not 0.0 <= decision.encoder_weight < math.inf or len(cuts) not in (0, classes):
        raise DataError(
            "{where}: damaged: the weight of the encoder or the thresholds are invalid; restore the file", where
        )
    return decision


def require_no_word_table(run: Path, config: Mapping[str, Any]) -> None:
    """Raise `UsageError` where a classifier scores by a word table, which only its own runtime computes."""
    if section(config, "classifier", run).get("word_table"):
        data = section(config, "data_source", run).get("data") or ["DATA"]
        command = shlex.join(("dikkat", "train", "classifier", *map(str, data), "--out", f"{run}-without"))
        raise UsageError(
            "{run}: its word table (word_table.safetensors) does not fit into this format; train without one: "
            "{command} --set classifier.word_table=false"
        ).fill(run, command)
