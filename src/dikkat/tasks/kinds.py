"""Register the kinds of models, one row each.

A part is written as "module:name", where the module is one of `dikkat.tasks` or of the runtime, and imported when it is
first asked for, so that a command loads only its own kind.
The commands of a kind stand in `dikkat.cli`, in the module of their name; that of `dikkat train KIND` in `train_KIND`.
"""

from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dikkat_runtime.errors import msg
from dikkat_runtime.run.config import wrong_kind

if TYPE_CHECKING:
    from dikkat.run_directory import RunDirectory


@dataclass(frozen=True, slots=True)
class Kind:
    """Name the modules of one kind of model; an empty field means that it has no such part."""

    load: str
    """From the path of a run to the object that a user works with."""
    build: str = ""
    """From a `RunDirectory` and its `RunConfig` to a new model with random weights."""
    heads: str = ""
    """From the path of a run, data and a number of texts to the `HeadSubject` whose heads are measured."""
    report: str = ""
    """From a `RunDirectory`, its rows of metrics and a language to the `RunFacts` that its report shows."""
    is_trained: bool = True
    """Whether `dikkat train` makes such a model; others are imported."""


KINDS = {
    "translator": Kind(
        load="dikkat_runtime.tasks.translator:Translator.load",
        build="torch_factory:new_translator",
        report="translation.report:translator_facts",
    ),
    "classifier": Kind(
        load="dikkat_runtime.tasks.classifier:Classifier.load",
        build="torch_factory:new_classifier",
        heads="classification.heads:classifier_heads",
        report="classification.report:classifier_facts",
    ),
    "lm": Kind(
        load="dikkat_runtime.tasks.generator:Generator.load",
        build="torch_factory:new_language_model",
        heads="language_model.heads:language_model_heads",
        report="language_model.report:language_model_facts",
    ),
    "encoder": Kind("dikkat_runtime.tasks.embedder:Embedder.load", is_trained=False),
    "tagger": Kind("dikkat_runtime.tasks.tagger:Tagger.load", is_trained=False),
    "regressor": Kind("dikkat_runtime.tasks.classifier:Regressor.load", is_trained=False),
}
"""By the name that stands as "task" in the config.json of a run."""


def kind_name(run: "RunDirectory") -> str:
    """Return the name of the kind that `run` holds; runs of the first version do not say it and are translators."""
    return str(run.read_config().get("task", "translator"))


def load_part(run: "RunDirectory", part: str, lack: str) -> Any:
    """Import one part of the kind of model that `run` holds.

    `part` is a field of `Kind`. Raises `UsageError` with the sentence "holds a …, `lack`" where it has none.
    """
    name = kind_name(run)
    if not (home := getattr(KINDS.get(name), part, "")):
        raise wrong_kind(run.path, {"task": name}, lack, is_shown=True)
    module, _, attributes = home.partition(":")
    path = module if module.startswith("dikkat_runtime.") else f"dikkat.tasks.{module}"
    return attrgetter(attributes)(import_module(path))


def load(path: str | Path) -> Any:
    """Return the model of the run directory `path`, of its class. Raises `UsageError` for an unknown kind."""
    from dikkat.run_directory import RunDirectory

    run = RunDirectory.open(Path(path))
    return load_part(run, "load", msg("which this version cannot load"))(path)
