"""`dikkat serve`: the command of dikkat-runtime, with all its options."""

from __future__ import annotations

import importlib.util

import typer

from dikkat_runtime.errors import DikkatError, UsageError


def serve(context: typer.Context) -> int:
    """Serve runs over HTTP, to clients of LibreTranslate, DeepL, Google, OpenAI and others."""
    if importlib.util.find_spec("dikkat_runtime") is None:
        raise UsageError("serving needs dikkat-runtime: pip install 'dikkat[serve]'")
    from dikkat_runtime.cli.serve import serve_from

    try:
        return serve_from("dikkat serve", context.args)
    except DikkatError as error:
        known = DikkatError(str(error))
        known.exit_code = error.exit_code  # type: ignore[misc]
        raise known from None
