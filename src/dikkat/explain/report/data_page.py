"""Show what is wrong with parallel text, as a table for a terminal and as one HTML page with examples."""

from __future__ import annotations

from collections.abc import Iterator

from dikkat.data.faults.check import DataCheck, shift_lines
from dikkat.data.faults.kinds import MEANINGS, NAMES, Fault
from dikkat.explain.drawing.svg import escaped
from dikkat.explain.report.html import card, foreign, heading, page, paragraph, table, tiles
from dikkat_runtime.errors import plural

_SHOWN = 60


def data_report(check: DataCheck) -> Iterator[str]:
    """A line for each kind of fault, the commonest first, with its share and the first example."""
    counts = check.counts
    faulty = sum(counts.values())
    languages = " to ".join(code or "?" for code in check.languages)
    yield f"{check.pairs:,} pairs, {languages}: {check.pairs - faulty:,} sound, {faulty:,} with a fault"
    for fault, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        examples = check.examples.get(fault, ())
        shown = next((f"line {one.line}: {_short(one.source)} → {_short(one.target)}" for one in examples), "")
        yield f"{count:>9,}  {count / check.pairs:>6.1%}  {NAMES[fault]:<36}  {shown}"
    yield from shift_lines(check)
    yield from check.notes


def _short(text: str) -> str:
    shown = "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text[:_SHOWN])
    return f"“{shown}”" if len(text) <= _SHOWN else f"“{shown}…”"


def data_page(name: str, check: DataCheck) -> str:
    """The whole file."""
    counts = check.counts
    faulty = sum(counts.values())
    ranked = sorted(counts, key=lambda fault: (-counts[fault], fault))
    parts = [
        f"<h1>{escaped('Data check')}</h1>",
        paragraph(name, muted=True),
        tiles(
            [
                ("pairs", f"{check.pairs:,}"),
                ("sound", f"{check.pairs - faulty:,}"),
                ("with a fault", f"{faulty:,}"),
                ("languages", " → ".join(code or "?" for code in check.languages)),
            ]
        ),
        heading("Faults"),
        table([(NAMES[fault], f"{counts[fault]:,} ({counts[fault] / check.pairs:.1%})") for fault in ranked]),
        *([] if faulty else [paragraph("No fault was found.")]),
        *(paragraph(line) for line in (*shift_lines(check), *check.notes)),
    ]
    for fault in ranked:
        parts += _examples(fault, check)
    return page(f"Data check · {name}", "en", parts)


def _examples(fault: Fault, check: DataCheck) -> Iterator[str]:
    shown = check.examples.get(fault, [])
    yield heading(NAMES[fault].capitalize())
    count = check.counts[fault]
    some = f", of which {len(shown)} are shown" if len(shown) < count else ""
    yield paragraph(f"{MEANINGS[fault]}. {plural(count, 'pair')}{some}.", muted=True)
    source, target = check.languages
    for example in shown:
        lines = [("source", foreign(example.source, source)), ("target", foreign(example.target, target))]
        yield card(f"line {example.line}", lines)
