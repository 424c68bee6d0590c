"""`dikkat train`: from data to a run directory, one command for each kind of model."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from dikkat.cli.processes import with_processes
from dikkat.tasks.kinds import KINDS
from dikkat_runtime.cli.program import Group


def _load(kind: str) -> Callable[..., Any]:
    return with_processes(kind, getattr(import_module(f"dikkat.cli.train_{kind}"), kind))


train = Group(
    "Train a model from your own text.", tuple(name for name, kind in KINDS.items() if kind.is_trained), _load
)
