"""The browser engine in Node: what a piece of JavaScript finds with it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dikkat.web.module import core_bytes, service_script

NAMES = (
    "readModelFile", "bytesOfSevenBits",
    "TranslatorModel", "ClassifierModel", "TaggerModel", "RegressorModel", "LanguageModel", "Tokenizer",
    "WordPieceTokenizer", "placedWords", "Linear", "Norm", "labelsOf",
    "wordsOf", "rolloutOf", "sharesOf", "distribution", "search", "chosenProducts", "Service", "SCALAR", "setsOf",
    "unseenIn", "quantizeRow", "gelu", "readText", "changesOf", "TASKS", "activated", "sinusoid", "applyRotary",
    "attend", "roundToBf16", "topOf", "drawn", "lengthCap", "Cache", "lowerDotted", "blake2b64", "FINE_STEPS",
    "splitSentences", "Reading", "Stack", "streamedModelFile", "falling",
)  # fmt: skip
_MAIN = """
import { readFileSync } from "node:fs";
import * as engine from "./engine.mjs";
const input = JSON.parse(readFileSync(new URL("./input.json", import.meta.url)));
const bytes = (name) => new Uint8Array(readFileSync(new URL(name, import.meta.url)));
const core = await engine.chosenProducts(bytes("./core.wasm"));
const finished = (generator) => { for (;;) { const next = generator.next(); if (next.done) return next.value; } };
const found = await (async () => { %s })();
console.log(JSON.stringify(found));
"""


def in_node(folder: Path, body: str, given: Any = None, **models: bytes) -> Any:
    """What `body` returns, which has `engine`, `core`, `input` and, as `bytes("./NAME.model")`, the models.

    The test is skipped where there is no Node.
    """
    if shutil.which("node") is None:
        pytest.skip("needs Node 20: apt-get install nodejs")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "engine.mjs").write_text(f"{service_script()}\nexport {{ {', '.join(NAMES)} }};\n", encoding="utf-8")
    (folder / "main.mjs").write_text(_MAIN % body, encoding="utf-8")
    (folder / "input.json").write_text(json.dumps(given), encoding="utf-8")
    (folder / "core.wasm").write_bytes(core_bytes())
    for name, content in models.items():
        (folder / f"{name}.model").write_bytes(content)
    # V8 compiles in its main thread: Node may wait forever at its end for threads that compile (nodejs/node#54918)
    command = ["node", "--single-threaded", str(folder / "main.mjs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)
