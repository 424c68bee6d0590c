"""Child of decode_speed.py: the weights of a run directory and the test lines, as any side can read them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from dikkat import Translator
from dikkat.nn.positions import SinusoidalPositions, sinusoids
from dikkat_runtime.text.text_files import read_lines

POSITIONS = 1024
"""Rows of the table of positions that the peers get; a test line has far fewer tokens."""


def main(job: dict[str, Any]) -> dict[str, Any]:
    translator = Translator.load(job["run"])
    sources, references = (list(read_lines(Path(job[side]))) for side in ("sources", "references"))
    pairs = [pair for pair in zip(sources, references, strict=True) if pair[0].strip()][: job["sentences"]]
    weights = {name: tensor.float().numpy() for name, tensor in translator.model.state_dict().items()}
    layout = translator.model.positions
    if isinstance(layout, SinusoidalPositions):
        weights["positions"] = sinusoids(POSITIONS, layout.model_dim, layout.layout).numpy()
    np.savez(job["weights"], **weights)
    lines = {"sources": [source for source, _ in pairs], "references": [reference for _, reference in pairs]}
    Path(job["lines"]).write_text(json.dumps(lines), encoding="utf-8")
    return {
        "sentences": len(pairs),
        "source_tokens": sum(len(translator.encode(source)) + 1 for source in lines["sources"]),
        "model": translator.config.model.model_dump(),
        "lowercase": translator.config.tokenizer.lowercase,
    }


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
