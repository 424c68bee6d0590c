"""Read the attention maps of `dikkat attend --out FILE.json` or `FILE.npz` with numpy alone.

    python examples/read_maps.py FILE

prints, for every token of the output, the source token that cross-attention looks at most, by the mean of the heads of
the last layer. docs/look-inside.md describes the format.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np


def read_maps(path: Path) -> list[dict[str, Any]]:
    """Return the sentences of the file; the "weights" of each map are an array (T, S) in float32."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            sentences: list[dict[str, Any]] = json.loads(str(arrays["document"]))["sentences"]
            for entry in (entry for sentence in sentences for entry in sentence["maps"]):
                entry["weights"] = arrays[entry["weights"]]
        return sentences
    sentences = json.loads(path.read_text(encoding="utf-8"))["sentences"]
    for entry in (entry for sentence in sentences for entry in sentence["maps"]):
        entry["weights"] = np.array(entry["weights"], np.float32)
    return sentences


def main(path: Path) -> None:
    for sentence in read_maps(path):
        print(f"{sentence['source']} -> {sentence['output']}")
        cross = [entry for entry in sentence["maps"] if entry["kind"] == "cross"]
        if not cross:
            continue
        last = max(entry["layer"] for entry in cross)
        mean = np.mean([entry["weights"] for entry in cross if entry["layer"] == last], axis=0)
        # row t was fed token t, and wrote token t + 1
        for token, row in zip(sentence["output_tokens"][1:], mean, strict=False):
            print(f"  {token:16} {sentence['source_tokens'][row.argmax()]:16} {row.max():.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
