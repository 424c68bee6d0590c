"""Write the report of a finished run as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dikkat.explain.attention_map import AttentionMap
from dikkat.explain.drawing.chart import Labels, Points, histogram, line_chart, small_map
from dikkat.explain.drawing.model_drawing import draw_model
from dikkat.explain.drawing.outline import outline_as_text
from dikkat.explain.drawing.svg import clipped, escaped
from dikkat.explain.report.facts import DataFacts, HeldOutFacts, Judged, ReaderFacts, RunFacts
from dikkat.explain.report.html import card, folded, foreign, heading, page, paragraph, preformatted, table, tiles
from dikkat.explain.report.messages import ReportMessages, report_messages
from dikkat.explain.report.reader_messages import reader_messages

_BARS = 24
_SHOWN_SHARE = 99.5
"""Percentile of the lengths at which the last bar begins."""


def report_page(run: RunFacts, language: str) -> str:
    """Return the whole file. Raises `UsageError` for a language without messages."""
    words = report_messages(language)
    source, target = (code or "?" for code in run.languages)
    title = words.title.format(source=source, target=target)
    parts = [
        f"<h1>{escaped(title)}</h1>",
        paragraph(run.name, muted=True),
        _summary(run, words),
        *_scores(run, words),
        *_training(run.metrics, words),
        *_data(run.data, run.languages, words),
        *_worst(run.held_out.worst, run.languages, words),
        *_attention(run, words),
        heading(words.drawing),
        f'<div class="wide">{draw_model(run.outline)}</div>',
        folded(words.as_text, outline_as_text(run.outline)),
        heading(words.again),
        preformatted(run.card),
        folded(words.settings, run.settings),
    ]
    return page(f"{title} · {run.name}", language, parts, scripts=True)


def _summary(run: RunFacts, words: ReportMessages) -> str:
    last = run.metrics[-1]
    loss = max(run.metrics, key=lambda row: row["chrf"])["valid_loss"]
    return tiles(
        [
            ("chrF", f"{run.held_out.chrf:.1f}"),
            ("BLEU", f"{run.held_out.bleu:.1f}"),
            (words.loss, f"{loss:.3f}"),
            (words.minutes, f"{last['seconds'] / 60:.1f}"),
            (words.tokens_a_second, f"{last['tokens'] / max(last['seconds'], 1e-9):,.0f}"),
            (words.parameters, f"{run.outline.parameters:,}"),
        ]
    )


def _scores(run: RunFacts, words: ReportMessages) -> list[str]:
    held_out: HeldOutFacts = run.held_out
    sentence = words.on_test_part if held_out.is_test else words.on_validation_part
    return [
        heading(words.scores),
        paragraph(sentence.format(count=f"{held_out.sentences:,}")),
        preformatted("\n".join(held_out.lines)),
    ]


def _training(metrics: Sequence[Mapping[str, Any]], words: ReportMessages) -> list[str]:
    last = metrics[-1]
    rate = words.rate.format(
        passes=f"{last['epoch']:.1f}", tokens=f"{last['tokens']:,}", minutes=f"{last['seconds'] / 60:.1f}"
    )
    return [heading(words.training), paragraph(rate), training_curves(metrics, words)]


def training_curves(metrics: Sequence[Mapping[str, Any]], words: ReportMessages) -> str:
    """Return charts of losses and scores over the updates, side by side."""
    losses = Labels(words.loss_curve, words.update, (words.on_training, words.on_validation))
    scores = Labels(words.score_curve, words.update, ("chrF", "BLEU"))
    charts = [
        line_chart(labels, series)
        for labels, keys in ((losses, ("train_loss", "valid_loss")), (scores, ("chrf", "bleu")))
        if any(series := [curve_points(metrics, key) for key in keys])
    ]
    return f'<div class="side">{"".join(charts)}</div>'


def curve_points(metrics: Sequence[Mapping[str, Any]], key: str) -> Points:
    """Return the updates and the values of one column, where it has any."""
    return [(float(row["step"]), float(row[key])) for row in metrics if row.get(key) is not None]


def _data(data: DataFacts, languages: tuple[str, str], words: ReportMessages) -> list[str]:
    files = ", ".join((*data.files, *data.validation_files))
    left_out = [(words.left_out.format(reason=reason), f"{count:,}") for reason, count in data.left_out.items()]
    rows = [
        (words.read, f"{data.read:,}"),
        *(left_out or [(words.none_left_out, "0")]),
        (words.for_training, f"{data.train_pairs:,}"),
        (words.for_validation, f"{data.validation_pairs:,}"),
        (words.for_test, f"{data.test_pairs:,}"),
    ]
    longest_texts = zip((words.source, words.target), data.longest, languages, strict=True)
    longest = card(words.longest, [(label, foreign(text, language)) for label, text, language in longest_texts])
    return [
        heading(words.data),
        paragraph(files, muted=True),
        f'<div class="side"><div>{table(rows)}</div><div>{_faults(data, words)}</div></div>',
        f'<div class="side"><div>{_lengths(data, words)}</div><div>{longest}</div></div>',
    ]


def _faults(data: DataFacts, words: ReportMessages) -> str:
    repetition = data.repetition
    rows = [
        (words.same_pairs, f"{repetition.same_pairs:,}"),
        (words.other_translations, f"{repetition.other_translations:,}"),
        (words.unknown, f"{repetition.unknown_tokens:,}"),
        (words.seen.format(count=f"{repetition.held_out:,}"), f"{repetition.held_out_seen:,}"),
    ]
    examined = words.examined.format(count=f"{repetition.examined:,}")
    return heading(words.faults, 3) + table(rows) + paragraph(examined, muted=True)


def _lengths(data: DataFacts, words: ReportMessages) -> str:
    both = (data.source_lengths, data.target_lengths)
    edges = length_edges(both)
    counts = [np.histogram(np.minimum(lengths, edges[-1]), edges)[0].tolist() for lengths in both]
    labels = Labels(words.lengths, words.lengths_axis, (words.source, words.target))
    return histogram(labels, edges.tolist(), counts)


def length_edges(series: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the edges of the bars of a histogram of lengths, the last of which holds all longer ones."""
    last = int(np.ceil(max(np.percentile(lengths, _SHOWN_SHARE) for lengths in series))) + 1
    edges = np.arange(0, last + 1, max(1, -(-last // _BARS)))
    return np.append(edges, edges[-1] + edges[1])


def _worst(worst: Sequence[Judged], languages: tuple[str, str], words: ReportMessages) -> list[str]:
    return [
        heading(words.worst),
        paragraph(words.worst_note, muted=True),
        *(
            card(
                f"chrF {judged.chrf:.1f}",
                [
                    (words.source, foreign(judged.source, languages[0])),
                    (words.model, foreign(judged.translation, languages[1])),
                    (words.human, foreign(judged.reference, languages[1])),
                ],
            )
            for judged in worst
        ),
    ]


def _attention(run: RunFacts, words: ReportMessages) -> list[str]:
    """The page in a frame of its own: its scripts and styles meet nothing of the report."""
    # what is inside the attribute is HTML: it must come out of it character by character, so only the two marks that
    # mean something in an attribute are replaced
    inside = run.browser.replace("&", "&amp;").replace('"', "&quot;")
    return [
        heading(words.attention),
        paragraph(words.attention_note, muted=True),
        *([paragraph(run.note, muted=True)] if run.note else []),
        f'<iframe title="{escaped(words.attention)}" sandbox="allow-scripts" srcdoc="{inside}"></iframe>',
    ]


# Write the page that follows a training run: curves, and three sentences with translation and attention.

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
        parts.append(training_curves(metrics, ReportMessages()))
    if sentences:
        parts.append(heading("Three held-out sentences"))
        parts.append(
            paragraph(
                "At each validation: what the model writes (greedy), and where its last layer looks (mean of heads)"
                " while it reads the human translation. Down: what is written; across: the source.",
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


# Write the report of a finished classifier or language model as one HTML file.


def reader_page(run: ReaderFacts, language: str) -> str:
    """Return the whole file. Raises `UsageError` for a language without messages."""
    words, own = report_messages(language), reader_messages(language)
    parts = [
        f"<h1>{escaped(run.title)}</h1>",
        paragraph(run.name, muted=True),
        tiles(run.summary),
        heading(words.scores),
        paragraph(run.scored_on),
        preformatted("\n".join(run.score_lines)),
        heading(words.training),
        paragraph(run.rate),
        _curves(run, words),
        heading(words.data),
        paragraph(", ".join(run.files), muted=True),
        f'<div class="side"><div>{table(run.data)}</div><div>{heading(words.faults, 3)}{table(run.faults)}</div></div>',
        # a language model may well learn from a single document
        *([_reader_lengths(run, own.lengths, words.lengths_axis, own.training)] if len(run.lengths) > 1 else []),
        heading(own.worst),
        paragraph(run.worst_note, muted=True),
        *(card(example.title, [(label, foreign(text)) for label, text in example.lines]) for example in run.worst),
        *([] if run.worst else [paragraph(own.no_mistake)]),
        heading(words.attention),
        paragraph(own.attention_note, muted=True),
        *([paragraph(run.note, muted=True)] if run.note else []),
        *(f"<h3>{foreign(text)}</h3><div class='wide'>{small_map(example)}</div>" for text, example in run.maps),
        heading(words.drawing),
        table(run.model),
        heading(words.again),
        preformatted(run.card),
        folded(words.settings, run.settings),
    ]
    return page(f"{run.title} · {run.name}", language, parts)


def _curves(run: ReaderFacts, words: ReportMessages) -> str:
    charts = [
        line_chart(Labels(curve.title, words.update, curve.names), series)
        for curve in run.curves
        if any(series := [curve_points(run.metrics, key) for key in curve.keys])
    ]
    return f'<div class="side">{"".join(charts)}</div>'


def _reader_lengths(run: ReaderFacts, title: str, axis: str, series: str) -> str:
    edges = length_edges([run.lengths])
    counts = np.histogram(np.minimum(run.lengths, edges[-1]), edges)[0].tolist()
    return histogram(Labels(title, axis, (series,)), edges.tolist(), [counts])
