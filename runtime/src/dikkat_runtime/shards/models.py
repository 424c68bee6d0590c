"""Models that work on rows: texts in, the values of new columns out."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from dikkat_runtime.engine.contract import EngineInfo
from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.rows.contract import Column, Values
from dikkat_runtime.shards.work import Job, model_fingerprint
from dikkat_runtime.tasks.classifier import Classifier
from dikkat_runtime.tasks.corrections import Corrections
from dikkat_runtime.tasks.embedder import Embedder, Vector, tsv_line
from dikkat_runtime.tasks.translations import TranslationNotes
from dikkat_runtime.tasks.translator import Translator


class RowModel(Protocol):
    """The methods of a model that a worker calls."""

    counts: Counter[str]
    """Counts of rows by event, since the counter was cleared."""
    fingerprint: str
    """What `model_fingerprint` says of the run when the model is opened."""

    @property
    def info(self) -> EngineInfo:
        """The engine that computes, with its precision and threads."""

    @property
    def columns(self) -> Sequence[Column]:
        """The columns that it fills."""

    def answers(self, texts: Sequence[str]) -> list[Values]:
        """Return the values of each text; an empty text has values too."""

    def line_of(self, text: str, values: Values) -> str:
        """Return what the command for lines prints for a text with these values."""


def open_model(job: Job) -> RowModel:
    """Return the model of a run directory for a worker. Raises as the `load` of the model."""
    chosen: Any = {"device": job.device, "engine": job.engine, "threads": job.threads}
    if job.task == "translate":
        return TranslatingModel(Translator.load(job.run, job.precision, all_words=job.all_words, **chosen), job)
    if job.task == "classify":
        return ClassifyingModel(Classifier.load(job.run, job.precision, **chosen), job)
    return EmbeddingModel(Embedder.load(job.run, job.precision, **chosen), job)


class TranslatingModel:
    """A translator; a text of several lines is translated line by line."""

    def __init__(self, translator: Translator, job: Job) -> None:
        self._translate = partial(translator.stream, formality=job.formality)
        # refuses a formality that the run has not learned
        list(self._translate(()))
        # what is corrected from now on is for the next call
        translator.corrections = Corrections(job.run, is_fixed=True) if job.corrections else None
        self.fingerprint = model_fingerprint(job)
        self._options = BeamOptions(beam_size=job.beam, length_penalty=job.length_penalty, scores=False)
        self.info = translator.info
        self.columns = [Column(job.output_column or "translation", "text")]
        self.counts = Counter[str]()

    def answers(self, texts: Sequence[str]) -> list[Values]:
        lines = [text.split("\n") for text in texts]
        # lines are counted from 1 in each chunk, so a chunk needs notes of its own
        notes = TranslationNotes()
        stream = self._translate((line for some in lines for line in some), self._options, notes=notes)
        values: list[Values] = [("\n".join(next(stream).text for _ in some),) for some in lines]
        self.counts.update(cut=notes.count("cut"), looped=notes.count("loop"), unfinished=notes.count("unfinished"))
        return values

    def line_of(self, text: str, values: Values) -> str:
        return str(values[0])


class ClassifyingModel:
    """A classifier: the label and its probability, or with several labels a text the lists of both."""

    def __init__(self, classifier: Classifier, job: Job) -> None:
        self._classifier, self.info, self.fingerprint = classifier, classifier.info, model_fingerprint(job)
        label = job.output_column or "label"
        self.columns = [Column(label, "text"), Column("probability", "number")]
        if classifier.is_multi_label:
            self.columns = [Column(label, "texts"), Column("probability", "vector")]
        self.counts = Counter[str]()

    def answers(self, texts: Sequence[str]) -> list[Values]:
        """Return label and probability of each text, the likeliest first; both are None where it has no words."""
        values = list[Values]()
        for answer in self._classifier.stream(texts):
            self.counts["cut"] += answer.num_tokens > self._classifier.max_tokens
            if not answer.label:
                values.append((None, None))
            elif self._classifier.is_multi_label:
                shares = [answer.probabilities[label] for label in answer.labels]
                values.append((list(answer.labels), np.array(shares, np.float32)))
            else:
                values.append((answer.label, answer.probability))
        return values

    def line_of(self, text: str, values: Values) -> str:
        """Return labels and probabilities, with tabs between them."""
        label, probability = values
        if label is None:
            return "\tnan"
        pairs = zip(label, probability, strict=True) if isinstance(label, list) else [(label, probability)]
        return "\t".join(f"{name}\t{share:.4f}" for name, share in pairs)


class EmbeddingModel:
    """Any model as a source of vectors."""

    def __init__(self, embedder: Embedder, job: Job) -> None:
        self._embedder, self.info, self.fingerprint = embedder, embedder.info, model_fingerprint(job)
        self.columns = [Column(job.output_column or "embedding", "vector")]
        self.counts = Counter[str]()

    def answers(self, texts: Sequence[str]) -> list[Values]:
        """Return the vector (D,) of each text; that of a text without words is zero."""
        values = list[Values]()
        for vector in self._embedder.sentences(texts):
            self.counts["cut"] += vector.left_out > 0
            values.append((vector.values,))
        return values

    def line_of(self, text: str, values: Values) -> str:
        """Return the text and the numbers of its vector, with a tab between them."""
        return tsv_line(Vector(1, text, values[0]))
