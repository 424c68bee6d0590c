"""Declare a command by the signature of a function, and read its words with argparse.

    def shout(text: Annotated[str, Argument(help="What to shout.")], twice: Annotated[bool, Option()] = False) -> None:

An option is called as its parameter, unless `Option` names it; one without a default must be given. A parameter that
is annotated with neither is an option if it has a default, else an argument; with `TYPED`, it gets the names of the
parameters that were typed. The fields of a data class are options of a command that takes one.
"""

import argparse
import dataclasses
import inspect
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from types import NoneType
from typing import Any, Literal, NoReturn, get_args, get_origin

from dikkat_runtime.errors import UsageError, msg
from dikkat_runtime.localization import translated

MAX_WIDTH = 80
_MAX_NAME = 30
"""Widest first column; what is wider gets a line of its own."""

Rows = Sequence[tuple[str, str]]


def help_page(usage: str, text: str, tables: Mapping[str, Rows]) -> str:
    """Return the help; `text` and the headings of `tables` are turned into the spoken language, the rows are spoken."""
    width = max(40, min(MAX_WIDTH, shutil.get_terminal_size().columns)) - 2
    parts = [textwrap.fill(f"{translated('Usage:')} {usage}", width + 2, subsequent_indent="    ")]
    paragraphs = [" ".join(paragraph.split()) for paragraph in re.split(r"\n[ \t]*+\n", text) if paragraph.strip()]
    parts += [
        textwrap.fill(translated(paragraph), width, initial_indent="  ", subsequent_indent="  ")
        for paragraph in paragraphs
    ]
    parts += [f"{translated(heading)}:\n{_table(rows, width)}" for heading, rows in tables.items() if rows]
    return "\n\n".join(parts) + "\n"


def _table(rows: Rows, width: int) -> str:
    first = min(_MAX_NAME, max(len(name) for name, _ in rows))
    lines: list[str] = []
    for name, text in rows:
        wrapped = textwrap.wrap(text, width - first - 4) or [""]
        if len(name) > first:
            lines.append(f"  {name}")
            name = ""
        lines.append(f"  {name:{first}}  {wrapped[0]}".rstrip())
        lines += [f"{'':{first + 4}}{line}" for line in wrapped[1:]]
    return "\n".join(lines)


TYPED = "typed"
"""Annotates the parameter that gets the names of those that were typed."""
HELP = ("-h", "--help")
HELP_ROW = ("-h, --help", msg("Show this message and exit."))
_NOT_NUMBERS = {
    int: msg("Input should be a valid integer, unable to parse string as an integer"),
    float: msg("Input should be a valid number, unable to parse string as a number"),
}
_MAX_DIGITS = 4000
"""Python reads no longer numbers."""


class Argument:
    """Annotate a parameter that is read from words without a name."""

    def __init__(
        self,
        *names: str,
        help: str = "",
        min: float | None = None,
        max: float | None = None,
        group: str = "Options",
        metavar: str = "",
    ) -> None:
        """`names` are its parameter's if absent; `group` and `metavar` are its heading and its value in the help."""
        self.names, self.help, self.min, self.max, self.group, self.metavar = names, help, min, max, group, metavar


class Option(Argument):
    """Annotate a parameter that is read from the word after its name; one of type bool is set by its name alone."""


