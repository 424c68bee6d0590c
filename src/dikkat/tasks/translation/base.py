"""The finished translator that another one begins with: its vocabulary, its settings and its pairs."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dikkat.config import RunConfig
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.settings import Settings, run_config, tuning
from dikkat.tasks.translation.vocabularies import Vocabularies, open_corpus
from dikkat_runtime.errors import MissingInputError, UsageError, msg

GENTLE = {"learning_rate": 7.5e-4, "matrix_learning_rate": 2e-3, "warmup_steps": 50, "bidirectional_share": 0.0}
"""A quarter of the usual rates: what is learned anew must not cost what is known."""
PASSES = ((1_000, 1_024, 40.0), (10_000, 2_048, 20.0), (100_000, 4_096, 8.0))
"""Up to so many pairs: tokens a batch, and passes, of which few pairs need many to make some hundred updates."""
MANY = (8_192, 3.0)
"""The same of more pairs."""
FIXED_DATA = ("source_language", "target_language", "vocabularies")
"""Settings of the data that belong to the vocabulary."""


@dataclass(frozen=True, slots=True)
class Base:
    """Hold the finished translator that training begins with."""

    run: RunDirectory
    config: RunConfig
    vocabularies: Vocabularies
    tuned: Settings | None
    """Settings that an imported translator learns on with; None for one that was trained here."""

    @classmethod
    def open(cls, path: Path, asked: Settings, where: str) -> "Base":
        """Open the base at `path`.

        Raises `MissingInputError` for a run without weights, and `UsageError` for one of another kind or where `asked`
        would change what the base has decided: its model and its vocabulary.
        """
        run = RunDirectory.open(path)
        settings = run.read_config()
        if (task := settings.get("task", "translator")) != "translator":
            raise UsageError('{path}: holds a "{task}"; --from takes a translator', path, task)
        if not run.weights.exists():
            raise MissingInputError("{path}: has no weights yet; finish its training first", path)
        fixed = {**asked, "data": {name: 0 for name in asked.get("data", {}) if name in FIXED_DATA}}
        for section in ("model", "tokenizer", "data"):
            if changed := next(iter(fixed.get(section, {})), None):
                raise UsageError(
                    "{where}: {section}.{setting} is decided by {path}; leave it out, or leave out --from"
                ).fill(where, section, changed, path)
        config = run_config(settings, str(run.config))
        tuned = tuning(asked) if "imported_from" in settings else None
        return cls(run, config, Vocabularies.load(run, config), tuned)

    def settings(self, pairs: int) -> Settings:
        """Return the settings of a translator that has this base and so many new pairs."""
        own = self.config.model_dump()
        tokens, passes = next(((tokens, passes) for most, tokens, passes in PASSES if pairs <= most), MANY)
        rates = GENTLE if self.tuned is None else self.tuned["training"]
        training = {**rates, "tokens_per_batch": tokens, "max_epochs": passes}
        return {**{name: own[name] for name in ("model", "tokenizer", "data", "decoding")}, "training": training}

    def require_languages(self, data: str, source: str, target: str) -> None:
        """Raise `UsageError` where files or their names say that they are in other languages than the base."""
        own = (self.config.data.source_language, self.config.data.target_language)
        for side, ours, theirs in zip(("source", "target"), own, (source, target), strict=True):
            if ours and theirs and ours != theirs:
                raise UsageError(
                    "{data}: its {side} is in {language}, but {path} translates from {source} to {target}; give "
                    "pairs in these languages, or another run"
                ).fill(data, msg(side), theirs, self.run.path, own[0], own[1])

    @property
    def pairs(self) -> int:
        """Return the number of training pairs that the base kept."""
        return len(open_corpus(self.run, "train", self.vocabularies)) if (self.run.path / "corpus").is_dir() else 0

    def sample(self, count: int, seed: int) -> Iterator[tuple[list[int], list[int]]]:
        """Yield ids of at most `count` training pairs of the base, drawn by `seed`; none where it kept no data."""
        if not self.pairs:
            return
        corpus = open_corpus(self.run, "train", self.vocabularies)
        for index in map(int, np.sort(np.random.default_rng(seed).permutation(len(corpus))[:count])):
            yield corpus.source(index).tolist(), corpus.target(index).tolist()
