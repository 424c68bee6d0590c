"""The models that are served: each run with its name, its kind and, for a translator, its languages."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from itertools import chain, product
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from dikkat_runtime.documents.memories import read_memory
from dikkat_runtime.engine.options import FORMALITIES, BeamOptions, Formality
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import DataError, DikkatError, UsageError, msg
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.run.config import KINDS, read_config
from dikkat_runtime.server.fields import Fields
from dikkat_runtime.server.languages import candidates, normal
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.tasks.aligner import Aligner, CrossAttention
from dikkat_runtime.tasks.classifier import Classifier, Regressor
from dikkat_runtime.tasks.confidence import Calibration, Confidence, Judge
from dikkat_runtime.tasks.corrections import KnownTranslations
from dikkat_runtime.tasks.decisive_words import DecisiveWords, decisive_words
from dikkat_runtime.tasks.demand_keeping import Steps, answered_together
from dikkat_runtime.tasks.embedder import Embedder, Text
from dikkat_runtime.tasks.generator import Generator
from dikkat_runtime.tasks.opening import OpenedModel
from dikkat_runtime.tasks.tagger import Tagger
from dikkat_runtime.tasks.translator import Translation, Translator, decode_together
from dikkat_runtime.text.glossary import Glossary, Term

SAMPLE = "A short text, that the first one who asks does not have to wait for."
ModelKind = Literal["translator", "classifier", "lm", "encoder", "tagger", "regressor"]


@dataclass(eq=False)
class ServedModel:
    """One loaded run with its name, kind and languages."""

    name: str
    kind: ModelKind
    path: Path
    model: Any
    """A `Translator`, `Classifier`, `Generator`, `Embedder`, `Tagger` or `Regressor`."""
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
    memories: dict[str, KnownTranslations] = field(default_factory=dict)
    """The translation memories of a translator by their names; all are used where a request names none."""
    judge: Judge | None = None
    """The judge of confidence, where it has been fitted for the run."""

    @cached_property
    def pair(self) -> tuple[str, str]:
        """Source and target language, in the form in which they are compared."""
        return normal(self.source), normal(self.target)

    def use(self, memories: dict[str, KnownTranslations]) -> None:
        """Let a translator use these memories, in their order."""
        if memories:
            self.memories, self.model.memories = memories, list(memories.values())

    def formality_of(self, fields: Fields) -> Formality:
        """Return the formality that a request asks of a translator. Raises `RequestError` where it learned none."""
        asked = cast("Formality", fields.choice("formality", "default", FORMALITIES))
        if asked in ("more", "less") and not self.model.knows_formality:
            raise RequestError("invalid", "formality is not supported for this target language", param="formality")
        return asked

    @cached_property
    def embedder(self) -> Embedder:
        """The model as a source of vectors, loaded when it is first asked for; in the engine thread."""
        if isinstance(self.model, Embedder):
            return self.model
        return Embedder.load(self.path, self.precision, engine="native", threads=self.threads)

    @cached_property
    def aligner(self) -> Aligner:
        """The aligner of a translator, loaded when it is first asked for; in the engine thread."""
        return Aligner.load(self.path)

    def estimate_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return about as many tokens as each text has, from its length alone."""
        return [int(len(text.encode("utf-8", "replace")) * self.tokens_per_byte) + 1 for text in texts]

    def count_tokens(self, texts: Sequence[Text]) -> list[int]:
        """Return the tokens of each text, with the marks at its start and end."""
        tokenizer = self.model.tokenizer
        rows = (tokenizer.encode(text) if isinstance(text, str) else text for text in texts)
        return [len(ids) + tokenizer.frame_size for ids in rows]


def texts_of(translation: Translation) -> list[str]:
    """Return the best translation and the next best ones."""
    return [entry.text for entry in (translation, *translation.alternatives)]


Function = Callable[[ServedModel, Sequence[Any]], list[Any]]
"""Returns what a model computes of each item."""


