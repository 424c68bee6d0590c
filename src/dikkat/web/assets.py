"""The scripts of the browser engine, in the order in which they run in one scope."""

from __future__ import annotations

from pathlib import Path

_HERE = Path(__file__).parent
ENGINE = (
    "model_file.js",
    "linear.js",
    "layers.js",
    "attention.js",
    "stack.js",
    "tokenizer.js",
    "labels.js",
    "search.js",
    "translator.js",
    "core.js",
    "service.js",
)


def engine_script() -> str:
    """Return the source of the whole engine."""
    return "\n".join(asset(f"engine/{name}") for name in ENGINE)


def asset(name: str) -> str:
    """Return the text of a file of this folder."""
    return (_HERE / name).read_text(encoding="utf-8")


def core_bytes() -> bytes:
    """Return the compiled WebAssembly core; `python -m dikkat.web.core` makes it."""
    return (_HERE / "core" / "core.wasm").read_bytes()
