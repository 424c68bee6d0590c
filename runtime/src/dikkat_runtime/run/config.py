"""`config.json`: the settings of a run, compared with its manifest before they are used."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dikkat_runtime.errors import DataError, MissingInputError, UsageError, msg, reason_of
from dikkat_runtime.files import read_regular
from dikkat_runtime.hints import command, piped
from dikkat_runtime.run.manifest import listed, verify_checksum
from dikkat_runtime.run.parts import CONFIG, LIMITS, MEMBERS, WEIGHTS, check_kinds
from dikkat_runtime.run.strict_json import parse_json

FORMAT_VERSION = 1
VERSIONS = ("format_version", "dikkat_version")
"""The keys of a config.json that are not settings."""
MAX_MEMBERS = 64
KINDS = {
    "translator": "a translator", "classifier": "a classifier", "lm": msg("a language model"),
    "encoder": msg("an encoder"), "tagger": msg("a tagger"), "regressor": msg("a regression"),
}  # fmt: skip
"""The kinds of models that the runtime runs, with their articles, by the name in config.json."""
_USES = {"translator": "translate", "lm": "generate", "encoder": "embed"}  # the others classify


def read_settings(run: Path) -> dict[str, Any]:
    """Return the settings of a run as they were written, without the versions.

    Raises `MissingInputError`, or `DataError` for anything in the run that is a link or a device, and for settings that
    are damaged, of a newer format or others than the manifest lists.
    """
    path = run / CONFIG
    if not run.exists():
        raise MissingInputError("{run}: there is no such run directory", run)
    if not run.is_dir():
        raise MissingInputError("{run}: is a file, not a run directory", run)
    check_kinds(run)
    try:
        content = read_regular(path, LIMITS[CONFIG])
        loaded = parse_json(content)
    except OSError as error:
        reason = msg("{config} cannot be read ({reason})", CONFIG, reason_of(error))
        raise MissingInputError("{run}: not a run directory: {reason}; name one made by dikkat", run, reason) from None
    except ValueError as error:
        raise DataError("{path}: damaged: not valid JSON ({error}); restore the file", path, error) from None
    settings = _checked_versions(loaded, path)
    if entry := listed(run).get(CONFIG):
        verify_checksum(path, hashlib.sha256(content).hexdigest(), entry)
    return settings


def read_config(run: Path, *tasks: str) -> dict[str, Any]:
    """Return the settings of a run of one of these `tasks`, by default of any that the runtime runs.

    Raises as `read_settings`, and `UsageError` for a run of another kind.
    """
    config = read_settings(run)
    task = config.setdefault("task", "translator")
    if tasks and task not in tasks:
        raise wrong_kind(run, config, msg("not {name}", KINDS[tasks[0]]))
    if not isinstance(task, str) or task not in KINDS:
        raise UsageError(
            "{run}: holds a model of the kind {task}, which this runtime does not run; use dikkat", run, repr(task)
        )
    return config


def use_of(run: Path, config: Mapping[str, Any]) -> str:
    """Return the command that uses the model of a run."""
    is_masked = "'masked'" in str(config.get("language_model"))  # it continues no text
    return piped("embed" if is_masked else _USES.get(config["task"], "classify"), run)


def wrong_kind(run: Path, config: Mapping[str, Any], problem: str, *, is_shown: bool = False) -> UsageError:
    """Return the error of a run of a kind with this `problem`, and the command that uses such a model or shows it."""
    task = config["task"]
    if not isinstance(task, str) or task not in KINDS:
        return UsageError('{path}: holds a "{kind}", {problem}', run, task, problem)
    use = command("attend", run, "a text", "--out", "attention.html") if is_shown else use_of(run, config)
    return UsageError("{path}: holds {kind}, {problem}; try: {command}", run, KINDS[task], problem, use)


def member_runs(run: Path, config: Mapping[str, Any]) -> list[Path]:
    """Return the runs whose probabilities are averaged, the run itself first; only those that have weights by now.

    Raises `DataError` for settings that are damaged; a member that a finished run lacks is refused where it is read.
    """
    # an imported run was trained elsewhere
    count = section(config, "training", run).get("members", 1) if "training" in config else 1
    if type(count) is not int or not 1 <= count <= MAX_MEMBERS:
        raise DataError("{run}: damaged: training.members is {count}; restore the file", run / CONFIG, repr(count))
    members = [run / MEMBERS / str(number) for number in range(2, count + 1)]
    is_finished = (run / "card.md").exists()
    return [run, *(member for member in members if is_finished or (member / WEIGHTS).exists())]


def section(config: Mapping[str, Any], name: str, where: Path) -> dict[str, Any]:
    """Return one section of the settings. Raises `DataError` where it is missing."""
    content = config.get(name)
    if not isinstance(content, dict):
        raise DataError("{where}: damaged: it has no section `{name}`; restore the file", where / CONFIG, name)
    return content


def guided_indices(config: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return layer and head of the encoder, from 0, that a run of these settings guided; None where it guided none."""
    training = config.get("training", {})
    if not training.get("guided_weight"):
        return None
    return (training["guided_layer"] or config["model"]["encoder_layers"]) - 1, training["guided_head"] - 1


def labels_of(run: Path, config: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the classes of a classifier, in the order of training. Raises `DataError`."""
    labels = config.get("labels")
    if not labels:
        raise DataError("{run}: damaged: names no labels; restore the file", run / CONFIG)
    is_list = isinstance(labels, list) and all(isinstance(label, str) for label in labels)
    if not is_list or len(set(labels)) < len(labels):
        raise DataError("{run}: damaged: its labels must be a list of different names; restore the file", run / CONFIG)
    return tuple(labels)


def _checked_versions(loaded: object, where: Path) -> dict[str, Any]:
    """Return settings without versions. Raises `DataError` naming `where` for damaged ones or a newer format."""
    number = loaded.get(VERSIONS[0]) if isinstance(loaded, dict) else None
    if not isinstance(loaded, dict) or type(number) is not int or number < 1:
        raise DataError("{where}: damaged, or not written by dikkat: no format_version; restore the file", where)
    if number > FORMAT_VERSION:
        raise DataError(
            "{where}: format version {version}, but this dikkat knows only up to {latest}; written by dikkat "
            "{dikkat_version}: upgrade to it"
        ).fill(where, number, FORMAT_VERSION, loaded.get(VERSIONS[1], "?"))
    return {key: value for key, value in loaded.items() if key not in VERSIONS}
