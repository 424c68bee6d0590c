"""Write the report of a finished run as one HTML file."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dikkat.data.cleaning import shorten
from dikkat.data.faults.check import DataCheck, Example, shift_lines
from dikkat.data.faults.pair_checks import MEANINGS, NAMES, Fault
from dikkat.explain.drawing.chart import Labels, Points, escaped, histogram, line_chart, small_map
from dikkat.explain.drawing.model_drawing import draw_model
from dikkat.explain.drawing.outline import outline_as_text
from dikkat.explain.report.facts import Curve, RunFacts
from dikkat.explain.report.facts import Example as HeldOut
from dikkat.explain.report.html import (
    card,
    folded,
    foreign,
    framed,
    heading,
    page,
    paragraph,
    preformatted,
    table,
    tiles,
)
from dikkat_runtime.errors import msg, plural
from dikkat_runtime.localization import Say, language, localized, spoken_in, translated
from dikkat_runtime.text.casing import capitalized

_BARS = 24
_SHOWN_SHARE = 99.5
"""Percentile of the lengths at which the last bar begins."""


def report_page(run: RunFacts, language: str) -> str:
    """Return the whole file. Raises `UsageError` for a language without messages."""
    say = spoken_in(language)
    left = heading(say("What is left in it"), 3) + table(run.faults)
    left += paragraph(run.examined, muted=True) if run.examined else ""
    longest = "" if run.longest is None else _card(run.longest)
    # a language model may well learn from a single document
    lengths = _lengths(run, say) if max(map(len, run.lengths.values())) > 1 else ""
    parts = [
        f"<h1>{escaped(run.title)}</h1>",
        paragraph(run.name, muted=True),
        tiles(run.summary),
        heading(say("Scores")),
        paragraph(run.scored_on),
        preformatted("\n".join(run.score_lines)),
        heading(say("Training")),
        paragraph(run.rate),
        training_curves(run.metrics, run.curves, say),
        *frontier_chart(run.frontier, say),
        heading(say("Data and its faults")),
        paragraph(", ".join(run.files), muted=True),
        f'<div class="side"><div>{table(run.data)}</div><div>{left}</div></div>',
        f'<div class="side"><div>{lengths}</div><div>{longest}</div></div>',
        heading(say("Worst mistakes")),
        paragraph(run.worst_note, muted=True),
        *(map(_card, run.worst) if run.worst else [paragraph(say("There is none."))]),
        *_attention(run, say),
        heading(say("The model")),
        *([table(run.model)] if run.model else []),
        *([] if run.outline is None else [
            f'<div class="wide">{draw_model(run.outline)}</div>',
            folded(say("the same as text"), outline_as_text(run.outline)),
        ]),
        heading(say("To reproduce it")),
        preformatted(run.card),
        folded(say("all settings (config.json)"), run.settings),
    ]  # fmt: skip
    return page(f"{run.title} · {run.name}", language, parts, scripts=bool(run.browser))


def _card(example: HeldOut) -> str:
    lines = zip(example.lines, example.languages or [""] * len(example.lines), strict=True)
    return card(example.title, [(label, foreign(text, language)) for (label, text), language in lines])


def training_curves(metrics: Sequence[Mapping[str, Any]], curves: Sequence[Curve], say: Say) -> str:
    """Return charts over the updates, side by side."""
    charts = [
        line_chart(Labels(curve.title, say("update (optimizer step)"), curve.names), series)
        for curve in curves
        if any(series := [_points(metrics, key) for key in curve.keys])
    ]
    return f'<div class="side">{"".join(charts)}</div>'


def frontier_chart(shares: Sequence[Sequence[float]], say: Say) -> list[str]:
    """Return a chart of what each share of an adaptation gains on new text and loses on general text, if any."""
    if not shares:
        return []
    title = say("From the base to what was learned, by eighths")
    labels = Labels(title, say("chrF of general text"), (say("chrF of new text"),))
    return [f'<div class="side">{line_chart(labels, [[(general, new) for _, new, general in reversed(shares)]])}</div>']


def translator_curves(say: Say) -> list[Curve]:
    """Return the charts of a translator: losses and scores."""
    return [
        Curve(say("Loss, nats a target token"), (say("training"), say("validation")), ("train_loss", "valid_loss")),
        Curve(say("Validation scores, 0 to 100"), ("chrF", "BLEU"), ("chrf", "bleu")),
    ]


def _points(metrics: Sequence[Mapping[str, Any]], key: str) -> Points:
    """The updates and the values of one column, where it has any."""
    return [(float(row["step"]), float(row[key])) for row in metrics if row.get(key) is not None]


def _lengths(run: RunFacts, say: Say) -> str:
    series = list(run.lengths.values())
    edges = length_edges(series)
    counts = [np.histogram(np.minimum(lengths, edges[-1]), edges)[0].tolist() for lengths in series]
    title, axis = say("Lengths of what is trained on"), say("tokens; the last bar holds all longer ones")
    return histogram(Labels(title, axis, tuple(run.lengths)), edges.tolist(), counts)


def length_edges(series: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the edges of the bars of a histogram of lengths, the last of which holds all longer ones."""
    last = int(np.ceil(max(np.percentile(lengths, _SHOWN_SHARE) for lengths in series))) + 1
    edges = np.arange(0, last + 1, max(1, -(-last // _BARS)))
    return np.append(edges, edges[-1] + edges[1])


def _attention(run: RunFacts, say: Say) -> list[str]:
    text = (
        msg("Five held-out sentences, from the worst translated to the best.")
        if run.browser
        else msg("Where each word (down) looks (across): mean of the heads of the last layer.")
    )
    return [
        heading(say("Attention")),
        paragraph(say(text), muted=True),
        *([paragraph(run.note, muted=True)] if run.note else []),
        *([framed(say("Attention"), run.browser)] if run.browser else []),
        *(f"<h3>{foreign(text)}</h3><div class='wide'>{small_map(example)}</div>" for text, example in run.maps),
    ]


# Show what is wrong with parallel text, as a table for a terminal and as one HTML page with examples.


_SHOWN = 60


def data_report(check: DataCheck) -> Iterator[str]:
    """A line for each kind of fault, the commonest first, with its share and the first example."""
    counts = check.counts
    faulty = sum(counts.values())
    languages = f" {translated('to')} ".join(code or "?" for code in check.languages)
    yield localized(
        msg("{pairs:,} pairs, {languages}: {sound:,} sound, {faulty:,} with a fault").fill(
            check.pairs, languages, check.pairs - faulty, faulty
        )
    )
    for fault, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        examples = check.examples.get(fault, ())
        shown = next(
            (f"{_line(one)}: {shorten(one.source, _SHOWN)} → {shorten(one.target, _SHOWN)}" for one in examples), ""
        )
        yield f"{count:>9,}  {count / check.pairs:>6.1%}  {localized(NAMES[fault]):<36}  {shown}"
    yield from map(localized, (*shift_lines(check), *check.notes))


def _line(example: Example) -> str:
    return translated("line {first}", example.line)


def data_page(name: str, check: DataCheck) -> str:
    counts = check.counts
    faulty = sum(counts.values())
    ranked = sorted(counts, key=lambda fault: (-counts[fault], fault))
    parts = [
        f"<h1>{escaped(localized('Data check'))}</h1>",
        paragraph(name, muted=True),
        tiles(
            [
                (translated("pairs"), f"{check.pairs:,}"),
                (translated("sound"), f"{check.pairs - faulty:,}"),
                (translated("with a fault"), f"{faulty:,}"),
                (translated("languages"), " → ".join(code or "?" for code in check.languages)),
            ]
        ),
        heading(translated("Faults")),
        table(
            [(localized(NAMES[fault]), f"{counts[fault]:,} ({counts[fault] / check.pairs:.1%})") for fault in ranked]
        ),
        *([] if faulty else [paragraph(translated("No fault was found."))]),
        *(paragraph(localized(line)) for line in (*shift_lines(check), *check.notes)),
    ]
    for fault in ranked:
        parts += _examples(fault, check)
    return page(translated("Data check · {name}", name), language(), parts)


def _examples(fault: Fault, check: DataCheck) -> Iterator[str]:
    shown = check.examples.get(fault, [])
    yield heading(capitalized(localized(NAMES[fault]), language()))
    count = check.counts[fault]
    some = translated(", of which {count} are shown", len(shown)) if len(shown) < count else ""
    yield paragraph(f"{localized(MEANINGS[fault])}. {localized(plural(count, 'pair'))}{some}.", muted=True)
    source, target = check.languages
    for example in shown:
        lines = [
            (translated("source"), foreign(example.source, source)),
            (translated("target"), foreign(example.target, target)),
        ]
        yield card(_line(example), lines)
