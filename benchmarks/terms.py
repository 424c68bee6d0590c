"""Claim: terms and placeholders come through exactly once each, lose no other word, and cost little time.

python benchmarks/terms.py RUN [GLOSSARY] [--sources FILE --references FILE] [--with-terms 2000]

Translates the test sentences of a run, which lie in its folder `held_out`, or those of two files, as they are and with
the glossary, by default some terms with common, rare and unknown translations; and every third of them with a
placeholder, an address or a measure at its end, beside the same sentences with a name there. Times are process times
of one process, one after the other; what counts is their ratio. Of sentences with terms, what counts is how many
terms are there, how much of the other words of the translation without the glossary, and chrF of the other words
against those of the references, the usual translations of the terms left out; of the others, chrF against their
references. With `--with-terms` only so many sentences with terms are taken, the first.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.noise import read_lines

from dikkat_runtime.run.config import read_config
from dikkat_runtime.tasks.confidence_fitting import chrf
from dikkat_runtime.tasks.translations import Translation, TranslationNotes
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.demanded import Demanded, measures, unmet
from dikkat_runtime.text.glossary import Glossary

GLOSSARIES = {
    "fr": {
        "man": "monsieur", "dog": "toutou", "cat": "minou", "box": "coffret", "bridge": "viaduc", "horse": "poney",
        "table": "bureau", "mother": "maman", "elephant": "mammouth",
    },
    "tr": {
        "man": "beyefendi", "dog": "it", "cat": "kedicik", "box": "sandık|sandığ", "bridge": "viyadük|viyadüğ",
        "horse": "beygir", "table": "sehpa", "mother": "ana", "elephant": "mamut",
    },
    "de": {
        "man": "Herr|Herrn", "woman": "Dame", "dog": "Köter|Köters", "boy": "Bub|Buben", "girl": "Mädel|Mädels",
        "car": "Wagen", "horse": "Gaul|Gauls", "street": "Gasse", "hat": "Kopfbedeckung", "bicycle": "Drahtesel",
    },
}  # fmt: skip
"""Terms by target language, whose translations the training text has often, seldom or not at all."""
USUAL = {
    "fr": {
        "man": "homme", "dog": "chien", "cat": "chat", "box": "boîte", "bridge": "pont", "horse": "chev",
        "table": "table", "mother": "mère", "elephant": "éléphant",
    },
    "tr": {
        "man": "adam", "dog": "köpe", "cat": "kedi", "box": "kutu", "bridge": "köprü", "horse": "at", "table": "masa",
        "mother": "anne", "elephant": "fil",
    },
    "de": {
        "man": "mann", "woman": "frau", "dog": "hund", "boy": "jung", "girl": "mädchen", "car": "auto",
        "horse": "pferd", "street": "straße", "hat": "hut", "bicycle": "fahrrad",
    },
}  # fmt: skip
"""How the usual translations of the terms begin, in small letters."""
PLACEHOLDERS = ("{name}", "%1$s", "%(n)d", "${x}", "{{v}}", "a@b.org", "https://a.org/x?y=1", "5 km")


def timed(work: Callable[[], list[Translation]]) -> tuple[list[Translation], float]:
    """What work returns, and its seconds of the processor."""
    start = time.process_time()
    found = work()
    return found, time.process_time() - start


@dataclass(frozen=True)
class Score:
    """What became of the terms and the other words of some sentences."""

    terms: int
    placed: int
    """Terms that stand in the translation as often as demanded."""
    others: int
    """Words of the translations without the glossary that do not translate a term."""
    kept: int
    chrf: float
    """Mean of the other words against those of the translations without the glossary."""


def score(demands: Sequence[Sequence[Demanded]], free: Sequence[str], kept: Sequence[str], suffixes: bool) -> Score:
    """Score the translations of sentences with terms, `free` without and `kept` with the glossary."""
    terms = placed = words = common = 0
    similar = 0.0
    for own, before, after in zip(demands, free, kept, strict=True):
        missing = unmet(after, own, suffixes=suffixes)
        terms += sum(demand.count for demand in own)
        placed += sum(demand.count for demand in own if demand not in missing)
        held = [demand for demand in own if demand not in missing and demand in unmet(before, own, suffixes=suffixes)]
        rest, other = _words(before), _without(_words(after), held)
        count = sum(demand.count for demand in held)
        blocks = SequenceMatcher(None, rest, other, autojunk=False).get_matching_blocks()
        same = {block.a + offset for block in blocks for offset in range(block.size)}
        # one word a term has given way to it
        gone = [number for number in range(len(rest)) if number not in same][:count]
        rest = [word for number, word in enumerate(rest) if number not in gone]
        words, common = words + len(rest), common + len(same)
        similar += chrf(" ".join(other), " ".join(rest))
    return Score(terms, placed, words, common, similar / max(1, len(free)))


def main() -> None:
    """Measure one run with one glossary, and print what held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("glossary", type=Path, nargs="?")
    parser.add_argument("--precision", choices=("float32", "int8"), default="float32")
    parser.add_argument("--part", choices=("test", "validation"), default="test")
    parser.add_argument("--sources", type=Path, nargs="+", help="lines to translate; else those of the run")
    parser.add_argument("--references", type=Path, nargs="+", help="their translations")
    parser.add_argument("--with-terms", type=int, help="take so many sentences with terms, and no others")
    options = parser.parse_args()
    translator = Translator.load(options.run, threads=1, precision=options.precision)
    language = str(read_config(options.run)["data"]["target_language"])
    translator.target_language = language
    if options.glossary is None and language not in GLOSSARIES:
        parser.error(f"there is no glossary for the language {language!r} here; name one")
    glossary = (
        Glossary.of({term: form.split("|") for term, form in GLOSSARIES[language].items()}, translator.language)
        if options.glossary is None
        else Glossary.read(options.glossary, translator.language)
    )
    files = [options.sources, options.references]
    if options.sources is None:
        files = [[options.run / "held_out" / f"{options.part}.{side}.txt"] for side in ("source", "target")]
    sources, references = ([line for path in paths for line in read_lines(path)] for paths in files)
    if options.with_terms:
        own = [number for number, source in enumerate(sources) if glossary.demands(source)][: options.with_terms]
        sources, references = ([lines[number] for number in own] for lines in (sources, references))
    _terms(translator, glossary, sources, references)
    if options.glossary is None:
        _against_references(translator, glossary, sources, references)
    _placeholders(translator, sources)


