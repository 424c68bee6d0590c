"""`dikkat heads`: what every head of a trained model does, and what is lost when it is switched off."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dikkat.cli.progress import Announced, WorkProgress, print_torch_engine
from dikkat_runtime.cli.options import Argument, Option
from dikkat_runtime.cli.streams import print_report
from dikkat_runtime.localization import language, localized

if TYPE_CHECKING:
    from dikkat.explain.head_analysis.importance import Cost, HeadName, Quality
    from dikkat.explain.head_analysis.messages import HeadMessages, HeadsTable
    from dikkat.tasks.inspection.head_analysis import HeadFinding, HeadsReport


_SCORES = {"translator": "chrf", "classifier": "accuracy", "multi_label": "micro_f1"}
"""Measure beside the loss, by kind of model."""


def heads(
    path: Annotated[Path, Argument("DIR", help="Run directory.")],
    data: Annotated[
        list[str] | None,
        Argument(
            "DATA",
            help="Pairs, labelled texts or text to examine on; if absent, what was held out for validation.",
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
    as_json: Annotated[bool, Option("--json", help="Machine-readable, on standard output.")] = False,
) -> None:
    """Show what every attention head does, and what is lost without it.

    For a translator, also show which head comes nearest to a word alignment.

    Entropy in nats, loss in nats a token (of a classifier a text), distances in tokens. "Switched off" means that the
    head's output is zero.
    """
    from dikkat.explain.head_analysis.messages import head_messages
    from dikkat.tasks.inspection.head_analysis import examine_heads

    messages = head_messages(language())
    with Announced(f"{path}: loading its model"), WorkProgress() as progress:
        report = examine_heads(path, data or (), sentences=sentences, gold=gold, prune=prune, watch=progress)
    print_torch_engine()
    if report.note:
        print(localized(report.note), file=sys.stderr)
    print_report([_as_json(path, report)] if as_json else _as_text(path, report, gold, messages))


def _as_json(path: Path, report: HeadsReport) -> str:
    """JSON has no NaN: a correlation that is not defined is null. Layers and heads count from 1, as everywhere."""
    content = {
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
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)


def _measured(value: Quality | Cost, kind: str, ending: str = "") -> dict[str, float]:
    """Loss, and the score under its own name where there is one."""
    score = _SCORES.get(kind)
    return {f"loss{ending}": value.loss, **({f"{score}{ending}": value.score} if score else {})}


def _entry(finding: HeadFinding, kind: str) -> dict[str, Any]:
    agreement = None if finding.agreement is None else asdict(finding.agreement)
    if agreement is not None:
        for name in ("occlusion_correlation", "gradient_correlation"):
            agreement[name] = None if math.isnan(agreement[name]) else agreement[name]
    return {
        **_head_keys(finding.head),
        **asdict(finding.stats),
        **_measured(finding.cost, kind, "_lost"),
        "agreement": agreement,
    }


def _head_keys(head: HeadName) -> dict[str, Any]:
    return {"stack": head.stack, "layer": head.layer + 1, "kind": head.kind, "head": head.head + 1}


def _as_text(path: Path, report: HeadsReport, gold: Path | None, messages: HeadMessages) -> list[str]:
    words, kind = messages.table, messages.table.kinds[report.kind]
    kinds = list(words.attentions)
    # one attention after the other, where a model has them layer by layer
    ordered = sorted(report.heads, key=lambda finding: kinds.index((finding.head.stack, finding.head.kind)))
    score = f", {kind.score} {report.whole.score:.1f}" if kind.score else ""
    headings = tuple(heading.format(score=kind.score) for heading in words.headings)
    # without a second measure, and without cross-attention, the last columns are empty
    shown = 9 if report.alignment_head else 8 if kind.score else 7
    return [
        words.title.format(
            path=path, sentences=report.sentences, unit=kind.unit, per=kind.per, loss=report.whole.loss, score=score
        ),
        "",
        *_columns([row[:shown] for row in (headings, *(_row(finding, messages) for finding in ordered))]),
        *(["", *_alignment_lines(report.alignment_head, gold, messages)] if report.alignment_head else []),
        *_pruning_lines(report, words),
    ]


def _row(finding: HeadFinding, messages: HeadMessages) -> tuple[str, ...]:
    from dikkat.explain.head_analysis.messages import written_share

    stats = finding.stats
    return (
        _name(finding.head, messages.table),
        f"{stats.entropy:.2f}",
        written_share(stats.entropy_share, messages),
        f"{stats.distance:.1f}",
        messages.table.targets[stats.target],
        "" if stats.target is None else written_share(stats.target_share, messages),
        f"{finding.cost.loss:+.3f}",
        f"{finding.cost.score:+.1f}",
        "" if finding.agreement is None else written_share(finding.agreement.occlusion, messages),
    )


def _columns(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            # the names of heads and places to the left, numbers to the right
            cell.ljust(width) if column in (0, 4) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _alignment_lines(best: HeadFinding, gold: Path | None, messages: HeadMessages) -> list[str]:
    from dikkat.explain.head_analysis.messages import written_share

    words, agreement = messages.table, best.agreement
    assert agreement is not None  # it was chosen among those that have one
    judges = [words.by_occlusion.format(share=written_share(agreement.occlusion, messages))]
    if agreement.scores is not None:
        shares = {name: written_share(share, messages, decimals=1) for name, share in asdict(agreement.scores).items()}
        judges.insert(0, words.by_gold.format(name=gold, **shares))
    lines = [
        words.chosen.format(head=_name(best.head, words), judge=judges[0]),
        *judges[1:],
        words.correlations.format(occlusion=agreement.occlusion_correlation, gradient=agreement.gradient_correlation),
    ]
    return [*lines, words.doubtful] if agreement.occlusion < 0.5 else lines


def _pruning_lines(report: HeadsReport, words: HeadsTable) -> list[str]:
    if not report.pruned:
        return []
    kind, points = words.kinds[report.kind], []
    for pruning in report.pruned:
        score = f", {kind.score} {-pruning.cost.score:+.1f}" if kind.score else ""
        name = _name(pruning.off[-1], words)
        points.append(words.pruned.format(count=len(pruning.off), head=name, loss=pruning.cost.loss, score=score))
    return [
        "",
        words.pruning.format(sentences=report.other_sentences, unit=kind.unit),
        *(f"  {point}" for point in points),
    ]


def _name(head: HeadName, words: HeadsTable) -> str:
    attention = words.attentions[head.stack, head.kind]
    return words.head.format(attention=attention, layer=head.layer + 1, head=head.head + 1)
