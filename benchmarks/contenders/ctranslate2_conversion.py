"""Child of decode_speed.py: a run directory as a model of CTranslate2, as `dikkat export` writes it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from dikkat.interop.ctranslate2.agreement import exported_files
from dikkat.interop.ctranslate2.writing import opened


def main(job: dict[str, Any]) -> dict[str, Any]:
    folder = Path(job["converted"])
    folder.mkdir()
    for name, content in exported_files(opened(Path(job["run"])), "float32", with_tokenizers=False).items():
        (folder / name).write_bytes(content)
    return {}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
