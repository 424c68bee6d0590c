"""Claim: with --consistent a word of a program has one translation in it, and no text is worse for it.

python benchmarks/term_consistency.py RUN FOLDER… [--documents 200] [--messages 80] [--beam 1]

FOLDERs hold compiled catalogs (.mo), such as /usr/share/locale/pt_BR/LC_MESSAGES. A document is up to 80 messages of
one catalog, chosen by a checksum, of at most 30 words, one line and no placeholder. A term is a word of three letters
or more in several messages of a document, whose references all have a word in common that few other references have;
what counts is the share of terms for which the translations have such a word, too: once by the first five letters of
words, so that their forms count as one, and once as written. Beside it stand chrF, by sacreBLEU, and processor time.
"""

from __future__ import annotations

import argparse
import gettext
import hashlib
import json
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import Measured, note, provenance
from sacrebleu.metrics.chrf import CHRF

from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.tasks.translator import Translator

WORD = re.compile(r"[^\W\d_]{3,}")
MAX_WORDS = 30
STEM = 5
Document = tuple[list[str], list[str]]
Ways = dict[str, list[str]]


def documents(folders: Sequence[Path], messages: int) -> Iterator[Document]:
    """Yield sources and references of documents, those of all catalogs in turn."""
    chunks: list[list[Document]] = []
    for path in sorted(path for folder in folders for path in folder.rglob("*.mo")):
        with path.open("rb") as file:
            try:
                catalog = gettext.GNUTranslations(file)
            except (OSError, UnicodeDecodeError):
                continue
        pairs = [
            (source.replace("_", "").replace("&", ""), target.replace("_", "").replace("&", ""))
            for source, target in catalog._catalog.items()  # type: ignore[attr-defined]
            if isinstance(source, str) and isinstance(target, str) and is_taken(source) and is_taken(target)
        ]
        pairs = sorted(dict(pairs).items(), key=lambda pair: hashlib.sha1(pair[0].encode()).hexdigest())
        parts = [pairs[start : start + messages] for start in range(0, len(pairs), messages)]
        own = [([s for s, _ in part], [t for _, t in part]) for part in parts if len(part) >= messages // 2]
        chunks += [own] if own else []
    for turn in range(max(map(len, chunks), default=0)):
        for own in chunks:
            if turn < len(own):
                yield own[turn]


def is_taken(text: str) -> bool:
    """Return whether a message is a text of one line without placeholders."""
    return bool(WORD.search(text)) and len(text.split()) <= MAX_WORDS and not re.search(r"[\n%{}<>\x04$\\]", text)


def common_word(texts: Sequence[set[str]], numbers: set[int], counts: Counter[str]) -> bool:
    """Return whether the texts of these numbers have a word in common that at most as many others have."""
    return any(counts[word] < 2 * len(numbers) for word in set.intersection(*(texts[number] for number in numbers)))


def words_of(texts: Sequence[str], letters: int | None) -> tuple[list[set[str]], Counter[str]]:
    """Return the words of each text, cut to so many letters, and in how many texts each is."""
    words = [{word[:letters] for word in WORD.findall(text.lower())} for text in texts]
    return words, Counter(word for own in words for word in own)


def alike(document: Document, ways: Ways, least: int, letters: int | None) -> Counter[str]:
    """Count the terms of at least so many messages that the references, and each way, translate alike."""
    sources, references = document
    numbers: dict[str, set[int]] = defaultdict(set)
    for number, source in enumerate(sources):
        for word in WORD.findall(source.lower()):
            numbers[word].add(number)
    theirs, found = words_of(references, letters), Counter[str]()
    terms = [own for own in numbers.values() if len(own) >= least and common_word(theirs[0], own, theirs[1])]
    found["terms"] = len(terms)
    for way, texts in ways.items():
        words = words_of(texts, letters)
        found[way] = sum(common_word(words[0], own, words[1]) for own in terms)
    return found


def main() -> None:
    """Translate the documents in both ways, and print what held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--messages", type=int, default=80)
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="the texts that changed")
    options = parser.parse_args()
    translator, beam = Translator.load(options.run, threads=1), BeamOptions(beam_size=options.beam)
    chosen = list(islice(documents(options.folders, options.messages), options.documents))
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    seconds, outputs, references = Counter[str](), defaultdict[str, list[str]](list), list[str]()
    translator.translate(chosen[0][0][:2], beam)
    for document in chosen:
        sources = document[0]
        start = time.process_time()
        plain = [one.text for one in translator.translate(sources, beam)]
        middle = time.process_time()
        unified, _ = translator.unify(sources, plain)
        end = time.process_time()
        ways = {"plain": plain, "consistent": unified}
        seconds.update({"plain": middle - start, "consistent": end - start})
        for least in (2, 3):
            for letters in (STEM, None):
                counts[f"{least}+ messages, {letters or 'all'} letters"].update(alike(document, ways, least, letters))
        references += document[1]
        for way, texts in ways.items():
            outputs[way] += texts
        if options.show:
            for source, *others in zip(sources, plain, unified, document[1], strict=True):
                if others[0] != others[1]:
                    print("\n".join([source, *(f"    {text}" for text in others)]))
    table: Measured = {"documents": len(chosen), "messages": len(references), "beam": options.beam}
    changed = sum(a != b for a, b in zip(outputs["plain"], outputs["consistent"], strict=True))
    table["changed"] = changed
    for name, own in counts.items():
        table[name] = {"terms": own["terms"]} | {
            way: round(100 * own[way] / max(1, own["terms"]), 1) for way in ("plain", "consistent")
        }
    for way in ("plain", "consistent"):
        table[f"chrF, {way}"] = round(CHRF().corpus_score(outputs[way], [references]).score, 2)
        table[f"seconds, {way}"] = round(seconds[way], 2)
    for name, value in table.items():
        note(f"{name}: {value}")
    print(json.dumps({**provenance("term_consistency"), **table}))


if __name__ == "__main__":
    main()