class Parameter:
    """An argument or option of a command: what is typed for it, and what it means."""

    def __init__(self, name: str, annotation: Any, declared: Argument, default: Any, command: str) -> None:
        self.name, self.declared, self.command = name, declared, command
        self.is_option = isinstance(declared, Option)
        spelt = name.strip("_").replace("_", "-")
        self.names = declared.names or (f"--{spelt}" if self.is_option else spelt,)
        self.is_required = default in (inspect.Parameter.empty, ...)
        self.default = None if self.is_required else default
        members = [member for member in get_args(annotation) if member is not NoneType]
        is_optional = NoneType in get_args(annotation)
        kind = members[0] if is_optional else annotation
        self.is_list = get_origin(kind) is list
        self.kind: Any = get_args(kind)[0] if self.is_list else kind
        self.choices = _choices(self.kind)

    @property
    def shown_name(self) -> str:
        return max(self.names, key=len)

    def read(self, text: str) -> Any:
        """Return the value that a word spells. Raises `UsageError`."""
        if self.choices:
            if text not in self.choices:
                self._refuse(msg("'{text}' is not one of {choices}", text, ", ".join(map(repr, self.choices))))
            return self.kind(text) if isinstance(self.kind, type) else text
        if self.kind not in _NOT_NUMBERS:
            return self.kind(text)
        try:
            number = self.kind(text)
        except (ValueError, OverflowError):
            self._refuse(_NOT_NUMBERS[self.kind])
        if self.declared.min is not None and not number >= self.declared.min:
            self._refuse(msg("Input should be greater than or equal to {min:g}", self.declared.min))
        if self.declared.max is not None and not number <= self.declared.max:
            self._refuse(msg("Input should be less than or equal to {max:.10g}", self.declared.max))
        return number

    def _refuse(self, reason: str) -> NoReturn:
        raise usage_error(msg("Invalid value for '{name}': {reason}", self.shown_name, reason), self.command)

    def row(self) -> tuple[str, str]:
        """Return what the help shows of it: names with the kind of value, and what it is for with its facts."""
        kind = "|".join(self.choices) or getattr(self.kind, "__name__", "str").lower()
        names = ", ".join(sorted(self.names, key=len))
        value = "" if self.kind is bool else f" {self.declared.metavar or f'<{kind}>'}"
        facts = [translated("required")] if self.is_required else []
        if self.default not in (None, "") and self.default is not False and not self.is_list:
            default = self.default.value if isinstance(self.default, Enum) else self.default
            facts.append(translated("default: {default}", default))
        least, most = self.declared.min, self.declared.max
        if least is not None or most is not None:
            low, high = (f"{least:g}<=" if least is not None else ""), (f"<={most:.10g}" if most is not None else "")
            facts.append(f"{low}x{high}")
        text = translated(self.declared.help)
        return f"{names}{value}", "  ".join(filter(None, [text, f"[{'; '.join(facts)}]" if facts else ""]))


def _choices(kind: Any) -> tuple[str, ...]:
    if get_origin(kind) is Literal:
        return get_args(kind)
    return tuple(member.value for member in kind) if isinstance(kind, type) and issubclass(kind, Enum) else ()


