"""The sub-command `serve`: its options, and the packages that it needs."""

from __future__ import annotations

import argparse
import importlib.util
import re
from argparse import Namespace
from collections.abc import Iterable, Sequence
from typing import NoReturn

from dikkat_runtime.cli import serve_options
from dikkat_runtime.cli.streams import Output
from dikkat_runtime.errors import UsageError
from dikkat_runtime.localization import translated
from dikkat_runtime.messages import msg
from dikkat_runtime.text.visible import say

NEEDED = {"starlette": "starlette", "uvicorn": "uvicorn", "httptools": "httptools",
          "prometheus_client": "prometheus-client", "python_multipart": "python-multipart"}  # fmt: skip
"""Packages of the extra [serve], by the names of their modules."""


class LocalizedFormatter(argparse.HelpFormatter):
    """Writes a help page in the spoken language; it begins as that of dikkat does."""

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None = None,
    ) -> None:
        """Say how the command is called."""
        super().add_usage(
            usage and translated(usage), actions, groups, f"{translated('Usage:')} " if prefix is None else prefix
        )

    def start_section(self, heading: str | None) -> None:
        """Say what a list is of."""
        super().start_section(heading and translated(heading))

    def add_text(self, text: str | None) -> None:
        """Say what a command does."""
        super().add_text(text and translated(text))

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text, default = re.fullmatch(r"(.*?)( \[[^\]]*\])?", action.help or "", re.DOTALL).groups("")  # type: ignore[union-attr]
        return translated(text.replace("%%", "%")).replace("%", "%%") + default


class OneLineParser(argparse.ArgumentParser):
    """A parser that raises `UsageError` with one line."""

    def error(self, message: str) -> NoReturn:
        """Raise `UsageError` for a wrong option."""
        raise UsageError("{text}; see {prog} --help").fill(message, self.prog)

    def _get_formatter(self) -> argparse.HelpFormatter:
        return LocalizedFormatter(prog=self.prog)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `serve`."""
    parser.set_defaults(action=serve)
    serve_options.add_options(parser)


def serve(options: Namespace) -> int | None:
    """Serve runs over HTTP until a signal comes."""
    missing = [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise UsageError("serving needs {missing}: pip install 'dikkat-runtime[serve]'").fill(", ".join(missing))
    if options.new_key is not None:
        return _make_key(options)
    settings = serve_options.read_settings(options)
    from dikkat_runtime.server.running import run_server

    return run_server(settings)


def serve_from(name: str, arguments: Sequence[str]) -> int:
    """Serve as the options of a command line say; `name` is the name of the command."""
    parser = OneLineParser(prog=name, description="Serve runs over HTTP, as clients of other translators expect it.")
    add_options(parser)
    try:
        return serve(parser.parse_args(arguments)) or 0
    except SystemExit as end:  # --help was printed
        return int(end.code or 0)


def _make_key(options: Namespace) -> int:
    from dikkat_runtime.server.keys import new_key

    if options.keys is None:
        raise UsageError("--new-key adds a key to a file; name it with --keys FILE")
    key = new_key(options.keys, options.new_key)
    say(msg("only its hash is kept in {keys}; this is shown once:").fill(options.keys))
    out = Output()
    out.write(f"{key}\n")
    out.flush()
    return 0
