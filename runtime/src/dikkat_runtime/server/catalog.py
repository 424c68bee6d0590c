"""Find served models by name, kind or pair of languages, and reload a run while others work."""

from collections.abc import Callable, Sequence
from pathlib import Path

from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import DikkatError, UsageError, msg
from dikkat_runtime.server.languages import candidates, normal
from dikkat_runtime.server.models import SAMPLE, ModelKind, ServedModel, load_memories, load_model, split_spec
from dikkat_runtime.server.request_error import RequestError


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

    def chosen(self, name: str | None, kind: ModelKind) -> ServedModel:
        """Return the model of that name, or the first of a kind. Raises `RequestError` where it is of another kind."""
        if name:
            model = self.named(name)
            if model.kind != kind:
                raise RequestError("unprocessable", f"{name} is a {model.kind}, not a {kind}", param="model")
            return model
        if models := self.of_kind(kind):
            return models[0]
        raise RequestError("unprocessable", f"no {kind} is served here", param="model")

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
        for from_code in candidates(source):
            for to_code in candidates(target):
                for model in self.of_kind("translator"):
                    if model.pair == (from_code, to_code):
                        return model
        return None

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
        pair = normal(model.source), normal(model.target)
        first = pairs.setdefault(pair, model) if model.kind == "translator" else model
        if first is not model and not split_spec(spec)[0]:
            raise UsageError(
                "{first} and {second} both translate {source} to {target}; name the second one, NAME={second}, "
                "so that clients can ask for it"
            ).fill(first.path, model.path, pair[0], pair[1])