class Command:
    """A function that is called with what the words of a command line say.

    Where its module has an EXAMPLE, what to type and what data look like, that answers a call without any words.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        self.name, self.function = name, function
        self.parameters: list[Parameter] = []
        self._groups: dict[str, type[Any]] = {}
        self._of_typed = ""
        self._declare(function)

    def _declare(self, function: Callable[..., Any]) -> None:
        """Add the parameters of a function, and those of a data class in the place of the parameter that takes it."""
        for own_name, parameter in inspect.signature(function, eval_str=True).parameters.items():
            declared = getattr(parameter.annotation, "__metadata__", [None])[-1]
            if declared == TYPED:
                self._of_typed = own_name
                continue
            if isinstance(parameter.annotation, type) and is_dataclass(parameter.annotation):
                self._groups[own_name] = parameter.annotation
                self._declare(parameter.annotation)
                continue
            annotation = parameter.annotation if declared is None else parameter.annotation.__origin__
            if declared is None:
                declared = Argument() if parameter.default is inspect.Parameter.empty else Option()
            self.parameters.append(Parameter(own_name, annotation, declared, parameter.default, self.name))

    def call(self, words: Sequence[str]) -> int:
        """Run the command with these words and return its exit code. Raises `UsageError` for wrong ones."""
        if any(word in HELP for word in _before_dashes(words)):
            print(self.help(), end="")
            return 0
        if not words and (example := vars(sys.modules[self.function.__module__]).get("EXAMPLE")):
            print(translated(example), file=sys.stderr, end="\n\n")
        result = self.function(**self.read(words))
        return result if isinstance(result, int) else 0

    def read(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the arguments of the function. Raises `UsageError` for words that it does not understand."""
        head = list(_before_dashes(words))
        typed, free = self._typed_options(head)
        typed |= self._typed_arguments([*free, *words[len(head) + 1 :]])
        for parameter in self.parameters:
            if parameter.is_required and parameter.name not in typed:
                if parameter.is_option:
                    raise usage_error(msg("Missing option '{name}'", parameter.shown_name), self.name)
                raise usage_error(msg("Missing argument '{name}'", parameter.shown_name), self.name)
        defaults = {parameter.name: parameter.default for parameter in self.parameters}
        values = {**defaults, **typed, **({self._of_typed: frozenset(typed)} if self._of_typed else {})}
        for name, group in self._groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in dataclasses.fields(group)})
        return values

    def _typed_options(self, words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
        parser = argparse.ArgumentParser(
            self.name, add_help=False, allow_abbrev=False, exit_on_error=False, argument_default=argparse.SUPPRESS
        )
        for option in self.options():
            if option.kind is bool:
                parser.add_argument(*option.names, dest=option.name, action="store_true")
            else:
                action = "append" if option.is_list else "store"
                parser.add_argument(*option.names, dest=option.name, type=option.read, action=action)
        try:
            typed, free = parser.parse_known_args(words)
        except argparse.ArgumentError as error:
            name = (error.argument_name or "").partition("/")[0]
            if "expected" in error.message:
                raise usage_error(msg("Option '{name}' requires an argument", name), self.name) from None
            raise usage_error(msg("Option '{name}' does not take a value", name), self.name) from None
        for word in free:
            if word.startswith("-") and word != "-" and not word[1:2].isdigit() and " " not in word:
                raise self._no_such_option(word)
        return vars(typed), free

    def _typed_arguments(self, free: list[str]) -> dict[str, Any]:
        typed, expected = dict[str, Any](), [parameter for parameter in self.parameters if not parameter.is_option]
        for index, argument in enumerate(expected):
            if not free:
                break
            count = len(free) - (len(expected) - index - 1) if argument.is_list else 1
            values, free = [argument.read(word) for word in free[:count]], free[count:]
            if values:
                typed[argument.name] = values if argument.is_list else values[0]
        if free:
            raise usage_error(msg("Got unexpected extra argument(s) ({arguments})", " ".join(free)), self.name)
        return typed

    def _no_such_option(self, word: str) -> UsageError:
        from difflib import get_close_matches
        from pathlib import Path

        if Path(word).is_file():
            return UsageError("{file}: a file whose name begins with a dash; call it ./{file}", word)
        name = word.partition("=")[0]
        close = sorted(get_close_matches(name, [parameter for option in self.options() for parameter in option.names]))
        message = msg("No such option: {name}", name)
        if close:
            message = msg("No such option: {name} (Possible options: {options})", name, ", ".join(close))
        return usage_error(message, self.name)

    def options(self) -> Iterator[Parameter]:
        """Yield the parameters that have a name on the command line."""
        return (parameter for parameter in self.parameters if parameter.is_option)

    def words(self) -> list[str]:
        """Return the words that a shell may complete."""
        return [*(name for option in self.options() for name in option.names), *HELP[1:]]

    def help(self) -> str:
        tables: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        usage = [self.name, "[OPTIONS]"]
        for parameter in self.parameters:
            name, text = parameter.row()
            if parameter.is_option:
                tables.setdefault(parameter.declared.group, []).append((name, text))
                continue
            shown = f"{parameter.shown_name.upper()}{'...' if parameter.is_list else ''}"
            usage.append(shown if parameter.is_required else f"[{shown}]")
            tables["Arguments"].append((shown, text))
        tables["Options"].append((HELP_ROW[0], translated(HELP_ROW[1])))
        return help_page(" ".join(usage), inspect.getdoc(self.function) or "", tables)


def _before_dashes(words: Sequence[str]) -> Sequence[str]:
    return words[: words.index("--")] if "--" in words else words


def usage_error(message: str, command: str) -> UsageError:
    """Return the error for a mistake in the words of a command, with the help that tells more."""
    if message.endswith("?"):
        return UsageError("{text} Try `{name} --help`.", message, command)
    return UsageError("{text}. Try `{name} --help`.", message, command)
