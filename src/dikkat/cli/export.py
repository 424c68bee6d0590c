"""`dikkat export`: write a trained model in the form that another program reads."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dikkat.cli.progress import Announced
from dikkat.cli.web_precision import WebPrecision, WebPrecisionOption


class Target(StrEnum):
    """Programs that a model can be written for."""

    web = "web"


def export(
    run: Annotated[Path, typer.Argument(help="Run directory.", show_default=False)],
    to: Annotated[Target, typer.Option(help="web: a module for JavaScript, in browsers and Node.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder to write, new or empty.", show_default=False)],
    precision: WebPrecisionOption = WebPrecision.auto,
) -> None:
    """Write a trained model as a module for JavaScript: dikkat.js with its types, and the model file.

    The module has no dependency and computes by itself, with WebAssembly where there is SIMD.
    """
    from dikkat.web.module import write_module
    from dikkat.web.opening import open_for_web

    with Announced(f"{out}: packing the model of {run}"):
        model = open_for_web(run, precision.value)
        write_module(model, out)
    print(f"wrote {out} ({model.precision}); {out}/README.md shows how to import it", file=sys.stderr)
