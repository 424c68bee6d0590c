"""`dikkat train`: from data to a run directory, one command for each kind of model."""

from __future__ import annotations

import typer

from dikkat.cli.train_classifier import classifier
from dikkat.cli.train_lm import lm
from dikkat.cli.train_translator import translator

train = typer.Typer(no_args_is_help=True, help="Train a model from your own text.")
train.command()(translator)
train.command()(classifier)
train.command()(lm)


@train.callback()
def tasks() -> None:
    """Train a model from your own text."""