@dataclass(frozen=True, slots=True)
class ModelTask:
    """A task that has no options: a function of one model."""

    model: ServedModel
    function: Function

    @property
    def batch_key(self) -> Hashable:
        return self

    def run(self, items: Sequence[Any], tasks: Sequence[Any]) -> list[Any]:
        return self.function(self.model, items)


@dataclass(frozen=True, slots=True)
class Translate:
    """A task that translates segments, each a text, or a text and what somebody has typed of its translation."""

    model: ServedModel
    options: BeamOptions
    glossary: Glossary | None = None
    memory: str | None = None
    """The name of the only memory that is used; None where all are."""
    formality: Formality = "default"
    judged: bool = False
    """True if the confidence in each segment is estimated, where it has been fitted for the run."""
    confidences: dict[str, Confidence] = field(default_factory=dict, compare=False)
    """Those of the segments that are translated."""
    unplaced: dict[str, tuple[Term, ...]] = field(default_factory=dict, compare=False)
    """The terms of the glossary that a translated segment does not hold, for segments with such terms."""

    @property
    def batch_key(self) -> Hashable:
        """Equal for tasks of one engine, or of adapters of one base, that search alike; it keeps no glossary alive."""
        translator = self.model.model
        engine = translator.engine
        return getattr(engine, "mixes_by", id(engine)), translator.defaults.resolved(self.options)

    def run(self, items: Sequence[Any], tasks: Sequence["Translate"]) -> list[Translation]:
        pairs = [(item, "") if isinstance(item, str) else item for item in items]
        indices = dict[Translate, list[int]]()
        for index, task in enumerate(tasks):
            indices.setdefault(task, []).append(index)
        readers, steps = zip(*(task._begun([pairs[one] for one in own]) for task, own in indices.items()), strict=True)
        answers = answered_together(steps, partial(decode_together, readers))
        translations = dict(zip(chain(*indices.values()), chain(*answers), strict=True))
        for index, (task, (text, _)) in enumerate(zip(tasks, pairs, strict=True)):
            if translations[index].unplaced:
                task.unplaced[text] = translations[index].unplaced
            if (confidence := translations[index].confidence) is not None:
                task.confidences[text] = confidence
        return [translations[index] for index in range(len(items))]

    def _begun(self, pairs: Sequence[tuple[str, str]]) -> tuple[tuple[Translator, Any], Steps[list[Translation]]]:
        translator: Translator = self.model.model
        known = translator.known(None if self.memory is None else [self.model.memories[self.memory]])
        lines = translator.line_translator(
            translator.defaults.resolved(self.options), translator.notes, translator.decoded,
            glossary=self.glossary, formality=self.formality, known=known,
            judge=self.model.judge if self.judged else None,
        )  # fmt: skip
        texts, prefixes = zip(*pairs, strict=True)
        return (translator, known), lines.steps(texts, prefixes)


@cache
def embedding(prompt: str | None) -> Function:
    """Return the function from texts to vectors (D,), after the prompt of that name; one, so that requests share it."""
    return lambda model, texts: [
        np.asarray(vector, np.float32) for vector in model.embedder.stream(texts, prompt=prompt)
    ]


Task = Translate | ModelTask


def decide(model: ServedModel, texts: Sequence[str]) -> list[list[DecisiveWords]]:
    """Return the words that decided each label of each text; nothing for a text without words."""
    rows = zip(texts, model.model.encode(texts), strict=True)
    return [decisive_words(model.model, text) if ids else [] for text, ids in rows]


def answer(model: ServedModel, texts: Sequence[str]) -> list[Any]:
    """Return what a classifier, a tagger or a regression answers to each text."""
    return list(model.model.stream(texts))


def attend(model: ServedModel, pairs: Sequence[tuple[str, str]]) -> list[CrossAttention]:
    """Return the cross-attention of each source and its translation."""
    return [model.aligner.attend(source, target) for source, target in pairs]


