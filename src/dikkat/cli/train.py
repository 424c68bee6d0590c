"""`dikkat train`: from data to a run directory, one command for each kind of model."""

from __future__ import annotations

from importlib import import_module

import typer

from dikkat.cli.processes import with_processes
from dikkat.tasks.kinds import KINDS

train = typer.Typer(no_args_is_help=True, help="Train a model from your own text.")
for _name in (name for name, kind in KINDS.items() if kind.is_trained):
    train.command()(with_processes(_name, getattr(import_module(f"dikkat.cli.train_{_name}"), _name)))


@train.callback()
def tasks() -> None:
    """Train a model from your own text."""
