"""Claim: terms and placeholders come through exactly once each, and cost little time.

python benchmarks/terms.py RUN GLOSSARY

Translates the test and validation sentences of a run, which lie in its folder `held_out`, as they are and with the
glossary; and every third of them with a placeholder, an address or a measure at its end, beside the same sentences with
a name there. Times are process times of one process, one after the other; what counts is their ratio. chrF is that of
sentences without terms against their references.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dikkat_runtime.tasks.translation_notes import TranslationNotes
from dikkat_runtime.tasks.translations import Translation
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.character_scores import chrf
from dikkat_runtime.text.demanded import unmet
from dikkat_runtime.text.glossary import Glossary
from dikkat_runtime.text.measures import measures

PLACEHOLDERS = ("{name}", "%1$s", "%(n)d", "${x}", "{{v}}", "a@b.org", "https://a.org/x?y=1", "5 km")


def timed(work: Callable[[], list[Translation]]) -> tuple[list[Translation], float]:
    """What work returns, and its seconds of the processor."""
    start = time.process_time()
    found = work()
    return found, time.process_time() - start


def main() -> None:
    """Measure one run with one glossary, and print what held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("glossary", type=Path)
    parser.add_argument("--precision", choices=("float32", "int8"), default="float32")
    options = parser.parse_args()
    translator = Translator.load(options.run, threads=1, precision=options.precision)
    glossary = Glossary.read(options.glossary, translator.language)
    sources, references = (_lines(options.run, side) for side in ("source", "target"))
    _terms(translator, glossary, sources, references)
    _placeholders(translator, sources)


def _lines(run: Path, side: str) -> list[str]:
    parts = (run / "held_out" / f"{part}.{side}.txt" for part in ("test", "validation"))
    return [line for path in parts for line in path.read_text(encoding="utf-8").split("\n")[:-1]]


def _terms(translator: Translator, glossary: Glossary, sources: Sequence[str], references: Sequence[str]) -> None:
    notes, suffixes = TranslationNotes(), translator.constraints.takes_suffixes
    plain, before = timed(lambda: translator.translate(sources))
    kept, after = timed(lambda: list(translator.stream(sources, glossary=glossary, notes=notes)))
    wanted = [glossary.demands(source) for source in sources]
    with_terms = [number for number, each in enumerate(wanted) if each]
    held = [number for number in with_terms if not unmet(kept[number].text, wanted[number], suffixes=suffixes)]
    free = [number for number, each in enumerate(wanted) if not each]
    scores = [
        sum(chrf(found[number].text, references[number]) for number in free) / max(1, len(free))
        for found in (plain, kept)
    ]
    print(f"{len(sources):,} sentences, {len(with_terms):,} with terms: exactly as demanded in {len(held):,}")
    print(f"chrF of the {len(free):,} others: {scores[0]:.2f} without, {scores[1]:.2f} with the glossary")
    print(f"time: {after / before:.2f} times that without the glossary")
    for line in notes.lines():
        print(line)


def _placeholders(translator: Translator, sources: Sequence[str]) -> None:
    chosen = [source.rstrip(" .!?") for source in sources[::3]]
    named = [f"{source} Anna." for source in chosen]
    marked = [f"{source} {PLACEHOLDERS[number % len(PLACEHOLDERS)]}." for number, source in enumerate(chosen)]
    translator.translate(marked[:1])
    _, before = timed(lambda: translator.translate(named))
    found, after = timed(lambda: translator.translate(marked))
    held = 0
    for number, translation in enumerate(found):
        placeholder = PLACEHOLDERS[number % len(PLACEHOLDERS)]
        if demands := measures(marked[number]):
            held += not unmet(translation.text, demands, suffixes=False)
        else:
            held += translation.text.count(placeholder) == 1
    print(f"{len(marked):,} sentences with a placeholder: exactly once in {held:,}")
    print(f"time: {after / before:.2f} times that with a name in its place")


if __name__ == "__main__":
    main()
