"""Write the report of a finished classifier or language model as one HTML file."""

from __future__ import annotations

import numpy as np

from dikkat.explain.drawing.chart import Labels, histogram, line_chart
from dikkat.explain.drawing.small_map import small_map
from dikkat.explain.drawing.svg import escaped
from dikkat.explain.report.html import card, folded, foreign, heading, page, paragraph, preformatted, table, tiles
from dikkat.explain.report.reader_facts import ReaderFacts
from dikkat.explain.report.run_page import curve_points, length_edges
from dikkat_runtime.localization import Say, spoken_in
from dikkat_runtime.messages import msg


def reader_page(run: ReaderFacts, language: str) -> str:
    """Return the whole file. Raises `UsageError` for a language without messages."""
    say = spoken_in(language)
    left = heading(say(msg("What is left in it")), 3)
    parts = [
        f"<h1>{escaped(run.title)}</h1>",
        paragraph(run.name, muted=True),
        tiles(run.summary),
        heading(say(msg("Scores"))),
        paragraph(run.scored_on),
        preformatted("\n".join(run.score_lines)),
        heading(say(msg("Training"))),
        paragraph(run.rate),
        _curves(run, say),
        heading(say(msg("Data and its faults"))),
        paragraph(", ".join(run.files), muted=True),
        f'<div class="side"><div>{table(run.data)}</div><div>{left}{table(run.faults)}</div></div>',
        # a language model may well learn from a single document
        *(
            [
                _lengths(
                    run,
                    say(msg("Lengths of what is trained on")),
                    say(msg("tokens; the last bar holds all longer ones")),
                    say(msg("training")),
                )
            ]
            if len(run.lengths) > 1
            else []
        ),
        heading(say(msg("Worst mistakes"))),
        paragraph(run.worst_note, muted=True),
        *(card(example.title, [(label, foreign(text)) for label, text in example.lines]) for example in run.worst),
        *([] if run.worst else [paragraph(say(msg("There is none.")))]),
        heading(say(msg("Attention"))),
        paragraph(say(msg("Where each word (down) looks (across): mean of the heads of the last layer.")), muted=True),
        *([paragraph(run.note, muted=True)] if run.note else []),
        *(f"<h3>{foreign(text)}</h3><div class='wide'>{small_map(example)}</div>" for text, example in run.maps),
        heading(say(msg("The model"))),
        table(run.model),
        heading(say(msg("To make it again"))),
        preformatted(run.card),
        folded(say(msg("all settings (config.json)")), run.settings),
    ]
    return page(f"{run.title} · {run.name}", language, parts)


def _curves(run: ReaderFacts, say: Say) -> str:
    charts = [
        line_chart(Labels(curve.title, say(msg("update (optimizer step)")), curve.names), series)
        for curve in run.curves
        if any(series := [curve_points(run.metrics, key) for key in curve.keys])
    ]
    return f'<div class="side">{"".join(charts)}</div>'


def _lengths(run: ReaderFacts, title: str, axis: str, series: str) -> str:
    edges = length_edges([run.lengths])
    counts = np.histogram(np.minimum(run.lengths, edges[-1]), edges)[0].tolist()
    return histogram(Labels(title, axis, (series,)), edges.tolist(), [counts])
