"""A translator that begins with another one: its vocabulary and weights, and some of its pairs among the new ones."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dikkat.config import RunConfig
from dikkat.evaluation import score_translations
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.data_source import data_source
from dikkat.run_directory.tensor_files import read_tensors
from dikkat.tasks.common.settings import Settings, run_config, tuning
from dikkat.tasks.translation.evaluate import scored_as_trained
from dikkat.tasks.translation.vocabularies import Vocabularies, open_corpus
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.errors import DataError, MissingInputError, UsageError, msg
from dikkat_runtime.files import write_atomically
from dikkat_runtime.run.config import read_config
from dikkat_runtime.run.parts import TARGET_TOKENIZER
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.text_files import read_lines

GENTLE = {"learning_rate": 7.5e-4, "matrix_learning_rate": 2e-3, "warmup_steps": 50, "bidirectional_share": 0.0}
"""A quarter of the usual rates: what is learned anew must not cost what is known."""
PASSES = ((1_000, 1_024, 40.0), (10_000, 2_048, 20.0), (100_000, 4_096, 8.0))
"""Up to so many pairs: tokens a batch, and passes, of which few pairs need many to make some hundred updates."""
MANY = (8_192, 3.0)
"""The same of more pairs."""
OLD_PAIRS_PER_NEW = 2.0
"""Share of pairs of the base among those to train on, as a multiple of the new ones."""
FIXED_DATA = ("source_language", "target_language", "vocabularies")
"""Settings of the data that belong to the vocabulary."""
MAX_SCORED = 500
"""Sentences of each held-out part that are translated for the scores before and after."""


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

    def sample(self, count: int, seed: int) -> Iterator[tuple[list[int], list[int]]]:
        """Yield ids of at most `count` training pairs of the base, drawn by `seed`; none where it kept no data."""
        if not (self.run.path / "corpus").is_dir():
            return
        corpus = open_corpus(self.run, "train", self.vocabularies)
        chosen = np.random.default_rng(seed).permutation(len(corpus))[:count]
        for index in map(int, np.sort(chosen)):
            yield corpus.source(index).tolist(), corpus.target(index).tolist()


def held_out_lines(run: RunDirectory) -> tuple[list[str], list[str]]:
    """Return the first sources and targets of the validation part of a run; nothing where it has none."""
    lines: dict[str, list[str]] = {}
    for side in ("source", "target"):
        path = run.path / "held_out" / f"validation.{side}.txt"
        lines[side] = list(read_lines(path))[:MAX_SCORED] if path.exists() and path.stat().st_size else []
    return lines["source"], lines["target"]


def chrf_of(path: Path, sources: Sequence[str], targets: Sequence[str], config: RunConfig) -> float:
    """Return the chrF of the translator at `path` on these sentences, by greedy decoding in float32."""
    references, scoring = scored_as_trained(list(targets), config)
    translator = Translator.load(path)
    written = [line.text for line in translator.stream(sources, DecodingOptions(scores=False))]
    return score_translations(written, references, scoring).chrf


def scores_before(base: Base, sources: Sequence[str], targets: Sequence[str]) -> dict[str, float]:
    """Return the chrF of the base on the new validation part and on its own."""
    path, sources, targets = base.run.path, sources[:MAX_SCORED], targets[:MAX_SCORED]
    before = {"new": chrf_of(path, sources, targets, base.config)}
    old_sources, old_targets = held_out_lines(base.run)
    if old_sources:
        before["old"] = chrf_of(path, old_sources, old_targets, base.config)
    return before


def adaptation_lines(run: RunDirectory, adapted: dict[str, Any]) -> list[str]:
    """Return the lines of the card that compare the run with its base, on the new text and on that of the base."""
    config, before = run_config(run.read_config(), str(run.config)), adapted["chrf_before"]
    after = {"new": chrf_of(run.path, *held_out_lines(run), config)}
    base = Path(adapted["run"])
    if "old" in before and base.is_dir():
        after["old"] = chrf_of(run.path, *held_out_lines(RunDirectory.open(base)), config)
    names = {"new": msg("this validation part"), "old": msg("the validation part of {base}", base)}
    lines = [
        "",
        msg("Started from {base}, {adapted:,} of whose pairs were trained on too. chrF, greedy:").fill(
            base, adapted["old_pairs"]
        ),
        "",
    ]
    for part, chrf in before.items():
        now = f"{after[part]:.2f} after" if part in after else msg("not measured afterwards, since it no longer exists")
        lines.append(f"- {names[part]}: {chrf:.2f} before, {now}")
    return lines


# Interpolate the weights of an adapted translator with those that it began with (Wortsman et al. 2022, WiSE-FT).


def interpolated_weights(run: RunDirectory, share: float) -> dict[str, Tensor]:
    """Return `(1 - share) * before + share * after` for each weight of `run`, computed in float64 and kept in float32.

    "Before" are the weights that the run began with, "after" those that it learned (Wortsman et al. 2022,
    arxiv.org/abs/2109.01903, equation 1). Raises `UsageError` for a run that did not begin with another one,
    `MissingInputError` for one without weights, and `DataError` for a damaged file or where the two do not fit.
    """
    if not run.initial.exists():
        raise UsageError(
            "{run}: did not start from another translator; name one that was trained with --from", run.path
        )
    before, after = read_tensors(run.initial), run.load_weights()
    for path, own, other in ((run.initial, before, after), (run.weights, after, before)):
        for name, tensor in own.items():
            if name not in other or other[name].shape != tensor.shape:
                raise DataError(
                    "{path}: the weight {name} has no match among those after or before; restore the file", path, name
                )
            if not torch.isfinite(tensor).all():
                raise DataError(
                    "{file}: damaged: {name} holds numbers that are not finite; restore the file", path, name
                )
    mixed = {name: torch.lerp(before[name].double(), after[name].double(), share) for name in after}
    return {name: tensor.float() for name, tensor in mixed.items()}


def write_interpolated(path: Path, share: float, out: Path, command: str) -> None:
    """Write the run `out`: all of the adapted translator at `path` that translates, with interpolated weights.

    Its held-out text goes along, its training pairs and metrics do not. Raises as `interpolated_weights`, and
    `CannotCreateError` or `DiskError`.
    """
    adapted = RunDirectory.open(path)
    settings = read_config(adapted.path, "translator")
    weights = interpolated_weights(adapted, share)
    base = data_source(settings, adapted.config).get("adapted", {}).get("run", msg("its base"))
    files = [adapted.tokenizer]
    if (adapted.path / TARGET_TOKENIZER).exists():
        files.append(adapted.target_tokenizer)
    parts = [adapted.held_out(part, side) for part in ("validation", "test") for side in ("source", "target")]
    run = RunDirectory.create(out)
    with run.alone():
        run.make_folder("held_out")
        for file in (*files, *(part for part in parts if part.exists())):
            write_atomically(run.path / file.relative_to(path), file.read_bytes())
        origin = {"run": str(path), "share": share}
        run.write_config({**settings, "interpolated": origin, "command": command})
        run.save_weights(weights, {"interpolated_from": str(path), "share": str(share)})
        run.write_card(_card(out.resolve().name, base, path, share, command))


def _card(name: str, base: str, path: Path, share: float, command: str) -> str:
    return (
        f"# {name}\n\nA translator whose weights are {share:g} times those of `{path}` and {1.0 - share:g} times those"
        f" of `{base}`, with which it began. It was not trained itself.\n\n```\n{command}\n```\n"
    )
