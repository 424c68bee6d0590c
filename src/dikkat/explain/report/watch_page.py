"""Write the page that follows a training run: curves, and three sentences with translation and attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dikkat.explain.attention_map import AttentionMap
from dikkat.explain.drawing.small_map import small_map
from dikkat.explain.drawing.svg import clipped, escaped
from dikkat.explain.report.html import foreign, heading, page, paragraph
from dikkat.explain.report.run_page import training_curves
from dikkat_runtime.messages import msg

REFRESH = 5
"""Seconds after which the page of a running run reloads itself; a local file may not fetch anything."""

MAX_LENGTH = 160
"""Characters shown of a translation: a model that has learned little repeats itself without end."""


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """Hold the translation and attention of one sentence at one validation."""

    translation: str
    cross: AttentionMap
    """Mean of the heads of the last layer, while it read the human translation."""


@dataclass(frozen=True, slots=True)
class Followed:
    """Hold one held-out sentence and its history."""

    source: str
    reference: str
    looks: tuple[tuple[Mapping[str, Any], Look], ...]
    """Row of metrics and `Look`, one a validation."""


def watch_page(
    name: str, status: str, metrics: Sequence[Mapping[str, Any]], sentences: Sequence[Followed], *, running: bool
) -> str:
    """Return the whole file, at any time of the run."""
    parts = [f"<h1>{escaped(name)}</h1>", paragraph(status, muted=True)]
    if metrics:
        parts.append(training_curves(metrics, str))
    if sentences:
        parts.append(heading(msg("Three held-out sentences")))
        parts.append(
            paragraph(
                msg(
                    "At each validation: what the model writes (greedy), and where its last layer looks (mean of "
                    "heads) while it reads the human translation. Down: what is written; across: the source."
                ),
                muted=True,
            )
        )
    parts += [piece for sentence in sentences for piece in _sentence(sentence)]
    return page(f"{name} · {status}", "en", parts, refresh=REFRESH if running else None)


def _sentence(sentence: Followed) -> list[str]:
    figures = "".join(_figure(row, look) for row, look in sentence.looks)
    return [
        f"<h3>{foreign(sentence.source)}</h3>",
        f"<p>human: {foreign(sentence.reference)}</p>",
        f'<div class="strip">{figures}</div>',
    ]


def _figure(row: Mapping[str, Any], look: Look) -> str:
    written = f"<p>{foreign(clipped(look.translation, MAX_LENGTH))}</p>"
    caption = f"<figcaption>{paragraph(_when(row), muted=True)}{written}</figcaption>"
    return f"<figure>{caption}{small_map(look.cross)}</figure>"


def _when(row: Mapping[str, Any]) -> str:
    score = row.get("chrf")
    return f"update {row['step']:,}" + ("" if score is None else f", chrF {score:.1f}")
