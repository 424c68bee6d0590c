"""Claim: several models that write with the mean of their probabilities take no longer than each of them in turn.

python benchmarks/members_speed.py RUN FILE [--members 4] [--precision int8] [--rounds 3]

Translates the first lines of FILE, ids to ids, with the model of a run and with so many copies of it, which cost what
as many models of its size do. Both in turn, greedily and with a beam; seconds by the clock and of the processor.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import Measured, note, parser, provenance, require_files
from benchmarks.noise import read_lines

from dikkat_runtime.engine.ensemble import EnsembleEngine
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions
from dikkat_runtime.tasks.batches import search_all
from dikkat_runtime.tasks.translator import Translator


def main() -> None:
    known = parser(__doc__)
    known.add_argument("run", type=Path, help="run directory of a translator")
    known.add_argument("file", type=Path, help="lines to translate")
    known.add_argument("--sentences", type=int, default=1000, help="the first lines of the file")
    known.add_argument("--members", type=int, default=4, help="models that write together")
    known.add_argument("--precision", choices=("int8", "float32"), default="int8")
    known.add_argument("--beam", type=int, default=5)
    known.add_argument("--rounds", type=int, default=3)
    asked = known.parse_args()
    require_files([asked.run / "config.json", asked.file], "name a run and a file")
    translator = Translator.load(asked.run, precision=asked.precision)
    sources = translator.tokenizer.encode_batch(read_lines(asked.file)[: asked.sentences])
    one = translator.engine.members[0] if isinstance(translator.engine, EnsembleEngine) else translator.engine
    engines = {"one": one, "members": EnsembleEngine([one] * asked.members)}
    searches: dict[str, DecodingOptions] = {
        "greedy": DecodingOptions(),
        f"beam {asked.beam}": BeamOptions(beam_size=asked.beam),
    }
    found: dict[str, Measured] = {}
    for name, options in searches.items():
        times: dict[str, list[tuple[float, float]]] = {side: [] for side in engines}
        # the first round warms
        for number in range(asked.rounds + 1):
            for side, engine in engines.items():
                clock, processor = time.perf_counter(), time.process_time()
                search_all(engine, sources, options)
                if number:
                    times[side].append((time.perf_counter() - clock, time.process_time() - processor))
        found[name] = {
            side: {
                "sentences_per_second": [round(len(sources) / seconds, 1) for seconds, _ in values],
                "processor_seconds": [round(seconds, 3) for _, seconds in values],
            }
            for side, values in times.items()
        }
        note(f"{name}, one model and {asked.members}: {found[name]}")
    claim = f"{asked.members} models of {asked.run}, {asked.precision}"
    print(json.dumps({**provenance(claim), "sentences": len(sources), "searches": found}))


if __name__ == "__main__":
    main()
