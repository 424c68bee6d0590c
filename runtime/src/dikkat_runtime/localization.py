"""Say messages in the language of whoever reads them: English, as the sources have it, or that of a gettext catalog.

Exceptions and notes hold a `Message`, which is English for programs. Only where a command prints is it turned into the
spoken language, by `localized`. In English no catalog is read.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from dikkat_runtime.errors import Message, UsageError, msg

LANGUAGES = ("en", "tr")
"""Codes of the languages that commands speak; the first needs no catalog."""
Say = Callable[..., str]
"""Turns a message, or a template and its values, into a language."""
_VARIABLES = ("LC_ALL", "LC_MESSAGES", "LANG")
"""Environment variables that name the locale of messages, the strongest first."""
_ENTRY = re.compile(r'^msgid "(.+)"\nmsgstr "(.+)"$', re.MULTILINE)
_IN_SCRIPTS = re.compile(r'\b(?:say|msg)\(("(?:[^"\\]|\\.)*+")|\bdata-say=("[^"]*+")')
"""A template in JavaScript or HTML: what `say` says now and `msg` marks to be said later."""
_ESCAPED = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_folders = [Path(__file__).parent]
_chosen: list[str] = []


def add_catalogs(folder: Path) -> None:
    """Also take the catalogs of another package, `locale/LANGUAGE/LC_MESSAGES/*.po` in its folder."""
    if folder not in _folders:
        _folders.append(folder)
        _catalog.cache_clear()


def spoken_in(code: str) -> Say:
    """Return what turns messages into a language. Raises `UsageError` for one that there is no catalog of."""
    if code not in LANGUAGES:
        raise UsageError('there are no messages in "{code}"; choose from {languages}', code, ", ".join(LANGUAGES))
    return lambda template, *values: localized(msg(template, *values), code)


def language() -> str:
    """Return the code of the spoken language: the one that was set, else that of the environment."""
    if not _chosen:
        _chosen.append(language_of(os.environ))
    return _chosen[0]


def language_of(environment: Mapping[str, str]) -> str:
    """Return the language that LANGUAGE or the locale asks for, as gettext reads them; English where none is known."""
    locale = next((environment[name] for name in _VARIABLES if environment.get(name)), "C")
    wanted = [locale]
    if _primary(locale) not in ("C", "POSIX"):
        wanted = [*environment.get("LANGUAGE", "").split(":"), locale]
    return next((code for code in map(_primary, wanted) if code in LANGUAGES), LANGUAGES[0])


def _primary(locale: str) -> str:
    return locale.replace("-", "_").partition("_")[0].partition(".")[0].partition("@")[0]


def pop_language_option(arguments: Sequence[str]) -> list[str]:
    """Return the arguments without `--language CODE`, wherever it stands before `--`, and speak that language.

    Raises `UsageError` for a code that is missing or not known.
    """
    # every command line decides anew
    _chosen.clear()
    kept, words = list[str](), iter(arguments)
    for word in words:
        if word == "--":
            return [*kept, word, *words]
        name, has_value, code = word.partition("=")
        if name == "--language":
            spoken_in(code := code if has_value else next(words, ""))
            _chosen[:] = [code]
        else:
            kept.append(word)
    return kept


def localized(message: str, spoken: str = "") -> str:
    """Return a message in the spoken language, or in that of the code `spoken`; a plain string is not a message."""
    code = spoken or language()
    if code == LANGUAGES[0] or not isinstance(message, Message):
        return message
    values = {
        name: localized(value, code) if isinstance(value, str) else value for name, value in message.values.items()
    }
    template = _translated(message.template, code)
    return template.format_map(values) if values else template


def translated(template: str, *values: object) -> str:
    """Return a template with its values, in the spoken language, if a catalog has it."""
    return localized(msg(template, *values))


def script_templates(scripts: str) -> list[str]:
    """Return each template of the scripts or the HTML of a page once."""
    return list(dict.fromkeys(json.loads(said or attribute) for said, attribute in _IN_SCRIPTS.findall(scripts)))


def script_messages(scripts: str) -> str:
    """Return as JSON, by language and template, what the scripts of a page say in every language but English."""
    templates = script_templates(scripts)
    spoken = {code: {text: localized(msg(text), code) for text in templates} for code in LANGUAGES[1:]}
    return json.dumps(spoken, ensure_ascii=False)


def _translated(text: str, code: str) -> str:
    core = text.strip("\n ")
    return text.replace(core, _catalog(code).get(core, core), 1) if core else text


@cache
def _catalog(code: str) -> dict[str, str]:
    entries: dict[str, str] = {}
    for folder in _folders:
        for path in sorted(folder.glob(f"locale/{code}/LC_MESSAGES/*.po")):
            entries |= read_entries(path)
    return entries


def read_entries(path: Path) -> list[tuple[str, str]]:
    """Return every translated entry of a gettext catalog (.po) without plural forms; the header is none."""
    # a long string may go on in the next line
    joined = path.read_text(encoding="utf-8").replace('"\n"', "")
    return [(_plain(text), _plain(spoken)) for text, spoken in _ENTRY.findall(joined)]


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda pair: _ESCAPES.get(pair[1], pair[1]), text) if "\\" in text else text


_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
# directions that reach beyond the text itself, and halves of characters, which no terminal can write
_HIDDEN = (*range(0x202A, 0x202F), *range(0x2066, 0x206A), *range(0xD800, 0xE000))
_SHOWN = {code: ascii(chr(code))[1:-1] for code in (*_CONTROLS, *_HIDDEN)}
_SHOWN_IN_LINES = {code: shown for code, shown in _SHOWN.items() if chr(code) not in "\t\n"}


def visible(text: str) -> str:
    """Return a text, in the spoken language if it is a message, with what steers a terminal escaped, as `\\x1b`.

    Tab and line feed stay.
    """
    return localized(text).translate(_SHOWN_IN_LINES)


def one_visible_line(text: str) -> str:
    """Return a text as `visible` does, with tab and line feed escaped too."""
    return localized(text).translate(_SHOWN)


def say(text: str, *values: object) -> None:
    """Write a message, or a template and its values, to standard error: one visible line in the spoken language.

    Where nobody reads it, it is lost, and nothing else changes.
    """
    if sys.stderr is None:
        return
    try:
        print("dikkat:", one_visible_line(msg(text, *values)), file=sys.stderr, flush=True)
    except OSError:
        # or Python would try once more at the end, and change the exit code
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def clock_time(seconds: float) -> str:
    """Return minutes and seconds, with the hours before them where there are any."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
