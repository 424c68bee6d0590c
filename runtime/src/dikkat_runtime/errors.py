"""Messages to people, and the errors that a user can cause or meet: one line each, with the exit code of the process.

A message is a template and the values that fill it in by name; a catalog translates templates alone. The line of an
error names what is wrong, where (file:line) and what to do. Anything that is not a `DikkatError` and reaches
the command line is a bug of ours.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable
from typing import Any, ClassVar, Self

_FIELD = re.compile(r"\{\{|\{(\w+)")


class Message(str):
    """Hold a message: as a string it is English; `localized` fills in the template of another language."""

    __slots__ = ("template", "values")
    template: str
    values: dict[str, Any]

    def __new__(cls, template: str, values: dict[str, Any]) -> Message:
        """Fill in a template; without values, its braces stand for themselves."""
        message = super().__new__(cls, template.format_map(values) if values else template)
        message.template, message.values = template, values
        return message

    def fill(self, *values: object, **named: object) -> Message:
        """Return the message with values, in the order in which its template names them first, or by name.

        A name that the template does not have is passed over.
        """
        names = dict.fromkeys(field[1] for field in _FIELD.finditer(self.template) if field[1])
        if named:
            values = tuple(named[name] for name in names)
        return Message(self.template, dict(zip(names, map(_kept, values), strict=True)))

    def replaced(self, old: str, new: str) -> Message:
        """Return the message with a text replaced in its values."""
        texts = {name: value for name, value in self.values.items() if isinstance(value, str)}
        changed = {
            name: text.replaced(old, new) if isinstance(text, Message) else text.replace(old, new)
            for name, text in texts.items()
        }
        return Message(self.template, {**self.values, **changed})

    def __str__(self) -> str:
        """Return the message itself, so that `str(error)` and `print` keep what it is made of."""
        return self

    def __reduce__(self) -> tuple[type[Message], tuple[str, dict[str, Any]]]:
        """Tell pickle what the message is made of."""
        return type(self), (self.template, self.values)

    def __add__(self, other: str) -> Message:
        return joined("", (self, other))

    def __radd__(self, other: str) -> Message:
        return joined("", (other, self))


def msg(template: str, *values: object) -> Message:
    """Return the message of an English template, which is an entry of the catalogs, with its values, as by `fill`."""
    message = template if isinstance(template, Message) else Message(template, {})
    return message.fill(*values) if values else message


def joined(separator: str, messages: Iterable[object]) -> Message:
    """Return messages with a text between them as one message."""
    values = {f"part{index}": _kept(message) for index, message in enumerate(messages)}
    between = separator.replace("{", "{{").replace("}", "}}")
    return Message(between.join(f"{{{name}}}" for name in values), values)


def plural(count: int, noun: str) -> Message:
    """Return a count and its noun: 1 pair, 1,000 pairs."""
    return msg(f"{{count:,}} {noun}" if count == 1 else f"{{count:,}} {noun}s").fill(count)


def _kept(value: object) -> object:
    """Return a value as a message keeps it: text and numbers as they are, of anything else its text."""
    return value if isinstance(value, str | int | float) or hasattr(value, "__float__") else str(value)


def to_json(value: Any) -> Any:
    """Return what JSON can hold of a message: its template and its values; anything else as it is."""
    if not isinstance(value, Message):
        return value
    return {"template": value.template, "values": {name: to_json(part) for name, part in value.values.items()}}


def from_json(read: dict[str, Any]) -> Any:
    """Return the message that `to_json` wrote, any other object of JSON as it is; a hook of `json.loads`."""
    return Message(**read) if read.keys() == {"template", "values"} else read


_MEMORY = (
    "can't allocate memory",
    "cannot allocate memory",
    "out of memory",
    "size calculation overflowed",
    "bad allocation",
    "std::bad_alloc",
    # of a module that is loaded where it finds no place
    "failed to map segment",
)


class DikkatError(Exception):
    """The base of every error that is reported to the user as one line."""

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *values: object) -> None:
        """Take a message, or the English template of one, and its values, which may follow by `fill`."""
        super().__init__(msg(message, *values))

    def fill(self, *values: object) -> Self:
        """Fill in the template of the message, in the order in which it names the values first."""
        self.args = (self.args[0].fill(*values),)
        return self


class UsageError(DikkatError):
    """The command or the configuration asks for something that does not exist or does not fit."""

    exit_code = 2


class SettingError(UsageError):
    """A setting of a call is out of its limits; a command line calls it by the option that sets it."""

    def __init__(self, message: str, name: str) -> None:
        """`message` has the `name` of the setting as its value `name`."""
        super().__init__(message)
        self.name = name

    def __reduce__(self) -> tuple[type[SettingError], tuple[str, str]]:
        """Tell pickle both arguments, since an error that cannot be read again hangs a pool of processes."""
        return type(self), (str(self), self.name)

    @property
    def about_option(self) -> str:
        """Return the message with the option of the command line in the place of the setting."""
        option = "beam" if self.name == "beam_size" else self.name.replace("_", "-")
        message: Message = self.args[0]
        return Message(message.template, {**message.values, "name": f"--{option}"})


class DataError(DikkatError):
    """The data are bad or a file is damaged (EX_DATAERR)."""

    exit_code = 65


class MissingInputError(DikkatError):
    """An input does not exist or cannot be read (EX_NOINPUT)."""

    exit_code = 66


class InternalError(DikkatError):
    """A bug of ours: something happened that must not (EX_SOFTWARE)."""

    exit_code = 70


class OutOfMemoryError(DikkatError):
    """The memory does not suffice for what was asked (EX_OSERR)."""

    exit_code = 71


class CannotCreateError(DikkatError):
    """An output must not or cannot be created (EX_CANTCREAT)."""

    exit_code = 73


class DiskError(DikkatError):
    """Writing failed: the disk is full or broken (EX_IOERR)."""

    exit_code = 74


class StoppedError(DikkatError):
    """Work stopped before its end; finished work is saved and can be resumed (EX_TEMPFAIL)."""

    exit_code = 75


class DivergedError(DikkatError):
    """Training diverged to numbers that are not finite and could not recover (EX_PROTOCOL)."""

    exit_code = 76


def came_of_memory(error: BaseException) -> bool:
    """Tell whether memory was too small, also where that was taken for a damaged or unreadable file."""
    cause: BaseException | None = error
    while cause is not None and not _is_of_memory(cause):
        cause = cause.__context__
    return cause is not None


def _is_of_memory(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    is_mentioned = isinstance(error, RuntimeError | ImportError) and any(word in str(error).lower() for word in _MEMORY)
    return isinstance(error, MemoryError) or is_mentioned


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint with the known name closest to `name`: `; did you mean "x"?`, or an empty string."""
    import difflib

    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return msg('; did you mean "{name}"?').fill(close[0]) if close else ""


def reason_of(error: OSError) -> Message:
    """Return what the operating system says of a failure."""
    return msg(error.strerror or str(error))


def unreadable(path: object, error: OSError) -> MissingInputError:
    """Return the error of a file that cannot be read."""
    return MissingInputError("{path}: cannot be read: {reason}").fill(path, reason_of(error))


class AbsentError(UsageError):
    """No native kernels run on this computer."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(msg("no native kernels: {reason}; {advice}").fill(reason, advice))
        self.reason = reason
        self.advice = advice
        """What the user can do about it."""
