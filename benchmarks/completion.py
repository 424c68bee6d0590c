"""Claim: a translation that somebody types is completed within ten milliseconds a key, and typing is spared.

python benchmarks/completion.py RUN [--sentences 200]

For test sentences of a run somebody types the reference, key by key, and takes the suggestion as soon as its next word
is what he wants to type. Times are process times of `Completion.suggest`; spared are the keys that suggestions type.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from dikkat_runtime.engine.options import BeamOptions
from dikkat_runtime.tasks.translator import Translator


def main() -> None:
    """Measure one run and print percentiles."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--beam", type=int, default=BeamOptions().beam_size)
    parser.add_argument("--precision", choices=("float32", "int8"), default="float32")
    options = parser.parse_args()
    translator = Translator.load(options.run, threads=1, precision=options.precision)
    sources, references = (
        (options.run / "held_out" / f"test.{side}.txt").read_text(encoding="utf-8").split("\n")[: options.sentences]
        for side in ("source", "target")
    )
    seconds, typed, keys = list[float](), 0, 0
    for source, reference in zip(sources, references, strict=True):
        session = translator.complete(source, BeamOptions(beam_size=options.beam))
        position = 0
        while position < len(reference):
            start = time.process_time()
            suggestion = session.suggest(reference[:position]).text
            seconds.append(time.process_time() - start)
            assert suggestion.startswith(reference[:position])
            # the suggested word is taken by one key
            end = suggestion.find(" ", position + 1)
            word = suggestion[: end if end > 0 else len(suggestion)]
            position = len(word) if reference.startswith(word) and len(word) > position else position + 1
            typed += 1
        keys += len(reference)
    p50, p90, p99 = np.percentile(np.array(seconds) * 1000, (50, 90, 99))
    print(f"{len(seconds):,} keys: p50 {p50:.1f} ms, p90 {p90:.1f} ms, p99 {p99:.1f} ms")
    print(f"{typed:,} of {keys:,} keys were typed: {100 * (1 - typed / keys):.0f} % spared")


if __name__ == "__main__":
    main()
