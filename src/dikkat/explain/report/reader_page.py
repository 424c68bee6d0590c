"""Write the report of a finished classifier or language model as one HTML file."""

from __future__ import annotations

import numpy as np

from dikkat.explain.drawing.chart import Labels, histogram, line_chart
from dikkat.explain.drawing.small_map import small_map
from dikkat.explain.drawing.svg import escaped
from dikkat.explain.report.html import card, folded, foreign, heading, page, paragraph, preformatted, table, tiles
from dikkat.explain.report.messages import ReportMessages, report_messages
from dikkat.explain.report.reader_facts import ReaderFacts
from dikkat.explain.report.reader_messages import reader_messages
from dikkat.explain.report.run_page import curve_points, length_edges


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
        *([_lengths(run, own.lengths, words.lengths_axis, own.training)] if len(run.lengths) > 1 else []),
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


def _lengths(run: ReaderFacts, title: str, axis: str, series: str) -> str:
    edges = length_edges([run.lengths])
    counts = np.histogram(np.minimum(run.lengths, edges[-1]), edges)[0].tolist()
    return histogram(Labels(title, axis, (series,)), edges.tolist(), [counts])
