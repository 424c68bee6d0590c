"""`dikkat serve`: runs over HTTP, and the packages that it needs."""

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.errors import DataError, UsageError, msg
from dikkat_runtime.localization import say
from dikkat_runtime.server.settings import WHO, Limits, ServeSettings, Setting
from dikkat_runtime.text.toml_file import read_toml


@dataclass(frozen=True, slots=True)
class Known:
    """A field of `ServeSettings`, or of `Limits` where `is_limit`, that an option or a line of a file sets."""

    field: str
    setting: Setting
    kind: Callable[[Any], Any]
    """Type of the value; bool for a switch."""
    default: Any
    choices: tuple[str, ...] = ()
    many: bool = False
    is_limit: bool = False

    @classmethod
    def all_of(cls, owner: type[Any]) -> "Iterator[Known]":
        hints = get_type_hints(owner, include_extras=True)
        for known in fields(owner):
            kind, *metadata = get_args(hints[known.name]) or (None,)
            if not metadata or not isinstance(metadata[0], Setting):
                continue
            choices = get_args(kind) if get_origin(kind) is Literal else ()
            members = [member for member in get_args(kind) if member not in (NoneType, ...)] or [kind]
            many = get_origin(kind) is tuple
            value = str if choices else members[0]
            yield cls(known.name, metadata[0], value, known.default, choices, many, owner is Limits)


OPTIONS = sorted((*Known.all_of(ServeSettings), *Known.all_of(Limits)), key=lambda known: known.setting.name == "drain")
_BY_NAME = {option.setting.name: option for option in OPTIONS}


def signature() -> inspect.Signature:
    """Return the parameters of the command: every option in its group, with its default in the help."""
    runs = Argument("DIR", help="Run directories, each as DIR or NAME=DIR.")
    config = Option(help="TOML file of these settings by their names, and runs = [DIR, …].")
    new_key = Option(help="Make a key, add it to --keys, print it, and end.", group=WHO)
    return inspect.Signature(
        [
            _parameter("runs", list[str] | None, runs),
            _parameter("config", Path | None, config),
            *map(_parameter_of, OPTIONS),
            _parameter("new_key", str | None, new_key),
        ]
    )


def _parameter_of(option: Known) -> inspect.Parameter:
    shown = option.kind is not bool and not option.many and option.default is not None
    text = msg("{help} [{default}]", msg(option.setting.help), _shown(option.default)) if shown else option.setting.help
    kind: Any = Literal[option.choices] if option.choices else option.kind
    metavars: dict[object, str] = {int: "N", float: "SECONDS"}
    metavar = option.setting.metavar or metavars.get(option.kind, "")
    return _parameter(
        option.setting.name.replace("-", "_"),
        (list[kind] if option.many else kind) | None,
        Option(f"--{option.setting.name}", help=text, group=option.setting.group, metavar=metavar),
    )


def _parameter(name: str, kind: Any, declared: Argument) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, declared])


def _shown(value: object) -> str:
    if type(value) is int and value >= 10_000:
        return f"{value:,}"
    return f"{value:g}" if type(value) is float else f"{value}"


def read_settings(options: Mapping[str, Any]) -> ServeSettings:
    """Return the settings of a command line, over those of its file, over the defaults.

    Raises `MissingInputError` or `DataError` for the file, and `UsageError` for a wrong value.
    """
    chosen = dict(_file_values(options["config"])) if options["config"] else {}
    runs = tuple(options["runs"] or ()) or tuple(chosen.pop("runs", ()))
    for option in OPTIONS:
        value = options[option.setting.name.replace("-", "_")]
        if value is not None:
            chosen[option.setting.name] = value
    chosen.pop("runs", None)
    settings, limits = dict[str, Any](), dict[str, Any]()
    for name, value in chosen.items():
        option = _BY_NAME[name]
        _check(option, value)
        (limits if option.is_limit else settings)[option.field] = tuple(value) if option.many else value
    return ServeSettings(runs=runs, limits=Limits(**limits), **settings)


def _check(option: Known, value: Any) -> None:
    if option.is_limit or option.setting.name in ("threads", "drain"):
        is_count = option.kind is int
        if not (value >= 1 if is_count else 0 < value <= 86_400):
            counted, timed = msg("a whole number of at least {minimum}", 1), msg("above 0 and at most 86400 seconds")
            what = counted if is_count else timed
            raise UsageError("--{name} must be {expected}, not {value:g}", option.setting.name, what, value)


def _file_values(path: Path) -> Iterator[tuple[str, Any]]:
    for name, value in read_toml(path).items():
        if name == "runs":
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise DataError("{path}: runs must be a list of directories in quotation marks", path)
            yield name, value
            continue
        option = _BY_NAME.get(name)
        if option is None:
            raise DataError(
                "{path}: there is no setting {name}; known: runs {settings}", path, name, " ".join(_BY_NAME)
            )
        yield name, _typed(option, value, path)


def _typed(option: Known, value: Any, path: Path) -> Any:
    values = value if option.many else [value]
    types: dict[object, Any] = {bool: bool, int: int, float: (int, float)}
    wanted = types.get(option.kind, str)
    is_typed = isinstance(values, list) and all(
        isinstance(item, wanted) and isinstance(item, bool) == (option.kind is bool) for item in values
    )
    kinds: dict[object, str] = {bool: msg("true or false"), int: msg("a whole number"), float: "a number"}
    if not is_typed or (option.choices and value not in option.choices):
        what = " or ".join(option.choices) or kinds.get(option.kind, msg("a text in quotation marks"))
        raise DataError("{path}: {name} must be {expected}").fill(
            path, option.setting.name, msg("a list, each item {expected}", what) if option.many else what
        )
    try:
        typed = [option.kind(item) for item in values]
    except OverflowError:
        raise DataError(
            "{path}: {name} must be a number that can be computed with", path, option.setting.name
        ) from None
    return typed if option.many else typed[0]


NEEDED = {"starlette": "starlette", "uvicorn": "uvicorn", "httptools": "httptools",
          "prometheus_client": "prometheus-client", "python_multipart": "python-multipart"}  # fmt: skip
"""Packages of the extra [serve], by the names of their modules."""


def serve(**options: Any) -> int | None:
    """Serve runs over HTTP, as clients of other translators expect it."""
    missing = [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise UsageError("serving needs {packages}: pip install 'dikkat-runtime[serve]'", ", ".join(missing))
    if options["new_key"] is not None:
        return _make_key(options["keys"], options["new_key"])
    settings = read_settings(options)
    from dikkat_runtime.server.running import run_server

    return run_server(settings)


serve.__signature__ = signature()  # type: ignore[attr-defined]


def _make_key(file: Path | None, name: str) -> int:
    from dikkat_runtime.server.keys import new_key

    if file is None:
        raise UsageError("--new-key adds a key to a file; name it with --keys FILE")
    key = new_key(file, name)
    say("only the hash of the key is kept in {keys}; the key is shown once:", file)
    sys.stdout.write(f"{key}\n")
    return 0
