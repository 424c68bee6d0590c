"""`dikkat import`: turn a model of another toolkit into a run directory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dikkat.cli.progress import Announced
from dikkat.cli.training import Out
from dikkat_runtime.hints import NAME, command, piped
from dikkat_runtime.messages import msg


def import_checkpoint(
    path: Annotated[
        Path,
        typer.Argument(
            help="Local folder with a model, Marian's .npz or .bin, OPUS-MT's .zip, or Argos' .argosmodel.",
            show_default=False,
        ),
    ],
    out: Out = ...,  # type: ignore[assignment]
    layout: Annotated[
        str | None,
        typer.Option(help="scratch: the classes of the book; its settings are config.json.", show_default=False),
    ] = None,
) -> None:
    """Import a pretrained model of another toolkit as a run.

    Of Hugging Face MarianMT (OPUS-MT; for translate), BERT (for embed) and GPT-2 (for generate and embed).

    Translators of Marian (.npz) and Firefox (.bin), with the .yml that names their vocabularies, and OPUS-MT's .zip.

    Translators of CTranslate2, with SentencePiece models next to model.bin, and packages of Argos (.argosmodel).

    With --layout scratch, a model of the book Build a Large Language Model (From Scratch), for generate and embed.
    """
    from dikkat.interop.input_path import require_exists
    from dikkat.run_directory.writable import require_free

    require_exists(path)
    require_free(out)
    with Announced(msg("{path}: reading and checking its weights, and writing {out}").fill(path, out)):
        from dikkat.interop.importing import read_foreign, write_run

        imported = read_foreign(path, layout)
        write_run(imported, out, path, command(*sys.argv[1:], program=NAME))
    if imported.left_out:
        named = ", ".join(imported.left_out[:12]) + (", …" if len(imported.left_out) > 12 else "")
        if imported.task == "translator":
            print(msg("left out: {named}").fill(named), file=sys.stderr)
        else:
            print(msg("left out, heads of other tasks: {named}").fill(named), file=sys.stderr)
    task = imported.task
    following = piped("translate" if task == "translator" else "generate" if task == "lm" else "embed", out)
    print(
        msg("{out}: {parameters:,} parameters; try: {following}").fill(out, imported.parameters, following),
        file=sys.stderr,
    )
