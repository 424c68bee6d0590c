"""Write the report of a finished run as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dikkat.explain.drawing.as_text import outline_as_text
from dikkat.explain.drawing.chart import Labels, Points, histogram, line_chart
from dikkat.explain.drawing.model_drawing import draw_model
from dikkat.explain.drawing.svg import escaped
from dikkat.explain.report.facts import DataFacts, HeldOutFacts, Judged, RunFacts
from dikkat.explain.report.html import card, folded, foreign, heading, page, paragraph, preformatted, table, tiles
from dikkat_runtime.localization import Say, spoken_in
from dikkat_runtime.messages import msg

_BARS = 24
_SHOWN_SHARE = 99.5
"""Percentile of the lengths at which the last bar begins."""


def report_page(run: RunFacts, language: str) -> str:
    """Return the whole file. Raises `UsageError` for a language without messages."""
    say = spoken_in(language)
    source, target = (code or "?" for code in run.languages)
    title = say(msg("Translator {source} → {target}").fill(source=source, target=target))
    parts = [
        f"<h1>{escaped(title)}</h1>",
        paragraph(run.name, muted=True),
        _summary(run, say),
        *_scores(run, say),
        *_training(run.metrics, say),
        *_data(run.data, run.languages, say),
        *_worst(run.held_out.worst, run.languages, say),
        *_attention(run, say),
        heading(say(msg("The model"))),
        f'<div class="wide">{draw_model(run.outline)}</div>',
        folded(say(msg("the same as text")), outline_as_text(run.outline)),
        heading(say(msg("To make it again"))),
        preformatted(run.card),
        folded(say(msg("all settings (config.json)")), run.settings),
    ]
    return page(f"{title} · {run.name}", language, parts, scripts=True)


def _summary(run: RunFacts, say: Say) -> str:
    last = run.metrics[-1]
    loss = max(run.metrics, key=lambda row: row["chrf"])["valid_loss"]
    return tiles(
        [
            ("chrF", f"{run.held_out.chrf:.1f}"),
            ("BLEU", f"{run.held_out.bleu:.1f}"),
            (say(msg("validation loss, nats a token")), f"{loss:.3f}"),
            (say(msg("minutes")), f"{last['seconds'] / 60:.1f}"),
            (say(msg("target tokens a second")), f"{last['tokens'] / max(last['seconds'], 1e-9):,.0f}"),
            (say(msg("parameters")), f"{run.outline.parameters:,}"),
        ]
    )


def _scores(run: RunFacts, say: Say) -> list[str]:
    held_out: HeldOutFacts = run.held_out
    sentence = (
        msg("On the test part, {count} sentences that training never looked at (beam search):")
        if held_out.is_test
        else msg(
            "On the validation part, {count} sentences by which the weights were chosen (beam "
            "search); this run held no test part out:"
        )
    )
    return [
        heading(say(msg("Scores"))),
        paragraph(say(sentence.fill(f"{held_out.sentences:,}"))),
        preformatted("\n".join(held_out.lines)),
    ]


def _training(metrics: Sequence[Mapping[str, Any]], say: Say) -> list[str]:
    last = metrics[-1]
    rate = say(
        msg("{passes} passes over the data, {tokens} target tokens in {minutes} minutes.").fill(
            passes=f"{last['epoch']:.1f}", tokens=f"{last['tokens']:,}", minutes=f"{last['seconds'] / 60:.1f}"
        )
    )
    return [heading(say(msg("Training"))), paragraph(rate), training_curves(metrics, say)]


def training_curves(metrics: Sequence[Mapping[str, Any]], say: Say) -> str:
    """Return charts of losses and scores over the updates, side by side."""
    losses = Labels(
        say(msg("Loss, nats a target token")),
        say(msg("update (optimizer step)")),
        (say(msg("training")), say(msg("validation"))),
    )
    scores = Labels(say(msg("Validation scores, 0 to 100")), say(msg("update (optimizer step)")), ("chrF", "BLEU"))
    charts = [
        line_chart(labels, series)
        for labels, keys in ((losses, ("train_loss", "valid_loss")), (scores, ("chrf", "bleu")))
        if any(series := [curve_points(metrics, key) for key in keys])
    ]
    return f'<div class="side">{"".join(charts)}</div>'


def curve_points(metrics: Sequence[Mapping[str, Any]], key: str) -> Points:
    """Return the updates and the values of one column, where it has any."""
    return [(float(row["step"]), float(row[key])) for row in metrics if row.get(key) is not None]


def _data(data: DataFacts, languages: tuple[str, str], say: Say) -> list[str]:
    files = ", ".join((*data.files, *data.validation_files))
    left_out = [
        (say(msg("left out: {reason}").fill(reason=reason)), f"{count:,}") for reason, count in data.left_out.items()
    ]
    rows = [
        (say(msg("pairs read")), f"{data.read:,}"),
        *(left_out or [(say(msg("left out")), "0")]),
        (say(msg("pairs to train on")), f"{data.train_pairs:,}"),
        (say(msg("pairs to validate on")), f"{data.validation_pairs:,}"),
        (say(msg("pairs to test on")), f"{data.test_pairs:,}"),
    ]
    longest_texts = zip((say(msg("source")), say(msg("target"))), data.longest, languages, strict=True)
    longest = card(
        say(msg("The longest training pair")),
        [(label, foreign(text, language)) for label, text, language in longest_texts],
    )
    return [
        heading(say(msg("Data and its faults"))),
        paragraph(files, muted=True),
        f'<div class="side"><div>{table(rows)}</div><div>{_faults(data, say)}</div></div>',
        f'<div class="side"><div>{_lengths(data, say)}</div><div>{longest}</div></div>',
    ]


def _faults(data: DataFacts, say: Say) -> str:
    repetition = data.repetition
    rows = [
        (say(msg("training pairs that came before, exactly")), f"{repetition.same_pairs:,}"),
        (say(msg("training sources with more than one translation")), f"{repetition.other_translations:,}"),
        (say(msg("unknown tokens in training")), f"{repetition.unknown_tokens:,}"),
        (
            say(msg("of {count} held-out sources stand in training too").fill(count=f"{repetition.held_out:,}")),
            f"{repetition.held_out_seen:,}",
        ),
    ]
    examined = say(msg("Looked at: {count} training pairs.").fill(count=f"{repetition.examined:,}"))
    return heading(say(msg("What is left in it")), 3) + table(rows) + paragraph(examined, muted=True)


def _lengths(data: DataFacts, say: Say) -> str:
    both = (data.source_lengths, data.target_lengths)
    edges = length_edges(both)
    counts = [np.histogram(np.minimum(lengths, edges[-1]), edges)[0].tolist() for lengths in both]
    labels = Labels(
        say(msg("Lengths of training sentences")),
        say(msg("tokens; the last bar holds all longer ones")),
        (say(msg("source")), say(msg("target"))),
    )
    return histogram(labels, edges.tolist(), counts)


def length_edges(series: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the edges of the bars of a histogram of lengths, the last of which holds all longer ones."""
    last = int(np.ceil(max(np.percentile(lengths, _SHOWN_SHARE) for lengths in series))) + 1
    edges = np.arange(0, last + 1, max(1, -(-last // _BARS)))
    return np.append(edges, edges[-1] + edges[1])


def _worst(worst: Sequence[Judged], languages: tuple[str, str], say: Say) -> list[str]:
    return [
        heading(say(msg("Worst sentences"))),
        paragraph(
            say(
                msg(
                    "The held-out sentences with the lowest chrF. Look for names, numbers, rare words, wrong "
                    "references."
                )
            ),
            muted=True,
        ),
        *(
            card(
                f"chrF {judged.chrf:.1f}",
                [
                    (say(msg("source")), foreign(judged.source, languages[0])),
                    (say(msg("model")), foreign(judged.translation, languages[1])),
                    (say(msg("human")), foreign(judged.reference, languages[1])),
                ],
            )
            for judged in worst
        ),
    ]


def _attention(run: RunFacts, say: Say) -> list[str]:
    """The page in a frame of its own: its scripts and styles meet nothing of the report."""
    # what is inside the attribute is HTML: it must come out of it character by character, so only the two marks that
    # mean something in an attribute are replaced
    inside = run.browser.replace("&", "&amp;").replace('"', "&quot;")
    return [
        heading(say(msg("Attention"))),
        paragraph(say(msg("Five held-out sentences, from the worst translated to the best.")), muted=True),
        *([paragraph(run.note, muted=True)] if run.note else []),
        f'<iframe title="{escaped(say(msg("Attention")))}" sandbox="allow-scripts" srcdoc="{inside}"></iframe>',
    ]