def align_words(model: ServedModel, pairs: Sequence[tuple[str, str]]) -> list[Array]:
    """Return weights (T, S) of the words of each translation over those of its source."""
    return [model.model.inserter.align(source, target) for source, target in pairs]


_OTHERS: dict[str, type[OpenedModel]] = {
    "classifier": Classifier, "lm": Generator, "encoder": Embedder, "tagger": Tagger, "regressor": Regressor,
}  # fmt: skip


def load_model(spec: str, precision: PrecisionName, threads: int | None, *, all_words: bool = False) -> ServedModel:
    """Load the run of DIR or NAME=DIR. Raises as the loading of its kind, and `UsageError` for unknown languages."""
    name, path = split_spec(spec)
    kind: ModelKind = read_config(path)["task"]
    if kind == "translator":
        opened: Any = Translator.load(path, precision, engine="native", threads=threads, all_words=all_words)
    else:
        opened = _OTHERS[kind].load(path, precision, engine="native", threads=threads)
    model = ServedModel(name or path.resolve().name, kind, path, opened)
    model.precision, model.threads = precision, threads
    model.created = int((path / "model.safetensors").stat().st_mtime)
    model.tokens_per_byte = model.count_tokens([SAMPLE])[0] / len(SAMPLE)
    if kind == "translator":
        model.source, model.target = _languages(name, path)
        model.has_attention = Aligner.computes(path)
        if Calibration.read(path) is not None:
            model.judge = model.model.judge(path)
    return model


def load_memories(
    models: Sequence[ServedModel], paths: Sequence[Path], note: Callable[[str], object] = lambda line: None
) -> None:
    """Give each translator the memories of its languages, by the names of the files without their endings.

    Raises as `read_memory`, and `UsageError` for two memories of one name and one that is for no model.
    """
    names = [path.name.partition(".")[0] for path in paths]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError("two memories are named {name}; rename one of the files", twice)
    for name, path in zip(names, paths, strict=True):
        refused: list[DataError | UsageError] = []
        translators = [model for model in models if model.kind == "translator"]
        for model in translators:
            try:
                languages = model.source, model.target
                model.memories[name] = read_memory(path, languages, note, translator=model.model)
            except (DataError, UsageError) as error:
                refused.append(error)
        if len(refused) == len(translators):
            raise refused[0] if refused else UsageError("{path}: no translator is served that could use it", path)
    for model in models:
        model.use(model.memories)


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
    if isinstance(data, dict) and data.get("source_language") and data.get("target_language"):
        return str(data["source_language"]), str(data["target_language"])
    named = name.split("-")
    if len(named) == 2 and all(part.isalpha() and 2 <= len(part) <= 3 for part in named):
        return named[0], named[1]
    raise UsageError("{path}: the run does not name its languages; give them as its name: en-fr={path}", path)


