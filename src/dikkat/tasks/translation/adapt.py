"""A translator that begins with another one: its vocabulary and weights, and pairs that keep what the base knows."""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from dikkat.config import RunConfig
from dikkat.data.lessons import installed_phrasebook
from dikkat.data.pairs import Pair
from dikkat.evaluation import score_translations
from dikkat.models.factory import build_model
from dikkat.run_directory import HeldOut, RunDirectory
from dikkat.run_directory.data_source import data_source
from dikkat.run_directory.tensor_files import read_header, read_metadata, read_tensors
from dikkat.tasks.common.settings import Settings, run_config, tuning
from dikkat.tasks.common.weights import build_to_train
from dikkat.tasks.in_memory import translator_of
from dikkat.tasks.translation.evaluate import scored_as_trained
from dikkat.tasks.translation.vocabularies import Vocabularies, open_corpus
from dikkat.training.parameters import FlatParameters
from dikkat_runtime.documents.memories import memory_kind, read_memory
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.engine.precision import read_record
from dikkat_runtime.errors import DataError, MissingInputError, UsageError, msg
from dikkat_runtime.files import write_atomically
from dikkat_runtime.run.config import read_config
from dikkat_runtime.run.parts import WEIGHTS
from dikkat_runtime.run.weights import ADAPTS, BASE, DOWN, UP, read_checksum
from dikkat_runtime.tasks.reading import limits_of_run
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.placeholders import has_words
from dikkat_runtime.text.text_files import read_lines

T = TypeVar("T")
GENTLE = {"learning_rate": 7.5e-4, "matrix_learning_rate": 2e-3, "warmup_steps": 50, "bidirectional_share": 0.0}
"""A quarter of the usual rates: what is learned anew must not cost what is known."""
PASSES = ((1_000, 1_024, 40.0), (10_000, 2_048, 20.0), (100_000, 4_096, 8.0))
"""Up to so many pairs: tokens a batch, and passes, of which few pairs need many to make some hundred updates."""
MANY = (8_192, 3.0)
"""The same of more pairs."""
OLD_PAIRS_PER_NEW = 4.0
"""General pairs among those to train on, as a multiple of the new ones in all their passes."""
FIXED_DATA = ("source_language", "target_language", "vocabularies")
"""Settings of the data that belong to the vocabulary."""
MAX_SCORED, MAX_GENERAL, MAX_WRITTEN, WRITTEN_PER_NEW = 500, 200, 20_000, 8
"""Sentences at most: of the new held-out part that are translated for the scores before and after, of the general
part, and of general text that the base translates, in all and for each new pair."""
GENERAL_SHARE = 0.2
"""Share of the general text that is held out, at most."""
ALLOWED_LOSS = {"old": 1.0, "written": 15.0}
"""Points of chrF that general text may lose for nothing: of people's references, and of what the base wrote itself,
where 13 points fewer were no loss at all by references (docs/adapt.md)."""
SHARES = (1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125, 0.0)
"""Shares of what was learned that are tried in the end."""


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


def repeats_of(new: int, general: int, passes: float) -> int:
    """Return how often the new pairs are among those to train on, so that of `general` ones none is seen twice.

    It is `passes` at most, and one where there are too few: general pairs that are seen as often as the new ones are
    learned by heart as well, and say nothing of other general text.
    """
    return max(1, min(int(passes), int(general / (OLD_PAIRS_PER_NEW * max(1, new)))))


@dataclass(frozen=True, slots=True)
class General:
    """Hold what keeps the knowledge of a base: general pairs to train on, and some that are held out."""

    train: list[Pair]
    """Pairs that the base wrote; its own are read when they are trained on."""
    held_out: list[Pair]
    kind: str
    """"old" where people wrote the held-out references, "written" where the base did, "" where there are none."""

    @classmethod
    def of(
        cls, base: Base, keep: Sequence[Path], new_pairs: int, passes: float, note: Callable[[str], object]
    ) -> "General":
        """Return general text for `passes` over so many new pairs: the base's own, of `keep`, or bundled sentences.

        Memories have pairs that people translated, with a `note` of what is left out; one-sided text is translated by
        the base. Raises `DataError`, `UsageError` or `MissingInputError` for a file of `keep`.
        """
        own = [Pair(*lines, 0) for lines in zip(*held_out_lines(base.run), strict=True)][:MAX_GENERAL]
        wanted = round(OLD_PAIRS_PER_NEW * new_pairs * passes) + MAX_GENERAL
        tables = [path for path in keep if memory_kind(path)]
        languages = (base.config.data.source_language, base.config.data.target_language)
        translator = Translator.load(base.run.path, "auto")
        translator.corrections = None
        read_pairs = partial(read_memory, languages=languages, note=note, translator=translator)
        pairs = _evenly([Pair(*pair, 0) for path in tables for pair in read_pairs(path).kept], wanted)
        most = max(0, min(MAX_WRITTEN, WRITTEN_PER_NEW * new_pairs + MAX_GENERAL, wanted) - len(pairs))
        lines = (line.strip() for path in keep if path not in tables for line in read_lines(path) if has_words(line))
        texts = list(dict.fromkeys(lines))
        if not keep and not base.pairs:
            texts = _bundled(languages[0])
        written = _written(translator, _evenly(texts, most))
        if own or not (pairs or written):
            return cls([*pairs, *written], own, "old" if own else "")
        some = pairs or written
        held_out = _evenly(some, min(MAX_GENERAL, round(GENERAL_SHARE * len(some))))
        known = {id(pair) for pair in held_out}
        train = [pair for pair in some if id(pair) not in known]
        return cls([*train, *(written if pairs else ())], held_out, "old" if pairs else "written")


