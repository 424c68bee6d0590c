"""`dikkat serve`: runs over HTTP, and the packages that it needs."""

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from dikkat_runtime.cli.opening import ALL_WORDS_HELP
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.errors import DataError, UsageError, msg
from dikkat_runtime.server.settings import Limits, ServeSettings
from dikkat_runtime.text.toml_file import read_toml
from dikkat_runtime.text.visible import say

# The options of `serve`: one table for the command line, its help and the file of settings.


Kind = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: `--NAME` on the command line, NAME in a file."""

    name: str
    field: str
    """Field of `ServeSettings`, or of `Limits` where `is_limit`."""
    kind: Kind
    """Type of the value; bool for a switch."""
    help: str
    group: str
    metavar: str = ""
    choices: tuple[str, ...] | None = None
    many: bool = False
    is_limit: bool = False

    @property
    def default(self) -> Any:
        """The value where no option and no file sets it."""
        owner = Limits if self.is_limit else ServeSettings
        return next(owner_field.default for owner_field in fields(owner) if owner_field.name == self.field)


_PRECISIONS: tuple[str, ...] = get_args(PrecisionName)
_WHERE, _WHO, _HOW = "where", msg("who may ask"), msg("how to compute")
_ONE, _ALL = msg("what one request may ask for"), msg("what all together may ask for")


def _limit(name: str, field: str, kind: Kind, text: str, group: str = _ONE) -> Setting:
    return Setting(name, field, kind, text, group, {int: "N", float: "SECONDS"}[kind], is_limit=True)  # type: ignore[index]


OPTIONS = (
    Setting("host", "host", str, "Address to listen on; by default, only this computer can connect.", _WHERE),
    Setting("port", "port", int, "Port to listen on; 0 is any free port.", _WHERE),
    Setting("log-requests", "log_requests", bool, "Log one line per request, without its text.", _WHERE),
    Setting("keys", "keys", Path, "File of API keys; requests without one of them are refused.", _WHO),
    Setting("open", "is_open", bool, "Answer anyone who can reach --host, without a key.", _WHO),
    Setting("corrections", "takes_corrections", bool, "Keep and use the better translations that clients send.", _WHO),
    Setting("allow-host", "allowed_hosts", str, "Another host name of the server.", _WHO, "NAME", many=True),
    Setting("memory", "memories", Path, "Translation memory (.tmx, .tsv), named as its file.", _HOW, many=True),
    Setting(
        "allow-origin",
        "allowed_origins",
        str,
        "Allow web pages of this origin (CORS); * allows all.",
        _WHO,
        "URL",
        many=True,
    ),
    Setting(
        "precision",
        "precision",
        str,
        "int8 is faster; auto decides by what training measured.",
        _HOW,
        choices=_PRECISIONS,
    ),
    Setting(
        "beam", "beam_size", int, "Beam size: hypotheses that are followed side by side; 1 is greedy search.", _HOW, "N"
    ),
    Setting("all-words", "all_words", bool, ALL_WORDS_HELP, _HOW),
    Setting("threads", "threads", int, "Threads to compute with; by default, one per processor.", _HOW, "N"),
    _limit("batch-tokens", "batch_tokens", int, "Source tokens in a batch; 1 is one text at a time.", _HOW),
    _limit("max-body", "body_bytes", int, "Bytes of a request."),
    _limit("max-upload", "upload_bytes", int, "Bytes of a request with a file."),
    _limit("max-texts", "texts", int, "Texts of a request."),
    _limit("max-characters", "characters", int, "Characters of all its texts."),
    _limit("max-text-characters", "text_characters", int, "Characters of one text."),
    _limit("max-alternatives", "alternatives", int, "Other translations of a text."),
    _limit("max-new-tokens", "new_tokens", int, "Tokens that a language model writes."),
    _limit("max-terms", "glossary_entries", int, "Terms of a glossary."),
    _limit("head-timeout", "head_seconds", float, "For the first lines of a request; then the connection is closed."),
    _limit("body-timeout", "body_seconds", float, "For the rest of it; then it is answered 408."),
    _limit("request-timeout", "request_seconds", float, "For its answer; then it is answered 503."),
    _limit("max-wait", "wait_seconds", float, "Estimated wait from which on it is answered 429.", _ALL),
    _limit("interactive-segments", "interactive_segments", int, "Segments beyond which a request is bulk.", _ALL),
    _limit("ageing", "ageing_seconds", float, "After which bulk requests no longer wait for later ones.", _ALL),
    _limit("max-connections", "connections", int, "Connections; further ones are closed.", _ALL),
    _limit("reading-timeout", "reading_seconds", float, "Of a processor, to read a file; more for each 2 MB."),
    _limit("reading-memory", "reading_bytes", int, "Bytes of memory to read a file."),
    _limit("workers", "workers", int, "Processes that read files, and as many for texts with tags.", _ALL),
    _limit("max-memory", "memory_bytes", int, "Bytes of large requests; then they are answered 429.", _ALL),
    _limit("max-unkeyed", "unkeyed_bytes", int, "Bytes of those among them whose key is not read yet.", _ALL),
    _limit("max-documents", "documents", int, "Files of each key held, translated or not.", _ALL),
    _limit("keep-documents", "document_seconds", float, "For which a translated file can be fetched.", _ALL),
    _limit("max-glossaries", "glossaries", int, "Glossaries of each key.", _ALL),
    Setting("drain", "drain_seconds", float, "For the last answers after SIGTERM.", _ALL, "SECONDS"),
)
_BY_NAME = {option.name: option for option in OPTIONS}


def signature() -> inspect.Signature:
    """Return the parameters of the command: every option in its group, with its default in the help."""
    runs = Argument("DIR", help="Run directories, each as DIR or NAME=DIR.")
    config = Option(help="TOML file of these settings by their names, and runs = [DIR, …].")
    new_key = Option(help="Make a key, add it to --keys, print it, and end.", group=_WHO)
    return inspect.Signature(
        [
            _parameter("runs", list[str] | None, runs),
            _parameter("config", Path | None, config),
            *map(_parameter_of, OPTIONS),
            _parameter("new_key", str | None, new_key),
        ]
    )


def _parameter_of(option: Setting) -> inspect.Parameter:
    shown = option.kind is not bool and not option.many and option.default is not None
    text = msg("{help} [{default}]", msg(option.help), _shown(option.default)) if shown else option.help
    kind: Any = Literal[option.choices] if option.choices else option.kind
    return _parameter(
        option.name.replace("-", "_"),
        (list[kind] if option.many else kind) | None,
        Option(f"--{option.name}", help=text, group=option.group, metavar=option.metavar),
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
        value = options[option.name.replace("-", "_")]
        if value is not None:
            chosen[option.name] = value
    chosen.pop("runs", None)
    settings, limits = dict[str, Any](), dict[str, Any]()
    for name, value in chosen.items():
        option = _BY_NAME[name]
        _check(option, value)
        (limits if option.is_limit else settings)[option.field] = tuple(value) if option.many else value
    return ServeSettings(runs=runs, limits=Limits(**limits), **settings)


def _check(option: Setting, value: Any) -> None:
    if option.is_limit or option.name in ("threads", "drain"):
        least = 1 if option.kind is int else 0
        if not (value >= 1 if option.kind is int else 0 < value <= 86_400):
            what = (
                msg("a whole number of at least {minimum}", least)
                if option.kind is int
                else msg("above 0 and at most 86400 seconds")
            )
            raise UsageError("--{name} must be {expected}, not {value:g}", option.name, what, value)


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


def _typed(option: Setting, value: Any, path: Path) -> Any:
    values = value if option.many else [value]
    types: dict[object, Any] = {bool: bool, int: int, float: (int, float)}
    wanted = types.get(option.kind, str)
    is_typed = isinstance(values, list) and all(
        isinstance(item, wanted) and isinstance(item, bool) == (option.kind is bool) for item in values
    )
    kinds: dict[object, str] = {bool: msg("true or false"), int: msg("a whole number"), float: "a number"}
    if not is_typed or (option.choices and value not in option.choices):
        what = (
            " or ".join(option.choices) if option.choices else kinds.get(option.kind, msg("a text in quotation marks"))
        )
        raise DataError("{path}: {name} must be {expected}").fill(
            path, option.name, msg("a list, each item {expected}", what) if option.many else what
        )
    try:
        typed = [option.kind(item) for item in values]
    except OverflowError:
        raise DataError("{path}: {name} must be a number that can be computed with", path, option.name) from None
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