class Catalog:
    """The models of some runs, by name."""

    def __init__(
        self,
        specs: Sequence[str],
        precision: PrecisionName = "auto",
        threads: int | None = None,
        *,
        all_words: bool = False,
        memories: Sequence[Path] = (),
        note: Callable[[str], object] = lambda line: None,
    ) -> None:
        """Load DIR or NAME=DIR of each of `specs`, and the `memories` of their translators, of which a `note` tells.

        Raises `UsageError` for two of one name, or one pair unnamed, and as `load_memories`.
        """
        self._specs, self._precision, self._threads = tuple(specs), precision, threads
        self._all_words = all_words
        self.models = [self._load(spec) for spec in self._specs]
        _check_names(self.models, self._specs)
        load_memories(self.models, memories, note)

    def reload(self, say: Callable[[str], None]) -> int:
        """Load every run again, and return how many were replaced; one that is broken keeps its old model."""
        fresh, replaced = list(self.models), 0
        for number, spec in enumerate(self._specs):
            old = fresh[number]
            try:
                model = self._load(spec)
                if (model.kind, model.source, model.target) != (old.kind, old.source, old.target):
                    raise UsageError(
                        "{path}: now holds a model of another kind or of other languages; restart the server", old.path
                    )
            except Exception as error:
                # whatever is wrong with one run, the others are loaded
                what = f"{error}" if isinstance(error, DikkatError) else _unforeseen(spec, error)
                say(msg("{error}; the model that was loaded before stays in use").fill(what))
                continue
            model.use(old.memories)
            fresh[number] = model
            replaced += 1
        self.models = fresh
        return replaced

    def of_kind(self, kind: ModelKind) -> list[ServedModel]:
        """Return all models of a kind, in the order of the command."""
        return [model for model in self.models if model.kind == kind]

    def named(self, name: str) -> ServedModel:
        """Return the model of a name. Raises `RequestError`."""
        for model in self.models:
            if model.name == name:
                return model
        known = ", ".join(model.name for model in self.models)
        raise RequestError("not_found", f"there is no model {name[:80]!r}; there are: {known}", param="model")

    def chosen(self, name: str | None, *kinds: ModelKind) -> ServedModel:
        """Return the model of that name, or the first of the first kind served. Raises `RequestError` for others."""
        wanted = KINDS[kinds[0]]
        if name:
            model = self.named(name)
            if model.kind not in kinds:
                raise RequestError("unprocessable", f"{name} is {KINDS[model.kind]}, not {wanted}", param="model")
            return model
        if models := [model for kind in kinds for model in self.of_kind(kind)]:
            return models[0]
        raise RequestError("unprocessable", f"no model here is {wanted}", param="model")

    @property
    def sources(self) -> list[str]:
        """The languages that are translated from, in order."""
        return list(dict.fromkeys(normal(model.source) for model in self.of_kind("translator")))

    @property
    def targets(self) -> list[str]:
        """The languages that are translated into, in order."""
        return list(dict.fromkeys(normal(model.target) for model in self.of_kind("translator")))

    def targets_of(self, source: str) -> list[str]:
        """Return the languages that one is translated into."""
        models = [model for model in self.of_kind("translator") if normal(model.source) == normal(source)]
        return list(dict.fromkeys(normal(model.target) for model in models))

    def known(self, code: str, among: Sequence[str]) -> str | None:
        """Return the code under which a language is served, None where it is not."""
        return next((candidate for candidate in candidates(code) if candidate in among), None)

    def translator(self, source: str, target: str) -> ServedModel | None:
        """Return the first translator between two languages, whichever codes a client writes."""
        first = {model.pair: model for model in reversed(self.of_kind("translator"))}
        pairs = product(candidates(source), candidates(target))
        return next((first[pair] for pair in pairs if pair in first), None)

    def _load(self, spec: str) -> ServedModel:
        model = load_model(spec, self._precision, self._threads, all_words=self._all_words)
        if model.kind == "translator":
            # the first sentence costs more than any later one
            model.model.translate([SAMPLE])
        return model


def _unforeseen(spec: str, error: Exception) -> str:
    reason = " ".join(f"{error}".split()) or type(error).__name__
    return f"{split_spec(spec)[1]}: cannot be loaded: {reason}"


def _check_names(models: Sequence[ServedModel], specs: Sequence[str]) -> None:
    names = dict[str, ServedModel]()
    pairs = dict[tuple[str, str], ServedModel]()
    for model, spec in zip(models, specs, strict=True):
        if other := names.get(model.name):
            raise UsageError("{first} and {second} would both be called {name}; write NAME={second}").fill(
                other.path, model.path, model.name
            )
        names[model.name] = model
        first = pairs.setdefault(model.pair, model) if model.kind == "translator" else model
        if first is not model and not split_spec(spec)[0]:
            raise UsageError(
                "{first} and {second} both translate {source} to {target}; name the second one, NAME={second}, "
                "so that clients can ask for it"
            ).fill(first.path, model.path, *model.pair)
