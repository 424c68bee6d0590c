"""`dikkat heads`: what every head of a trained model does, and what is lost when it is switched off."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dikkat.cli.engine_option import tell_torch_engine
from dikkat.cli.progress import Announced, WorkProgress
from dikkat.cli.streams import print_report

if TYPE_CHECKING:
    from dikkat.explain.head_analysis.ablation import HeadName
    from dikkat.explain.head_analysis.importance import Cost, Quality
    from dikkat.explain.head_analysis.wording import HeadsTable, HonestyWording
    from dikkat.tasks.inspection.head_analysis import HeadFinding, HeadsReport


_SCORES = {"translator": "chrf", "classifier": "accuracy", "multi_label": "micro_f1"}
"""What is measured beside the loss, by kind of model."""


def heads(
    path: Annotated[Path, typer.Argument(metavar="DIR", help="Run directory.", show_default=False)],
    data: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[DATA]...",
            help="Pairs, labelled texts or text to examine on; if absent, what was held out for validation.",
        ),
    ] = None,
    sentences: Annotated[
        int, typer.Option(min=1, help="Pairs, texts or windows of text to examine on, evenly spread.")
    ] = 100,
    gold: Annotated[
        Path | None, typer.Option(help="Word alignments of DATA, one pair a line: 0-0 1-2 3p4 (p: only possible).")
    ] = None,
    prune: Annotated[
        int, typer.Option(min=0, help="Also switch the N least useful heads off together, and measure the cost.")
    ] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable, on standard output.")] = False,
    language: Annotated[str, typer.Option(help="en or tr.")] = "en",
) -> None:
    """Show what every attention head does, what is lost without it, and which of a translator's comes nearest to a word
    alignment.

    Entropy in nats, loss in nats a token (of a classifier a text), distances in tokens. "Switched off" means that the
    head's output is zero.
    """
    from dikkat.explain.head_analysis.wording import honesty_wording
    from dikkat.tasks.inspection.head_analysis import examine_heads

    wording = honesty_wording(language)
    with Announced(f"{path}: loading its model"), WorkProgress() as progress:
        found = examine_heads(path, data or (), sentences=sentences, gold=gold, prune=prune, watch=progress)
    tell_torch_engine()
    print_report([_as_json(path, found)] if as_json else _as_text(path, found, gold, wording))


def _as_json(path: Path, found: HeadsReport) -> str:
    """JSON has no NaN: a correlation that is not defined is null. Layers and heads count from 1, as everywhere."""
    report = {
        "path": str(path),
        "sentences": found.sentences,
        "whole": _measured(found.whole, found.kind),
        "heads": [_entry(each, found.kind) for each in found.heads],
        "alignment_head": None if found.alignment_head is None else _place(found.alignment_head.head),
        "other_sentences": found.other_sentences,
        "pruned": [
            {"off": [_place(head) for head in each.off], **_measured(each.cost, found.kind)} for each in found.pruned
        ],
    }
    return json.dumps(report, indent=2, ensure_ascii=False, allow_nan=False)


def _measured(value: Quality | Cost, kind: str, ending: str = "") -> dict[str, float]:
    """Loss, and the score under its own name where there is one."""
    score = _SCORES.get(kind)
    return {f"loss{ending}": value.loss, **({f"{score}{ending}": value.score} if score else {})}


def _entry(each: HeadFinding, kind: str) -> dict[str, Any]:
    agreement = None if each.agreement is None else asdict(each.agreement)
    if agreement is not None:
        for name in ("occlusion_correlation", "gradient_correlation"):
            agreement[name] = None if math.isnan(agreement[name]) else agreement[name]
    return {
        **_place(each.head),
        **asdict(each.portrait),
        **_measured(each.cost, kind, "_lost"),
        "agreement": agreement,
    }


def _place(head: HeadName) -> dict[str, Any]:
    return {"stack": head.stack, "layer": head.layer + 1, "kind": head.kind, "head": head.head + 1}


def _as_text(path: Path, found: HeadsReport, gold: Path | None, wording: HonestyWording) -> list[str]:
    words, kind = wording.table, wording.table.kinds[found.kind]
    kinds = list(words.attentions)
    # one attention after the other, where a model has them layer by layer
    ordered = sorted(found.heads, key=lambda each: kinds.index((each.head.stack, each.head.kind)))
    score = f", {kind.score} {found.whole.score:.1f}" if kind.score else ""
    headings = tuple(heading.format(score=kind.score) for heading in words.headings)
    # without a second measure, and without cross-attention, the last columns are empty
    shown = 9 if found.alignment_head else 8 if kind.score else 7
    return [
        words.title.format(
            path=path, sentences=found.sentences, unit=kind.unit, per=kind.per, loss=found.whole.loss, score=score
        ),
        "",
        *_columns([row[:shown] for row in (headings, *(_row(each, wording) for each in ordered))]),
        *(["", *_told_alignment(found.alignment_head, gold, wording)] if found.alignment_head else []),
        *_told_pruning(found, words),
    ]


def _row(each: HeadFinding, wording: HonestyWording) -> tuple[str, ...]:
    from dikkat.explain.head_analysis.wording import written_share

    portrait = each.portrait
    return (
        _name(each.head, wording.table),
        f"{portrait.entropy:.2f}",
        written_share(portrait.entropy_share, wording),
        f"{portrait.distance:.1f}",
        wording.table.places[portrait.place],
        "" if portrait.place is None else written_share(portrait.place_share, wording),
        f"{each.cost.loss:+.3f}",
        f"{each.cost.score:+.1f}",
        "" if each.agreement is None else written_share(each.agreement.occlusion, wording),
    )


def _columns(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            # the names of heads and places to the left, numbers to the right
            cell.ljust(width) if place in (0, 4) else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _told_alignment(best: HeadFinding, gold: Path | None, wording: HonestyWording) -> list[str]:
    from dikkat.explain.head_analysis.wording import written_share

    words, agreement = wording.table, best.agreement
    assert agreement is not None  # it was chosen among those that have one
    judges = [words.by_occlusion.format(share=written_share(agreement.occlusion, wording))]
    if agreement.scores is not None:
        shares = {name: written_share(share, wording, decimals=1) for name, share in asdict(agreement.scores).items()}
        judges.insert(0, words.by_gold.format(name=gold, **shares))
    lines = [
        words.chosen.format(head=_name(best.head, words), judge=judges[0]),
        *judges[1:],
        words.correlations.format(occlusion=agreement.occlusion_correlation, gradient=agreement.gradient_correlation),
    ]
    return [*lines, words.doubtful] if agreement.occlusion < 0.5 else lines


def _told_pruning(found: HeadsReport, words: HeadsTable) -> list[str]:
    if not found.pruned:
        return []
    kind, points = words.kinds[found.kind], []
    for each in found.pruned:
        score = f", {kind.score} {-each.cost.score:+.1f}" if kind.score else ""
        name = _name(each.off[-1], words)
        points.append(words.pruned.format(count=len(each.off), head=name, loss=each.cost.loss, score=score))
    return [
        "",
        words.pruning.format(sentences=found.other_sentences, unit=kind.unit),
        *(f"  {point}" for point in points),
    ]


def _name(head: HeadName, words: HeadsTable) -> str:
    attention = words.attentions[head.stack, head.kind]
    return words.head.format(attention=attention, layer=head.layer + 1, head=head.head + 1)
