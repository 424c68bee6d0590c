"""Child of decode_speed.py: dikkat's own translator, as a program would use it."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from dikkat.kernels.environment import set_environment

# as the command does, before torch is loaded
set_environment()

import torch  # noqa: E402
from benchmarks.contenders.decoding_clock import against_the_clock  # noqa: E402

from dikkat import Translator  # noqa: E402
from dikkat.kernels.library import why_absent  # noqa: E402
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, Precision  # noqa: E402


class Dikkat:
    def __init__(self, run: str, length_penalty: float, precision: Precision) -> None:
        self.translator = Translator.load(run, precision)
        self.length_penalty = length_penalty

    def translate(self, lines: Sequence[str], beam_size: int, batch_size: int) -> list[str]:
        # like the command, and like its peers, it says how probable a translation is only where it is asked
        options = DecodingOptions(length_penalty=self.length_penalty, scores=False)
        if beam_size > 1:
            options = BeamOptions(length_penalty=self.length_penalty, beam_size=beam_size)
        found = self.translator.stream(lines, options, batch_size=batch_size)
        return [translation.text for translation in found]

    def turn_around(self, lines: Sequence[str]) -> list[str]:
        return self.translator.tokenizer.decode_batch([self.translator.encode(line) for line in lines])


def main(job: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(job["threads"])
    found = against_the_clock(Dikkat(job["run"], job["length_penalty"], job.get("precision", "float32")), job)
    return {**found, "native": why_absent() or "yes", "versions": {"torch": torch.__version__}}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
