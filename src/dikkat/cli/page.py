"""`dikkat page`: one HTML file in which a model computes in the browser, and shows what it attends to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dikkat.cli.progress import Announced
from dikkat.cli.web_precision import WebPrecision, WebPrecisionOption
from dikkat_runtime.localization import language

MOST_EXAMPLES = 8


def page(
    run: Annotated[Path, typer.Argument(help="Run directory.", show_default=False)],
    out: Annotated[Path, typer.Option(help="HTML file to write.", show_default=False)],
    precision: WebPrecisionOption = WebPrecision.auto,
) -> None:
    """Write one offline HTML file in which this model reads what is typed, and shows every attention map.

    Nothing is installed, served or loaded: the file holds the model and an engine that computes it in the browser.
    """
    from dikkat.web.opening import example_sentences, open_for_web
    from dikkat.web.page import LARGE, write_live_page
    from dikkat_runtime.files import probe_beside, write_errors

    with write_errors(out):
        probe_beside(out)
    with Announced(f"{out}: packing the model of {run}"):
        model = open_for_web(run, precision.value)
        size = write_live_page(model, out, language=language(), examples=example_sentences(run, MOST_EXAMPLES))
    print(f"wrote {out} ({size / 1e6:.1f} MB, {model.precision}): open it in a browser", file=sys.stderr)
    if size > LARGE:
        print(
            f"{out}: over {LARGE / 1e6:.0f} MB, which phones and old laptops take seconds to open; a smaller model or"
            " --precision int8 makes it smaller",
            file=sys.stderr,
        )
