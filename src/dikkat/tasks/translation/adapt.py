"""Score what an adapted translator gains on new text and keeps on general text, and choose the share that is kept."""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

from dikkat.config import RunConfig
from dikkat.data.pairs import Pair
from dikkat.evaluation import score_translations
from dikkat.models.factory import build_model
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.tensor_files import read_metadata
from dikkat.tasks.common.settings import run_config
from dikkat.tasks.common.weights import build_to_train
from dikkat.tasks.in_memory import translator_of
from dikkat.tasks.translation.adapted_weights import interpolated_weights
from dikkat.tasks.translation.base import Base
from dikkat.tasks.translation.evaluate import scored_as_trained
from dikkat.tasks.translation.general_text import MAX_SCORED, General, held_out_lines
from dikkat.tasks.translation.vocabularies import Vocabularies
from dikkat.training.parameters import FlatParameters
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.errors import msg
from dikkat_runtime.tasks.reading import limits_of_run
from dikkat_runtime.tasks.translator import Translator

ALLOWED_LOSS = {"old": 1.0, "written": 15.0}
"""Points of chrF that general text may lose for nothing: of people's references, and of what the base wrote itself,
where 13 points fewer were no loss at all by references (docs/adapt.md)."""
SHARES = (1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125, 0.0)
"""Shares of what was learned that are tried in the end."""


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
