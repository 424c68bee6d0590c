"""`dikkat export`: write a trained model in the form that another program reads."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dikkat.cli.progress import Announced
from dikkat.cli.web_precision import WebPrecision, WebPrecisionOption
from dikkat_runtime.errors import UsageError


class Target(StrEnum):
    """Programs that a model can be written for."""

    web = "web"
    huggingface = "huggingface"


def export(
    run: Annotated[Path, typer.Argument(help="Run directory.", show_default=False)],
    to: Annotated[
        Target,
        typer.Option(
            help="web: a module for JavaScript, in browsers and Node. huggingface: a MarianMT folder.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder to write, new or empty.", show_default=False)],
    precision: WebPrecisionOption = WebPrecision.auto,
) -> None:
    """Write a trained model in the form that another program reads.

    A module for JavaScript has no dependency and computes by itself, with WebAssembly where there is SIMD.

    The other forms are for translators, and are compared with the run before they are there: the same text by greedy
    search, and logits within 1e-4.
    """
    if to != Target.web:
        if precision != WebPrecision.auto:
            raise UsageError(f"--precision {precision.value}: --to {to.value} is always written in float32")
        _export_translator(run, to, out)
        return
    from dikkat.web.module import write_module
    from dikkat.web.opening import open_for_web

    with Announced(f"{out}: packing the model of {run}"):
        model = open_for_web(run, precision.value)
        write_module(model, out)
    print(f"wrote {out} ({model.precision}); {out}/README.md shows how to import it", file=sys.stderr)


def _export_translator(run: Path, to: Target, out: Path) -> None:
    with Announced(f"{out}: writing the model of {run} and comparing it with the run"):
        from dikkat.interop.huggingface_export import export_huggingface
        from dikkat.interop.trained_translator import TrainedTranslator

        parity = {Target.huggingface: export_huggingface}[to](TrainedTranslator.open(run), out)
    print(f"wrote {out}; compared with the run on {parity}", file=sys.stderr)
