"""`dikkat import`: turn a model of another toolkit into a run directory."""

import sys
from pathlib import Path
from typing import Annotated, Literal

from dikkat.cli.progress import Announced
from dikkat.cli.training import Out
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.streams import print_note
from dikkat_runtime.errors import msg
from dikkat_runtime.hints import NAME, command
from dikkat_runtime.run.config import read_config, use_of


def import_checkpoint(
    path: Annotated[
        Path, Argument(help="Local folder with a model, Marian's .npz or .bin, OPUS-MT's .zip, or Argos' .argosmodel.")
    ],
    out: Out = ...,  # type: ignore[assignment]
    layout: Annotated[
        str | None, Option(help="scratch: the classes of the book; its settings are config.json.")
    ] = None,
    task: Annotated[
        Literal["encoder", "classifier", "tagger", "lm"] | None,
        Option(help="Task of an imported encoder; by default that of the head that it has."),
    ] = None,
) -> None:
    """Import a pretrained model of another toolkit as a run.

    From Hugging Face: language models (Llama, Qwen, Gemma, GPT-2, …), encoders (BERT, MPNet, ModernBERT, …), with a
    head for classes of texts or words or for numbers, or without, whole folders of sentence-transformers, and
    translators.

    Translators of Marian (.npz) and Firefox (.bin), with the .yml that names their vocabularies, and OPUS-MT's .zip.

    Translators of CTranslate2, with SentencePiece models next to model.bin, and packages of Argos (.argosmodel).

    With --layout scratch, a model of the book Build a Large Language Model (From Scratch), for generate and embed.
    """
    from dikkat.interop.paths import require_exists
    from dikkat.run_directory.checkpoints import require_free

    require_exists(path)
    require_free(out)
    with Announced(msg("{path}: reading and checking its weights, and writing {out}", path, out)):
        from dikkat.interop.importing import read_foreign, write_run

        imported = read_foreign(path, layout, task)
        write_run(imported, out, path, command(*sys.argv[1:], program=NAME))
    if imported.left_out:
        named = ", ".join(imported.left_out[:12]) + (", …" if len(imported.left_out) > 12 else "")
        if imported.task == "translator":
            print_note("left out: {names}", named)
        else:
            print_note("left out, heads of other tasks: {names}", named)
    print_note("{out}: {count:,} parameters; try: {command}", out, imported.parameters, use_of(out, read_config(out)))
