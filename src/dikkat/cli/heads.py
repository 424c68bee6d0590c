"""`dikkat heads`: what every head of a trained model does, and what is lost when it is switched off."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dikkat.cli.progress import Announced, print_torch_engine
from dikkat_runtime.cli.opening import JsonOption
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.streams import print_json, print_note, print_report
from dikkat_runtime.errors import msg
from dikkat_runtime.localization import localized

if TYPE_CHECKING:
    from dikkat.explain.head_analysis.importance import Cost, HeadName, Quality
    from dikkat.tasks.inspection.head_analysis import HeadFinding, HeadsReport


_SCORES = {"translator": "chrf", "classifier": "accuracy", "multi_label": "micro_f1"}
"""Measure in addition to the loss, by kind of model."""
_KINDS = {
    "translator": (msg("pairs"), msg("token"), "chrF"),
    "classifier": (msg("texts"), msg("text"), msg("accuracy")),
    "multi_label": (msg("texts"), msg("text"), "micro F1"),
    "lm": (msg("windows"), msg("token"), ""),
}
"""What the heads of a kind of model are examined on, the unit of its loss, and the name of the other measure."""
_ATTENTIONS = {
    ("encoder", "self"): msg("encoder self"),
    ("decoder", "self"): msg("decoder self"),
    ("decoder", "cross"): msg("cross"),
}
TARGETS = {
    "marks": "<bos>, <eos>",
    "punctuation": msg("punctuation"),
    "before": msg("one position before"),
    "same": msg("the same position"),
    "after": msg("one position after"),
    "first": msg("the first token"),
    "elsewhere": msg("other words"),
    None: msg("nowhere in particular"),
}


def heads(
    path: Annotated[Path, Argument("DIR", help="Run directory.")],
    data: Annotated[
        list[str] | None,
        Argument(
            "DATA", help="Pairs, labelled texts or text to examine on; if absent, what was held out for validation."
        ),
    ] = None,
    sentences: Annotated[
        int, Option(min=1, help="Pairs, texts or windows of text to examine on, evenly spread.")
    ] = 100,
    gold: Annotated[
        Path | None, Option(help="Word alignments of DATA, one pair a line: 0-0 1-2 3p4 (p: only possible).")
    ] = None,
    prune: Annotated[
        int, Option(min=0, help="Also switch the N least useful heads off together, and measure the cost.")
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Show what every attention head does, and what is lost without it.

    For a translator, also show which head comes nearest to a word alignment.

    Entropy in nats, loss in nats a token (of a classifier a text), distances in tokens. "Switched off" means that the
    head's output is zero.
    """
    from dikkat.tasks.inspection.head_analysis import examine_heads

    with Announced(msg("{run}: loading its model", path)):
        report = examine_heads(path, data or (), sentences=sentences, gold=gold, prune=prune)
    print_torch_engine()
    if report.note:
        print(localized(report.note), file=sys.stderr)
    if (count := report.sentences + report.other_sentences) < report.total:
        unit = _KINDS[report.kind][0]
        print_note("{count:,} of {total:,} {unit}, evenly spread; --sentences N takes more", count, report.total, unit)
    if as_json:
        print_json(_numbers(path, report))
    else:
        print_report(_as_text(path, report, gold))


def _numbers(path: Path, report: HeadsReport) -> dict[str, Any]:
    """Layers and heads count from 1, as everywhere."""
    return {
        "path": str(path),
        "sentences": report.sentences,
        "whole": _measured(report.whole, report.kind),
        "heads": [_entry(finding, report.kind) for finding in report.heads],
        "alignment_head": None if report.alignment_head is None else _head_keys(report.alignment_head.head),
        "other_sentences": report.other_sentences,
        "pruned": [
            {"off": [_head_keys(head) for head in finding.off], **_measured(finding.cost, report.kind)}
            for finding in report.pruned
        ],
    }


def _measured(value: Quality | Cost, kind: str, ending: str = "") -> dict[str, float]:
    """Loss, and the score under its own name where there is one."""
    score = _SCORES.get(kind)
    return {f"loss{ending}": value.loss, **({f"{score}{ending}": value.score} if score else {})}


def _entry(finding: HeadFinding, kind: str) -> dict[str, Any]:
    return {
        **_head_keys(finding.head),
        **asdict(finding.stats),
        **_measured(finding.cost, kind, "_lost"),
        "agreement": finding.agreement,
        **({"patterns": dict(finding.patterns)} if finding.patterns else {}),
    }


def _head_keys(head: HeadName) -> dict[str, Any]:
    return {"stack": head.stack, "layer": head.layer + 1, "kind": head.kind, "head": head.head + 1}


