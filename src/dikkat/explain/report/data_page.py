"""Show what is wrong with parallel text, as a table for a terminal and as one HTML page with examples."""

from __future__ import annotations

from collections.abc import Iterator

from dikkat.data.faults.check import DataCheck, Example, shift_lines
from dikkat.data.faults.pair_checks import MEANINGS, NAMES, Fault
from dikkat.explain.drawing.svg import escaped
from dikkat.explain.report.html import card, foreign, heading, page, paragraph, table, tiles
from dikkat_runtime.errors import msg, plural
from dikkat_runtime.localization import language, localized, translated
from dikkat_runtime.text.casing import capitalized

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
