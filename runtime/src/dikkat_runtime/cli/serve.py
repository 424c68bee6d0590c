"""The sub-command `serve`: its options, and what it needs to be installed."""

from __future__ import annotations

import argparse
import importlib.util
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from dikkat_runtime.cli.streams import Output
from dikkat_runtime.errors import UsageError

NEEDED = {"starlette": "starlette", "uvicorn": "uvicorn", "prometheus_client": "prometheus-client",
          "python_multipart": "python-multipart"}  # fmt: skip
"""Packages of the extra [serve], by the names of their modules."""


class OneLineParser(argparse.ArgumentParser):
    """Raises `UsageError` that says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """Tell of a wrong option."""
        raise UsageError(f"{message}; see {self.prog} --help")

    def format_help(self) -> str:
        """The help, which begins as that of dikkat does."""
        return super().format_help().replace("usage:", "Usage:", 1)


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of `serve`."""
    parser.set_defaults(action=serve)
    parser.add_argument("runs", nargs="*", metavar="DIR", help="Run directories, each as DIR or NAME=DIR.")
    parser.add_argument("--host", default="127.0.0.1", help="Address to listen at; by default this machine only.")
    parser.add_argument("--port", type=int, default=5000, help="Port to listen at; 0 is any that is free.")
    parser.add_argument("--keys", type=Path, help="File of API keys; without one of them nobody is answered.")
    parser.add_argument("--new-key", metavar="NAME", help="Make a key, add it to --keys, print it, and end.")
    parser.add_argument("--open", action="store_true", help="Answer anybody who reaches --host, without a key.")
    parser.add_argument("--allow-host", action="append", default=[], help="One more name that the server has.")
    parser.add_argument("--allow-origin", action="append", default=[], help="Pages of this origin may ask; * is all.")
    names = ("auto", "float32", "int8")
    parser.add_argument("--precision", choices=names, default="auto", help="int8 is faster; auto as in training.")
    parser.add_argument("--beam", type=int, default=5, help="Hypotheses followed side by side; 1 is greedy.")
    parser.add_argument("--threads", type=int, help="Threads to compute with; all processors if absent.")
    parser.add_argument("--max-wait", type=float, default=10.0, help="Seconds in the queue that are too many.")
    parser.add_argument("--batch-tokens", type=int, default=4096, help="Tokens read together; 1 is a text at a time.")
    parser.add_argument("--drain", type=float, default=30.0, help="Seconds for the last answers after SIGTERM.")
    parser.add_argument("--log-requests", action="store_true", help="One line a request, without its text.")


def serve(options: Namespace) -> int | None:
    """Serve runs over HTTP until a signal comes."""
    missing = [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise UsageError(f"serving needs {', '.join(missing)}: pip install 'dikkat-runtime[serve]'")
    if options.new_key is not None:
        return _make_key(options)
    if options.threads is not None and options.threads < 1:
        raise UsageError(f"--threads must be a whole number of at least 1, not {options.threads}")
    if options.batch_tokens < 1:
        raise UsageError(f"--batch-tokens must be a whole number of at least 1, not {options.batch_tokens}")
    if not 0 < options.max_wait <= 3600 or not 0 < options.drain <= 3600:
        raise UsageError("--max-wait and --drain must be above 0 and at most 3600 seconds")
    from dikkat_runtime.server.running import run_server
    from dikkat_runtime.server.settings import Limits, ServeSettings

    settings = ServeSettings(
        runs=tuple(options.runs),
        host=options.host,
        port=options.port,
        keys=options.keys,
        is_open=options.open,
        allowed_hosts=tuple(options.allow_host),
        allowed_origins=tuple(options.allow_origin),
        precision=options.precision,
        threads=options.threads,
        beam_size=options.beam,
        drain_seconds=options.drain,
        log_requests=options.log_requests,
        limits=Limits(wait_seconds=options.max_wait, batch_tokens=options.batch_tokens),
    )
    return run_server(settings)


def serve_from(name: str, arguments: Sequence[str]) -> int:
    """Serve as the options of a command line say; `name` is what the command is called."""
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
    print(f"dikkat-runtime: only its hash is kept in {options.keys}; this is shown once:", file=sys.stderr)
    out = Output()
    out.write(f"{key}\n")
    out.flush()
    return 0