def _as_text(path: Path, report: HeadsReport, gold: Path | None) -> list[str]:
    from dikkat.explain.head_analysis.circuits import PATTERNS

    unit, per, name = _KINDS[report.kind]
    kinds = list(_ATTENTIONS)
    # one attention after the other, where a model has them layer by layer
    ordered = sorted(report.heads, key=lambda finding: kinds.index((finding.head.stack, finding.head.kind)))
    score = msg(", {name} {score:.1f}", name, report.whole.score) if name else ""
    lost = msg("{score} lost", name) if name else ""
    headings = (*map(msg, ("head", "entropy", "of max", "distance", "drawn to", "", "loss lost")), lost, msg("aligned"))
    # without a second measure, and without cross-attention, the last columns are empty
    shown = 9 if report.alignment_head else 8 if name else 7
    rows = [row[:shown] for row in (headings, *map(_row, ordered))]
    if all(finding.patterns for finding in ordered):
        # scores on random tokens that are read twice
        patterns = (
            (msg(name) for name in PATTERNS),
            *((f"{value:.2f}" for value in one.patterns.values()) for one in ordered if one.patterns),
        )
        rows = [(*row, *more) for row, more in zip(rows, patterns, strict=True)]
    title = msg("{path}: {sentences} {unit}; all heads on: loss {loss:.3f} nats a {per}{score}")
    return [
        title.fill(path, report.sentences, unit, report.whole.loss, per, score),
        "",
        *_columns(rows),
        *(["", *_alignment_lines(report.alignment_head, gold)] if report.alignment_head else []),
        *_pruning_lines(report),
    ]


def _row(finding: HeadFinding) -> tuple[str, ...]:
    from dikkat.explain.head_analysis.alignment_head import percent

    stats = finding.stats
    return (
        _name(finding.head),
        f"{stats.entropy:.2f}",
        percent(stats.entropy_share),
        f"{stats.distance:.1f}",
        TARGETS[stats.target],
        "" if stats.target is None else percent(stats.target_share),
        f"{finding.cost.loss:+.3f}",
        f"{finding.cost.score:+.1f}",
        "" if finding.agreement is None else percent(finding.agreement.occlusion),
    )


def _columns(rows: list[tuple[str, ...]]) -> list[str]:
    said = [tuple(map(localized, row)) for row in rows]
    widths = [max(map(len, column)) for column in zip(*said, strict=True)]
    return [
        "  ".join(
            # the names of heads and places to the left, numbers to the right
            cell.ljust(width) if column in (0, 4) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in said
    ]


def _alignment_lines(best: HeadFinding, gold: Path | None) -> list[str]:
    from dikkat.explain.head_analysis.alignment_head import percent

    agreement = best.agreement
    assert agreement is not None  # it was chosen among those that have one
    by_occlusion = msg("For {share} of the written tokens it looks most at the one whose occlusion costs most.")
    judges = [by_occlusion.fill(percent(agreement.occlusion))]
    if agreement.scores is not None:
        error, precision, recall = (
            percent(share, 1) for share in (agreement.scores.error, agreement.scores.precision, agreement.scores.recall)
        )
        by_gold = msg("AER {error} against {name}, the lowest of all (precision {precision}, recall {recall}).")
        judges.insert(0, by_gold.fill(error, gold, precision, recall))
    correlations = msg(
        "Mean rank correlation of its weights with occlusion {occlusion:.2f}, with gradient x input {gradient:.2f}."
    )
    lines: list[str] = [
        msg("Nearest to an alignment: {head}. {judge}", _name(best.head), judges[0]),
        *judges[1:],
        correlations.fill(agreement.occlusion_correlation, agreement.gradient_correlation),
    ]
    doubtful = msg("Do not read even this head as an alignment: for most tokens it looks elsewhere.")
    return [*lines, doubtful] if agreement.occlusion < 0.5 else lines


def _pruning_lines(report: HeadsReport) -> list[str]:
    if not report.pruned:
        return []
    unit, _, name = _KINDS[report.kind]
    points: list[str] = []
    for pruning in report.pruned:
        score = msg(", {name} {score:+.1f}", name, -pruning.cost.score) if name else ""
        point = msg("  {count} off ({head} last): loss {loss:+.3f}{score}")
        points.append(point.fill(len(pruning.off), _name(pruning.off[-1]), pruning.cost.loss, score))
    heading = msg("The least useful heads switched off together, measured on {sentences} other {unit}:")
    return ["", heading.fill(report.other_sentences, unit), *points]


def _name(head: HeadName) -> str:
    attention = _ATTENTIONS[head.stack, head.kind]
    return msg("{attention}, layer {layer}, head {head}", attention, head.layer + 1, head.head + 1)