def _evenly(items: list[T], count: int) -> list[T]:
    """Return `count` items at most, from first to last: those of a file in an order are alike where they are near."""
    return [items[index] for index in np.linspace(0, len(items) - 1, min(count, len(items))).astype(int)]


def _written(translator: Translator, texts: list[str]) -> list[Pair]:
    """Return texts with the translations that the base finishes."""
    lines = translator.stream(texts, DecodingOptions(scores=False))
    return [
        Pair(text, line.text, 0) for text, line in zip(texts, lines, strict=True) if line.text.strip() and line.finished
    ]


def _bundled(language: str) -> list[str]:
    """Return the sources of the bundled phrasebook in a language; none where it has none."""
    lessons = installed_phrasebook()
    return [
        phrase.source
        for pair in ("en-fr", "tr-en")
        if lessons.languages_of_pair(pair)[0] == language
        for phrase in lessons.phrasebook(pair, MAX_WRITTEN)
    ]


def held_out_lines(run: RunDirectory, part: HeldOut = "validation") -> tuple[list[str], list[str]]:
    """Return the first sources and targets of a held-out part of a run; nothing where it has none."""
    lines: dict[str, list[str]] = {}
    for side in ("source", "target"):
        path = run.path / "held_out" / f"{part}.{side}.txt"
        lines[side] = list(read_lines(path))[:MAX_SCORED] if path.exists() and path.stat().st_size else []
    return lines["source"], lines["target"]


def chrf_of(translator: Translator, sources: Sequence[str], targets: Sequence[str], config: RunConfig) -> float:
    """Return the chrF of a translator on these sentences, by greedy decoding and without corrections."""
    references, scoring = scored_as_trained(list(targets), config)
    translator.corrections = None
    written = [line.text for line in translator.stream(sources, DecodingOptions(scores=False))]
    return score_translations(written, references, scoring).chrf


def scores_before(base: Base, new: Sequence[Pair], general: General) -> dict[str, float]:
    """Return the chrF of the base on the new validation part, and on the general one by its kind."""
    translator = Translator.load(base.run.path)
    return {
        kind: chrf_of(translator, [pair.source for pair in pairs], [pair.target for pair in pairs], base.config)
        for kind, pairs in {"new": new[:MAX_SCORED], general.kind: general.held_out}.items()
        if pairs
    }


def general_floor(before: dict[str, float]) -> float | None:
    """Return the chrF under which general text costs as much as the new text gains; None where there is none."""
    return next((before[kind] - loss for kind, loss in ALLOWED_LOSS.items() if kind in before), None)


def settle(run: RunDirectory, config: RunConfig, adapted: dict[str, Any]) -> dict[str, Any]:
    """Average the learned weights with those of the base by the share that is best on both held-out parts.

    The best share has the most chrF on the new part of those with which the general part keeps its floor, or is 0.
    Returns `adapted` with the scores of each share, which the file of the weights keeps. A run without a general part
    stays as it was learned.
    """
    floor, metadata = general_floor(adapted["chrf_before"]), read_metadata(run.weights)
    if floor is None:
        return adapted
    if "share" not in metadata:
        rows = ((share, *_scores_of_share(run, config, share)) for share in SHARES)
        frontier = [[round(number, 3) for number in row] for row in rows]
        # of equals the one that learned most
        best = max((row for row in frontier if not row[0] or row[2] >= floor), key=lambda row: row[1])[0]
        metadata |= {"share": str(best), "frontier": json.dumps(frontier)}
        run.save_weights(interpolated_weights(run, best), metadata)
    return {**adapted, "share": float(metadata["share"]), "frontier": json.loads(metadata["frontier"])}


def _scores_of_share(run: RunDirectory, config: RunConfig, share: float) -> list[float]:
    vocabularies = Vocabularies.load(run, config)
    model = build_to_train(run, config.model, partial(build_model, config.model, config.training.seed))
    parameters = FlatParameters(model)
    parameters.fill(parameters.master, interpolated_weights(run, share))
    limits = limits_of_run(run.read_config(), str(run.config))
    translator = translator_of(model, vocabularies.source, config, limits, target_tokenizer=vocabularies.target)
    return [chrf_of(translator, *held_out_lines(run, part), config) for part in ("validation", "general")]


