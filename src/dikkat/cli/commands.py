"""The commands that `dikkat` adds to the program of `dikkat_runtime.cli`, found by the entry point `dikkat.commands`.

Each stands in the module of its name, under its name.
"""

import logging
import os
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dikkat.cli import rank_endings
from dikkat.kernels.environment import set_environment
from dikkat_runtime.errors import msg

if TYPE_CHECKING:
    from dikkat_runtime.cli.program import Group

COMMANDS = {
    "quickstart": "Train on the bundled phrasebook of English, French and Turkish: two to three minutes on two cores.",
    "train": "Train a model from your own text.",
    "evaluate": "Score a translator, a classifier or a language model on held-out or named data.",
    "attend": msg(
        "Show what a model attends to in a text: as a table, or a picture, data, a word alignment, or a page to "
        "explore."
    ),
    "page": "Write one offline HTML file in which this model reads what is typed, and shows every attention map.",
    "explain": "Show how attention computes: scores, weights and context of typed words, or any cell of a "
    "trained model.",
    "heads": "Show what every attention head does, and what is lost without it.",
    "report": "Write one offline HTML file: data and its faults, curves, scores, worst mistakes, attention, the model.",
    "draw": "Draw a model with its sizes, or the table of positions.",
    "compare": msg(
        "Compare two runs on texts: words, confidence and heads; or, without runs, the kinds of layers a model is made "
        "of."
    ),
    "doctor": "Prove that a model computes what it should; exit code 1 if a proof fails.",
    "data": "Check or extend text before you train on it.",
    "interpolate": "Average the weights of an adapted translator with those that it started from.",
    "import": "Import a pretrained model of another toolkit as a run.",
    "export": "Write a trained model in the form that another program reads.",
}
"""What each command does, in the order of the help."""
GREETING = """dikkat trains Transformers from your own text, and shows what they attend to. Four things to do:

  dikkat quickstart                                     see all of it in two to three minutes, without data
  dikkat train translator a.en a.fr --out runs/a        train on your own text (or: classifier, lm)
  dikkat translate runs/a guide.docx --out guide.fr.docx
                                                        use the model; text on standard input is translated, too
  dikkat page runs/a --out page.html                    look inside it

All commands: dikkat --help"""
_NAMES_IN_PYTHON = {"import": "import_checkpoint"}
ranks = rank_endings


def prepare() -> None:
    """Set what libraries read when they are loaded, and hide what they log for programmers."""
    set_environment()
    if not os.environ.get("DIKKAT_DEBUG"):
        # such as matplotlib on a font cache that it builds
        for library in ("matplotlib", "torch"):
            logging.getLogger(library).setLevel(logging.ERROR)


def command(name: str) -> "Callable[..., Any] | Group":
    """Return the function of a command, or the group of commands; only its own module is imported."""
    spelt = _NAMES_IN_PYTHON.get(name, name)
    target: Callable[..., Any] | Group = getattr(import_module(f"dikkat.cli.{spelt}"), spelt)
    return target
