"""`dikkat serve`: runs over HTTP, and the packages that it needs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from dikkat_runtime.cli.serve_options import read_settings, signature
from dikkat_runtime.errors import UsageError
from dikkat_runtime.text.visible import say

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
