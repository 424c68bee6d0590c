"""A toy language, and the command line in this process and in a child."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.python_path import PYTHON_PATH

from dikkat.cli import progress
from dikkat_runtime.cli.main import run as run_command
from dikkat_runtime.errors import InternalError
from dikkat_runtime.process_signals import NUMBERS

ARTICLES = ["the", "a", "my", "your", "this", "that"]
NOUNS = ["dog", "cat", "bird", "child", "king", "tree", "river", "house", "star", "stone"]
COLOURS = ["red", "green", "blue", "old", "small", "quiet"]
VERBS = ["sees", "likes", "wants", "finds", "hears", "follows"]

TINY = {
    "model.model_dim": 32,
    "model.num_heads": 2,
    "model.feed_forward_dim": 64,
    "model.encoder_layers": 1,
    "model.decoder_layers": 1,
    "model.dropout": 0.1,
    "tokenizer.vocab_size": 320,
    "training.tokens_per_batch": 512,
    "training.warmup_steps": 10,
    "training.learning_rate": 0.005,
    "training.optimizer": "adamw",
    "training.precision": "float32",
}
"""Settings of a model that trains a pass in a quarter of a second."""


def toy_sentences(count: int, seed: int = 5) -> list[tuple[str, str]]:
    """Distinct sentences of a toy language and their translation, in which words stand in reverse order."""
    generator = random.Random(seed)
    pairs: dict[str, str] = {}
    while len(pairs) < count:
        subject, thing = (
            [generator.choice(ARTICLES), *generator.sample(COLOURS, generator.randint(0, 1)), generator.choice(NOUNS)]
            for _ in range(2)
        )
        words = [*subject, generator.choice(VERBS), *thing]
        pairs[" ".join(words)] = " ".join(f"{word}o" for word in reversed(words))
    return list(pairs.items())


def settings(**changes: object) -> list[str]:
    """`TINY` with `changes` (dots written as two underscores) as options of the command line."""
    merged = {**TINY, **{name.replace("__", "."): value for name, value in changes.items()}}
    return [word for name, value in merged.items() for word in ("--set", f"{name}={value}")]


def child(
    arguments: Sequence[str | Path], variables: dict[str, str] | None = None, **options: object
) -> subprocess.Popen[str]:
    """`python -m dikkat` in a process of its own with these `variables` of the environment, its output in pipes."""
    environment = {**os.environ, "PYTHONPATH": PYTHON_PATH, "OMP_NUM_THREADS": "1", **(variables or {})}
    return subprocess.Popen(
        [sys.executable, "-m", "dikkat", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,  # type: ignore[call-overload]
    )


@contextmanager
def kept_signals() -> Iterator[None]:
    """Training takes the signals that end a process for itself; give them back."""
    before = {number: signal.getsignal(number) for number in NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


ENGINE = re.compile(r"((?:native|torch)\S* engine\b.*)\n")


@contextmanager
def unannounced() -> Iterator[None]:
    """What takes long is said after some seconds, which on a slow machine would come between the lines of a test."""
    before, progress.ANNOUNCED_AFTER = progress.ANNOUNCED_AFTER, 0.0
    try:
        yield
    finally:
        progress.ANNOUNCED_AFTER = before


@dataclass
class Command:
    """The command line in this process."""

    capture: pytest.CaptureFixture[str]
    engine: str = ""
    """What the last command told of its engine, on the first line of standard error."""

    def __call__(self, *arguments: str | Path) -> tuple[int, str, str]:
        """Exit code, standard output and standard error without the engine; an internal error fails the test."""
        self.capture.readouterr()
        with kept_signals(), unannounced():
            code = run_command([str(argument) for argument in arguments])
        output, complaint = self.capture.readouterr()
        messages = ENGINE.match(complaint)
        self.engine = messages[1] if messages else ""
        complaint = complaint[len(messages[0]) :] if messages else complaint
        assert code != InternalError.exit_code, complaint
        return code, output, complaint

    def fails(self, exit_code: int, *arguments: str | Path) -> str:
        """The message of a command that must fail: the one line on standard error, without its `dikkat: `."""
        code, output, complaint = self(*arguments)
        assert output == ""
        return one_line(code, complaint, exit_code)


def one_line(code: int, complaint: str, exit_code: int) -> str:
    """The message, when `complaint` is one line of the right form and the exit code is right."""
    assert complaint.startswith("dikkat: "), complaint
    assert complaint.endswith("\n")
    assert complaint.count("\n") == 1, complaint
    assert "Traceback" not in complaint
    assert code == exit_code, complaint
    return complaint.removeprefix("dikkat: ").removesuffix("\n")
