"""The models that are served: each run with its name, its kind and, for a translator, its languages."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import UsageError
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.run.config import read_config
from dikkat_runtime.server.languages import normal
from dikkat_runtime.tasks.aligner import Aligner, CrossAttention, word_spans
from dikkat_runtime.tasks.classifier import Classification, Classifier
from dikkat_runtime.tasks.confidence import Calibration, Confidence, Judge
from dikkat_runtime.tasks.decisive_words import DecisiveWords, decisive_words
from dikkat_runtime.tasks.embedder import Embedder
from dikkat_runtime.tasks.generator import Generator
from dikkat_runtime.tasks.translator import Translation, Translator
from dikkat_runtime.text.glossary import Glossary, Term

SAMPLE = "A short text, that the first one who asks does not have to wait for."
ModelKind = Literal["translator", "classifier", "lm"]


@dataclass(eq=False)
class ServedModel:
    """One loaded run with its name, kind and languages."""

    name: str
    kind: ModelKind
    path: Path
    model: Any
    """A `Translator`, `Classifier` or `Generator`."""
    source: str = ""
    target: str = ""
    created: int = 0
    """Time when its weights were written, in seconds since 1970."""
    tokens_per_byte: float = 0.3
    """Estimate for a short English text."""
    precision: PrecisionName = "float32"
    threads: int | None = None
    has_attention: bool = False
    """True if it is a translator with readable cross-attention."""
    judge: Judge | None = None
    """The judge of confidence, where it has been fitted for the run."""
    _tasks: "dict[tuple[int, int], Translate]" = field(default_factory=dict, repr=False)

    @cached_property
    def pair(self) -> tuple[str, str]:
        """Source and target language, in the form in which they are compared."""
        return normal(self.source), normal(self.target)

    def translate_task(self, beam_size: int, n_best: int, glossary: Glossary | None = None) -> "Translate":
        """Return the task of a beam; without a glossary the same one each time."""
        if glossary is not None:
            return Translate(self, BeamOptions(beam_size=beam_size, n_best=n_best), glossary)
        task = self._tasks.get((beam_size, n_best))
        if task is None:
            task = Translate(self, BeamOptions(beam_size=beam_size, n_best=n_best))
            self._tasks[beam_size, n_best] = task
        return task

    @cached_property
    def embedder(self) -> Embedder:
        """The model as a source of vectors, loaded when it is first asked for; in the engine thread."""
        return Embedder.load(self.path, self.precision, engine="native", threads=self.threads)

    @cached_property
    def aligner(self) -> Aligner:
        """The aligner of a translator, loaded when it is first asked for; in the engine thread."""
        return Aligner.load(self.path)

    def estimate_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return about as many tokens as each text has, from its length alone."""
        return [int(len(text.encode("utf-8", "replace")) * self.tokens_per_byte) + 1 for text in texts]

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the tokens of each text, with one for the mark at its end or start."""
        return [len(ids) + 1 for ids in self.model.tokenizer.encode_batch(list(texts))]


def texts_of(translation: Translation) -> list[str]:
    """Return the best translation and the next best ones."""
    return [entry.text for entry in (translation, *translation.alternatives)]


@dataclass(frozen=True, slots=True)
class ModelTask:
    """A task of one model."""

    model: ServedModel

    @property
    def rate_key(self) -> Hashable:
        """Equal for tasks that take about as long."""
        return self


@dataclass(frozen=True, slots=True)
class Translate(ModelTask):
    """A task that translates segments."""

    options: BeamOptions
    glossary: Glossary | None = None
    unplaced: dict[str, tuple[Term, ...]] = field(default_factory=dict, compare=False)
    """The terms of the glossary that a translated segment does not hold, for segments with such terms."""

    @property
    def rate_key(self) -> Hashable:
        """Equal for tasks that take about as long; it keeps no glossary alive."""
        return self.model, self.options, self.glossary is not None

    def run(self, texts: Sequence[str]) -> list[Translation]:
        """Return one translation for each text."""
        translations: list[Translation] = self.model.model.translate(texts, self.options, glossary=self.glossary)
        if self.glossary is not None:
            self.unplaced.update(
                (text, translation.unplaced)
                for text, translation in zip(texts, translations, strict=True)
                if translation.unplaced
            )
        return translations


@dataclass(frozen=True, slots=True)
class Complete(ModelTask):
    """A task that completes translations which somebody types."""

    options: BeamOptions
    glossary: Glossary | None = None

    @property
    def rate_key(self) -> Hashable:
        """Equal for tasks that take about as long."""
        return self.model, self.options, "complete"

    def run(self, pairs: Sequence[tuple[str, str]]) -> list[Translation]:
        """Return the best translation of each source that begins with its prefix."""
        sources, prefixes = zip(*pairs, strict=True)
        return list(self.model.model.translate(sources, self.options, prefixes=prefixes, glossary=self.glossary))


class Classify(ModelTask):
    """A task that classifies texts."""

    def run(self, texts: Sequence[str]) -> list[Classification]:
        """Return one classification for each text."""
        classifications: list[Classification] = self.model.model.classify(texts)
        return classifications


class Decide(ModelTask):
    """A task that finds the words that decided the labels of texts."""

    def run(self, texts: Sequence[str]) -> list[list[DecisiveWords]]:
        """Return the words that decided each label of each text; nothing for a text without words."""
        is_empty = [not ids for ids in self.model.model.encode(texts)]
        rows = zip(texts, is_empty, strict=True)
        return [[] if empty else decisive_words(self.model.model, text) for text, empty in rows]


class Embed(ModelTask):
    """A task that computes vectors of texts."""

    def run(self, texts: Sequence[str]) -> list[Any]:
        """Return one vector (D,) for each text."""
        return [np.asarray(vector, np.float32) for vector in self.model.embedder.stream(texts)]


class Attend(ModelTask):
    """A task that computes the cross-attention of given translations."""

    def run(self, pairs: Sequence[tuple[str, str]]) -> list[CrossAttention]:
        """Return the cross-attention of each source and its translation."""
        return [self.model.aligner.attend(source, target) for source, target in pairs]


class EstimateConfidence(ModelTask):
    """A task that estimates the confidence in translations."""

    def run(self, pairs: Sequence[tuple[str, str]]) -> list[Confidence]:
        """Return the confidence in the translation of each source."""
        assert self.model.judge is not None
        sources, targets = zip(*pairs, strict=True)
        return self.model.judge(sources, targets)


class AlignWords(ModelTask):
    """A task that aligns the words of sentences with those of their translations."""

    def run(self, pairs: Sequence[tuple[str, str]]) -> list[Array]:
        """Return weights (T, S) of the words of each translation over those of its source."""
        align = self.model.aligner.align
        return [align(source, word_spans(source), target, word_spans(target)) for source, target in pairs]


Task = Translate | Complete | Classify | Decide | Embed | Attend | EstimateConfidence | AlignWords


def load_model(spec: str, precision: PrecisionName, threads: int | None, *, all_words: bool = False) -> ServedModel:
    """Load the run of DIR or NAME=DIR. Raises as the loading of its kind, and `UsageError` for unknown languages."""
    name, path = split_spec(spec)
    kind: ModelKind = read_config(path)["task"]
    loaders: dict[str, Callable[[], Any]] = {
        "translator": lambda: Translator.load(path, precision, engine="native", threads=threads, all_words=all_words),
        "classifier": lambda: Classifier.load(path, precision, engine="native", threads=threads),
        "lm": lambda: Generator.load(path, precision, engine="native", threads=threads),
    }
    model = ServedModel(name or path.resolve().name, kind, path, loaders[kind]())
    model.precision, model.threads = precision, threads
    model.created = int((path / "model.safetensors").stat().st_mtime)
    model.tokens_per_byte = model.count_tokens([SAMPLE])[0] / len(SAMPLE)
    if kind == "translator":
        model.source, model.target = _languages(name, path)
        model.has_attention = Aligner.computes(path)
        if Calibration.read(path) is not None:
            model.judge = model.model.judge(path)
    return model


def split_spec(spec: str) -> tuple[str, Path]:
    """Return name and directory; the name is empty where none is given.

    Raises `UsageError` for a name that fits no URL.
    """
    name, mark, path = spec.partition("=")
    if not mark or Path(spec).exists():
        return "", Path(spec)
    if not name or not all(letter.isalnum() or letter in "-_." for letter in name) or name[0] == ".":
        raise UsageError("{argument}: a name has letters, digits, -, _ and . only; write NAME=DIR", spec)
    return name, Path(path)


def _languages(name: str, path: Path) -> tuple[str, str]:
    """Return the languages of the run, else those of a name like en-fr."""
    data = read_config(path).get("data")
    pair = (
        [str(data.get(key) or "") for key in ("source_language", "target_language")] if isinstance(data, dict) else []
    )
    if len(pair) == 2 and all(pair):
        return pair[0], pair[1]
    named = name.split("-")
    if len(named) == 2 and all(part.isalpha() and 2 <= len(part) <= 3 for part in named):
        return named[0], named[1]
    raise UsageError("{path}: the run does not name its languages; give them as its name: en-fr={path}", path)
