"""Write the report of a finished run as one HTML file."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dikkat.data.faults.check import DataCheck, Example, shift_lines
from dikkat.data.faults.pair_checks import MEANINGS, NAMES, Fault
from dikkat.explain.drawing.chart import Labels, Points, escaped, histogram, line_chart, small_map
from dikkat.explain.drawing.model_drawing import draw_model
from dikkat.explain.drawing.outline import outline_as_text
from dikkat.explain.report.facts import DataFacts, HeldOutFacts, ReaderFacts, RunFacts, ScoredSentence
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
    source, target = (code or "?" for code in run.languages)
    title = say("Translator {source} → {target}", source, target)
    parts = [
        f"<h1>{escaped(title)}</h1>",
        paragraph(run.name, muted=True),
        _summary(run, say),
        *_scores(run, say),
        *_training(run.metrics, say),
        *_data(run.data, run.languages, say),
        *_worst(run.held_out.worst, run.languages, say),
        *_attention(run, say),
        heading(say("The model")),
        f'<div class="wide">{draw_model(run.outline)}</div>',
        folded(say("the same as text"), outline_as_text(run.outline)),
        heading(say("To reproduce it")),
        preformatted(run.card),
        folded(say("all settings (config.json)"), run.settings),
    ]
    return page(f"{title} · {run.name}", language, parts, scripts=True)


def _summary(run: RunFacts, say: Say) -> str:
    last = run.metrics[-1]
    loss = max(run.metrics, key=lambda row: row["chrf"])["valid_loss"]
    return tiles(
        [
            ("chrF", f"{run.held_out.chrf:.1f}"),
            ("BLEU", f"{run.held_out.bleu:.1f}"),
            (say("validation loss, nats a token"), f"{loss:.3f}"),
            (say("minutes"), f"{last['seconds'] / 60:.1f}"),
            (say("target tokens a second"), f"{last['tokens'] / max(last['seconds'], 1e-9):,.0f}"),
            (say("parameters"), f"{run.outline.parameters:,}"),
        ]
    )


def _scores(run: RunFacts, say: Say) -> list[str]:
    held_out: HeldOutFacts = run.held_out
    sentence = (
        msg("On the test part, {count} sentences that training never looked at (beam search):")
        if held_out.is_test
        else msg(
            "On the validation part, {count} sentences by which the weights were chosen (beam search); this run "
            "held out no test part:"
        )
    )
    return [
        heading(say("Scores")),
        paragraph(say(sentence.fill(f"{held_out.sentences:,}"))),
        preformatted("\n".join(held_out.lines)),
    ]


def _training(metrics: Sequence[Mapping[str, Any]], say: Say) -> list[str]:
    last = metrics[-1]
    rate = say(
        msg("{passes} passes over the data, {tokens} target tokens in {minutes} minutes.").fill(
            f"{last['epoch']:.1f}", f"{last['tokens']:,}", f"{last['seconds'] / 60:.1f}"
        )
    )
    return [heading(say("Training")), paragraph(rate), training_curves(metrics, say)]


def training_curves(metrics: Sequence[Mapping[str, Any]], say: Say) -> str:
    """Return charts of losses and scores over the updates, side by side."""
    losses = Labels(
        say("Loss, nats a target token"), say("update (optimizer step)"), (say("training"), say("validation"))
    )
    scores = Labels(say("Validation scores, 0 to 100"), say("update (optimizer step)"), ("chrF", "BLEU"))
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
    left_out = [(say("left out: {reason}", reason), f"{count:,}") for reason, count in data.left_out.items()]
    rows = [
        (say("pairs read"), f"{data.read:,}"),
        *(left_out or [(say("left out"), "0")]),
        (say("pairs to train on"), f"{data.train_pairs:,}"),
        (say("pairs to validate on"), f"{data.validation_pairs:,}"),
        (say("pairs to test on"), f"{data.test_pairs:,}"),
    ]
    longest_texts = zip((say("source"), say("target")), data.longest, languages, strict=True)
    longest = card(
        say("The longest training pair"), [(label, foreign(text, language)) for label, text, language in longest_texts]
    )
    return [
        heading(say("Data and its faults")),
        paragraph(files, muted=True),
        f'<div class="side"><div>{table(rows)}</div><div>{_faults(data, say)}</div></div>',
        f'<div class="side"><div>{_lengths(data, say)}</div><div>{longest}</div></div>',
    ]


def _faults(data: DataFacts, say: Say) -> str:
    repetition = data.repetition
    rows = [
        (say("training pairs that came before, exactly"), f"{repetition.same_pairs:,}"),
        (say("training sources with more than one translation"), f"{repetition.other_translations:,}"),
        (say("unknown tokens in training"), f"{repetition.unknown_tokens:,}"),
        (
            say("of {count} held-out sources also occur in training", f"{repetition.held_out:,}"),
            f"{repetition.held_out_seen:,}",
        ),
    ]
    examined = say("Looked at: {count} training pairs.", f"{repetition.examined:,}")
    return heading(say("What is left in it"), 3) + table(rows) + paragraph(examined, muted=True)


def _lengths(data: DataFacts, say: Say) -> str:
    both = (data.source_lengths, data.target_lengths)
    edges = length_edges(both)
    counts = [np.histogram(np.minimum(lengths, edges[-1]), edges)[0].tolist() for lengths in both]
    labels = Labels(
        say("Lengths of training sentences"),
        say("tokens; the last bar holds all longer ones"),
        (say("source"), say("target")),
    )
    return histogram(labels, edges.tolist(), counts)


def length_edges(series: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the edges of the bars of a histogram of lengths, the last of which holds all longer ones."""
    last = int(np.ceil(max(np.percentile(lengths, _SHOWN_SHARE) for lengths in series))) + 1
    edges = np.arange(0, last + 1, max(1, -(-last // _BARS)))
    return np.append(edges, edges[-1] + edges[1])


def _worst(worst: Sequence[ScoredSentence], languages: tuple[str, str], say: Say) -> list[str]:
    return [
        heading(say("Worst sentences")),
        paragraph(
            say("The held-out sentences with the lowest chrF. Look for names, numbers, rare words, wrong references."),
            muted=True,
        ),
        *(
            card(
                f"chrF {judged.chrf:.1f}",
                [
                    (say("source"), foreign(judged.source, languages[0])),
                    (say("model"), foreign(judged.translation, languages[1])),
                    (say("human"), foreign(judged.reference, languages[1])),
                ],
            )
            for judged in worst
        ),
    ]


def _attention(run: RunFacts, say: Say) -> list[str]:
    """The page in a frame of its own: its scripts and styles meet nothing of the report."""
    return [
        heading(say("Attention")),
        paragraph(say("Five held-out sentences, from the worst translated to the best."), muted=True),
        *([paragraph(run.note, muted=True)] if run.note else []),
        framed(say("Attention"), run.browser),
    ]


# Write the report of a finished classifier or language model as one HTML file.


def reader_page(run: ReaderFacts, language: str) -> str:
    """Return the whole file. Raises `UsageError` for a language without messages."""
    say = spoken_in(language)
    left = heading(say("What is left in it"), 3)
    parts = [
        f"<h1>{escaped(run.title)}</h1>",
        paragraph(run.name, muted=True),
        tiles(run.summary),
        heading(say("Scores")),
        paragraph(run.scored_on),
        preformatted("\n".join(run.score_lines)),
        heading(say("Training")),
        paragraph(run.rate),
        _curves(run, say),
        heading(say("Data and its faults")),
        paragraph(", ".join(run.files), muted=True),
        f'<div class="side"><div>{table(run.data)}</div><div>{left}{table(run.faults)}</div></div>',
        # a language model may well learn from a single document
        *([_reader_lengths(run, say)] if len(run.lengths) > 1 else []),
        heading(say("Worst mistakes")),
        paragraph(run.worst_note, muted=True),
        *(card(example.title, [(label, foreign(text)) for label, text in example.lines]) for example in run.worst),
        *([] if run.worst else [paragraph(say("There is none."))]),
        heading(say("Attention")),
        paragraph(say("Where each word (down) looks (across): mean of the heads of the last layer."), muted=True),
        *([paragraph(run.note, muted=True)] if run.note else []),
        *(f"<h3>{foreign(text)}</h3><div class='wide'>{small_map(example)}</div>" for text, example in run.maps),
        heading(say("The model")),
        table(run.model),
        heading(say("To reproduce it")),
        preformatted(run.card),
        folded(say("all settings (config.json)"), run.settings),
    ]
    return page(f"{run.title} · {run.name}", language, parts)


def _curves(run: ReaderFacts, say: Say) -> str:
    charts = [
        line_chart(Labels(curve.title, say("update (optimizer step)"), curve.names), series)
        for curve in run.curves
        if any(series := [curve_points(run.metrics, key) for key in curve.keys])
    ]
    return f'<div class="side">{"".join(charts)}</div>'


def _reader_lengths(run: ReaderFacts, say: Say) -> str:
    edges = length_edges([run.lengths])
    counts = np.histogram(np.minimum(run.lengths, edges[-1]), edges)[0].tolist()
    title, axis = say("Lengths of what is trained on"), say("tokens; the last bar holds all longer ones")
    return histogram(Labels(title, axis, (say("training"),)), edges.tolist(), [counts])


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
        shown = next((f"{_line(one)}: {_short(one.source)} → {_short(one.target)}" for one in examples), "")
        yield f"{count:>9,}  {count / check.pairs:>6.1%}  {localized(NAMES[fault]):<36}  {shown}"
    yield from map(localized, (*shift_lines(check), *check.notes))


def _line(example: Example) -> str:
    return translated("line {first}", example.line)


def _short(text: str) -> str:
    shown = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text[:_SHOWN])
    return f"“{shown}”" if len(text) <= _SHOWN else f"“{shown}…”"


def data_page(name: str, check: DataCheck) -> str:
    """The whole file."""
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
