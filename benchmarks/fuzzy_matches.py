"""Claim: with a memory translations are better than plain ones and than the nearest segment, in each band of likeness.

python benchmarks/fuzzy_matches.py RUN MEMORY [--sentences 150] [--beam 5]

MEMORY is a table of pairs. Sentences are drawn from it whose nearest other segment, by difflib's ratio of the words, is
in a band of ten from 60 to 99 %; they are left out of the memory. A row of the table has the mean chrF against their
references of the plain translations, of the translations of the nearest segments, and of those with the memory.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import defaultdict
from difflib import SequenceMatcher
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import Measured, note, provenance
from benchmarks.noise import read_lines

from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.tasks.confidence_fitting import chrf
from dikkat_runtime.tasks.corrections import KnownTranslations, NearIndex
from dikkat_runtime.tasks.translator import Translator


def likeness(one: str, other: str) -> float:
    """Ratio of difflib of the words of two texts."""
    return SequenceMatcher(None, one.split(), other.split(), autojunk=False).ratio()


def main() -> None:
    """Translate the sentences of each band, and print what held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("memory", type=Path)
    parser.add_argument("--sentences", type=int, default=150, help="of each band")
    parser.add_argument("--beam", type=int, default=5)
    options = parser.parse_args()
    rows = [line.split("\t") for line in read_lines(options.memory)]
    pairs = list({source: (source, target) for source, target in rows}.values())
    pairs.sort(key=lambda pair: hashlib.sha1(pair[0].encode()).hexdigest())
    index = NearIndex(pairs)
    bands: dict[int, list[tuple[str, str, str]]] = defaultdict(list)
    left_out: set[str] = set()
    for source, reference in pairs:
        if len(source.split()) < 4 or source in left_out:
            continue
        others = [near for near in index.near(source) if near.source != source and near.source not in left_out]
        ratio, target = max(((likeness(source, near.source), near.target) for near in others), default=(0.0, ""))
        band = min(int(100 * ratio) // 10 * 10, 90)
        if band >= 60 and len(bands[band]) < options.sentences:
            bands[band].append((source, reference, target))
            left_out.add(source)
        if len(bands) == 4 and all(len(own) == options.sentences for own in bands.values()):
            break
    translator = Translator.load(options.run, threads=1)
    memory = KnownTranslations([pair for pair in pairs if pair[0] not in left_out])
    beam = BeamOptions(beam_size=options.beam)
    table: Measured = {}
    for band, own in sorted(bands.items()):
        sources, references, nearest = zip(*own, strict=True)
        plain, steered = (
            [one.text for one in translator.translate(sources, beam, memories=known)] for known in ((), (memory,))
        )
        ways = {"plain": plain, "nearest segment": nearest, "with the memory": steered}
        table[f"{band}-{band + 9} %"] = row = {"sentences": len(own)} | {
            way: round(sum(map(chrf, texts, references)) / len(own), 2) for way, texts in ways.items()
        }
        note(f"{band}-{band + 9} %: {row}")
    print(json.dumps({**provenance("fuzzy_matches"), "beam": options.beam, **table}))


if __name__ == "__main__":
    main()
