"""Child of decode_speed.py: CTranslate2 with the same weights. Its environment variables come from the parent."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ctranslate2
from benchmarks.contenders.decoding_clock import against_the_clock
from benchmarks.contenders.peer_tokenizer import PeerTokenizer


class CTranslate2:
    def __init__(self, job: dict[str, Any]) -> None:
        self.tokenizer = PeerTokenizer(job["run"])
        self.names: list[str] = json.loads((Path(job["converted"]) / "shared_vocabulary.json").read_text("utf-8"))
        self.ids = {name: place for place, name in enumerate(self.names)}
        self.length_penalty, self.patience = job["length_penalty"], job["patience"]
        self.translator = ctranslate2.Translator(
            job["converted"],
            device="cpu",
            compute_type=job["dtype"],
            inter_threads=job["workers"],
            intra_threads=job["threads_each"],
        )

    def translate(self, lines: Sequence[str], beam_size: int, batch_size: int) -> list[str]:
        tokens = [[self.names[token] for token in ids] for ids in self.tokenizer.encode(lines)]
        found = self.translator.translate_batch(
            tokens,
            max_batch_size=batch_size,
            beam_size=beam_size,
            length_penalty=self.length_penalty,
            patience=self.patience,
            max_decoding_length=2 * (max(map(len, tokens)) + 1) + 10,
        )
        return self.tokenizer.decode([self.ids[name] for name in result.hypotheses[0]] for result in found)

    def turn_around(self, lines: Sequence[str]) -> list[str]:
        return self.tokenizer.turn_around(lines)


def main(job: dict[str, Any]) -> dict[str, Any]:
    engine = CTranslate2(job)
    found = against_the_clock(engine, job)
    return {
        **found,
        "computed_in": engine.translator.compute_type,
        "versions": {"ctranslate2": ctranslate2.__version__},
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