def adaptation_lines(run: RunDirectory, adapted: dict[str, Any]) -> list[str]:
    """Return the lines of the card that compare the run with its base, on the new text and on general text."""
    before = adapted["chrf_before"]
    lines = [
        "",
        msg("Started from {base}, {adapted:,} of whose pairs were trained on too. chrF, greedy:").fill(
            adapted["run"], adapted["old_pairs"]
        ),
        "",
    ]
    if frontier := adapted.get("frontier"):
        what = msg("general text, as people translated it") if "old" in before else msg("general text, as the base did")
        lines += [f"| {msg('share of what was learned')} | {msg('new text')} | {what} |", "|---|---|---|"]
        for share, new, kept in reversed(frontier):
            mark = f" ({msg('kept')})" if share == adapted["share"] else ""
            lines.append(f"| {share:g}{mark} | {new:.2f} | {kept:.2f} |")
        return lines
    config = run_config(run.read_config(), str(run.config))
    after = chrf_of(Translator.load(run.path), *held_out_lines(run), config)
    text = msg("- new text: {before:.2f} before, {after:.2f} after; there was no general text to keep")
    return [*lines, text.fill(before["new"], after)]


def why_stopped(rows: Sequence[dict[str, Any]], config: RunConfig) -> str:
    """Return in a sentence why an adaptation with these validations ended."""
    scores = [row.get("kept_score", row["chrf"]) for row in rows]
    if len(rows) - 1 - scores.index(max(scores)) >= config.training.patience:
        return msg("stopped at update {step:,}: neither text got better in {patience} validations").fill(
            rows[-1]["step"], config.training.patience
        )
    return msg("stopped at update {step:,}: its time or passes were used up", rows[-1]["step"])


def nothing_kept(run: RunDirectory) -> list[str]:
    """Return as a sentence that an adapted run is its base again, where no share of what was learned could be kept."""
    if float(read_metadata(run.weights).get("share", 1.0)):
        return []
    return [
        msg(
            "nothing of what was learned is kept, because each share of it costs general text too much or gains "
            "nothing: give more general text with --keep, or more pairs"
        )
    ]


# Keep of an adaptation what it adds to its base: low-rank factors of each changed matrix.

MAX_ADAPTER_SIZE, MAX_RANK = 3 << 20, 16
"""Bytes of an adapter's weights, and the most that one needs of ranks, where no other rank is asked for."""


def adapter_rank(base: Path) -> int:
    """Return the rank with which an adapter of the run `base` keeps to its size. Raises as `read_header`."""
    shapes = [one.shape for name, one in read_header(base / WEIGHTS).items() if ".blocks." in name]
    a_rank = 4 * sum(sum(shape) for shape in shapes if len(shape) == 2)
    return max(1, min(MAX_RANK, MAX_ADAPTER_SIZE // max(1, a_rank)))


def keep_adapter(path: Path) -> str:
    """Keep of the finished run at `path` only what it adds to its base, and return a note of its size.

    The factors of a change are its singular vectors, and of no more ranks than were trained. Raises `UsageError` for a
    run that did not start from another one, as `offer_base`, `CannotCreateError` and `DiskError`.
    """
    run = RunDirectory.open(path)
    config, after = run_config(run.read_config(), str(run.config)), run.load_weights()
    base = Path(data_source(run.read_config(), run.config)["adapted"]["run"]).resolve()
    before, factors = read_tensors(run.initial), dict[str, Tensor]()
    for name, tensor in after.items():
        change = (tensor - before[name]).double()
        if change.any():
            left, sizes, right = torch.linalg.svd(change, full_matrices=False)
            rank = config.training.low_rank
            factors |= {name + UP: (left * sizes)[:, :rank].float(), name + DOWN: right[:rank].float()}
    record, origin = read_record(path), {ADAPTS: read_checksum(base / WEIGHTS), BASE: str(base)}
    run.save_weights(factors, {**read_metadata(run.weights), **origin})
    if record is not None:
        run.write_text(run.precision.name, replace(record, weights=read_checksum(run.weights)).json())
    run.initial.unlink()
    for folder in (run.checkpoints, path / "corpus"):
        shutil.rmtree(folder)
    run.write_card(run.card.read_text(encoding="utf-8"))
    size = run.weights.stat().st_size / 2**20
    return msg("kept as an adapter of {base}: rank {rank}, {size:.1f} MB", base, config.training.low_rank, size)


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
    parts = [
        adapted.held_out(part, side) for part in ("validation", "general", "test") for side in ("source", "target")
    ]
    files = [adapted.tokenizer, *filter(Path.exists, (adapted.target_tokenizer, *parts))]
    run = RunDirectory.create(out)
    with run.alone():
        run.make_folder("held_out")
        for file in files:
            write_atomically(run.path / file.relative_to(path), file.read_bytes())
        run.write_config({**settings, "interpolated": {"run": str(path), "share": share}, "command": command})
        run.save_weights(weights, {"interpolated_from": str(path), "share": str(share)})
        run.write_card(
            f"# {out.resolve().name}\n\nA translator whose weights are {share:g} times those of `{path}` and"
            f" {1.0 - share:g} times those of `{base}`, with which it began. It was not trained itself.\n\n"
            f"```\n{command}\n```\n"
        )