ELIDED = {"l": "le", "la": "le", "d": "de", "cet": "ce", "vieil": "vieux", "bel": "beau", "nouvel": "nouveau"}


def _words(text: str, language: str = "") -> list[str]:
    """The words of a text; in French in one form before vowels and consonants, since a term may have another letter."""
    words = re.findall(r"[^\W_]+", text)
    if language != "fr":
        return words
    plain = [part for word in words for part in (["de", "le"] if word.lower() == "du" else [word])]
    return [ELIDED.get(word.lower(), word.lower()) for word in plain]


def _without(words: Sequence[str], demands: Sequence[Demanded]) -> list[str]:
    """The words without one for each demand, which may have a capital and suffixes."""
    left = list(words)
    for demand in demands:
        forms = [form.lower() for form in demand.forms]
        parts = [(part,) for part in forms[0].split()] if " " in forms[0] else [tuple(forms)]
        for starts in parts * demand.count:
            if own := [word for word in left if word.lower().startswith(starts)]:
                left.remove(own[0])
    return left


def _terms(translator: Translator, glossary: Glossary, sources: Sequence[str], references: Sequence[str]) -> None:
    notes, suffixes = TranslationNotes(), translator.constraints.takes_suffixes
    translator.translate(sources[:2], glossary=glossary)
    plain, before = timed(lambda: translator.translate(sources))
    kept, after = timed(lambda: list(translator.stream(sources, glossary=glossary, notes=notes)))
    wanted = [glossary.demands(source) for source in sources]
    own, others = ([number for number, item in enumerate(wanted) if bool(item) == has] for has in (True, False))
    result = score(
        [wanted[n] for n in own], [plain[n].text for n in own], [kept[n].text for n in own], suffixes=suffixes
    )
    chosen = [sources[number] for number in own]
    _, alone = timed(lambda: translator.translate(chosen))
    _, with_terms = timed(lambda: translator.translate(chosen, glossary=glossary))
    scores = [
        sum(chrf(found[number].text, references[number]) for number in others) / max(1, len(others))
        for found in (plain, kept)
    ]
    flagged = sum(bool(translation.unplaced) for translation in kept)
    print(f"{len(sources):,} sentences, {len(own):,} with terms: {result.placed:,} of {result.terms:,} terms placed")
    print(f"lines that say which term was not placed: {flagged:,}")
    share = 100 * result.kept / max(1, result.others)
    print(f"other words of these lines: {share:.1f} % as without the glossary, chrF {result.chrf:.1f}")
    print(
        f"chrF of the {len(others):,} lines without terms: {scores[0]:.2f} without, {scores[1]:.2f} with the glossary"
    )
    print(f"time: {after / before:.2f} times that without the glossary; of lines with terms {with_terms / alone:.2f}")
    for line in notes.lines():
        print(line)


def _against_references(
    translator: Translator, glossary: Glossary, sources: Sequence[str], references: Sequence[str]
) -> None:
    """Print chrF of the words that translate no term against those of the references, without and with the glossary."""
    language = translator.target_language
    usual = USUAL[language]
    demands = [glossary.demands(source) for source in sources]
    own = [number for number, wanted in enumerate(demands) if wanted]
    chosen = [sources[number] for number in own]
    plain, kept = translator.translate(chosen), translator.translate(chosen, glossary=glossary)
    scores = [0.0, 0.0]
    for at, number in enumerate(own):
        stems = [Demanded((usual[demand.source.lower()],), demand.count) for demand in demands[number]]
        wanted = " ".join(_without(_words(references[number], language), stems))
        missing = unmet(kept[at].text, demands[number], suffixes=translator.constraints.takes_suffixes)
        left_out = [stem if demand in missing else demand for stem, demand in zip(stems, demands[number], strict=True)]
        for row, text, own_demands in ((0, plain[at].text, stems), (1, kept[at].text, left_out)):
            scores[row] += chrf(" ".join(_without(_words(text, language), own_demands)), wanted) / len(own)
    print(f"chrF of these words against the references: {scores[0]:.2f} without, {scores[1]:.2f} with the glossary")


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
