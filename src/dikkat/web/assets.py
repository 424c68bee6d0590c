"""Read the scripts of the browser engine, which run in one scope in the order of these lists."""

from pathlib import Path

_HERE = Path(__file__).parent
ENGINE = (
    "model_file.js",
    "linear.js",
    "layers.js",
    "attention.js",
    "cell.js",
    "stack.js",
    "casing.js",
    "tokenizer.js",
    "labels.js",
    "normalizing.js",
    "symbols.js",
    "placeholders.js",
    "recasing.js",
    "sentences.js",
    "segments.js",
    "reading.js",
    "repetition.js",
    "search.js",
    "gaps.js",
    "translator.js",
    "blake2b.js",
    "word_table.js",
    "classifier.js",
    "language_model.js",
    "core.js",
)
"""Scripts of the engine."""

SERVICE = ("service.js", "translator_tasks.js", "reader_tasks.js", "worker.js")
"""Scripts after the engine that answer the questions of a page."""


def engine_script() -> str:
    """Return the source of the whole engine."""
    return "\n".join(asset(f"engine/{name}") for name in ENGINE)


def service_script() -> str:
    """Return the source of the engine with what answers the questions of a page."""
    return "\n".join([engine_script(), *(asset(f"engine/{name}") for name in SERVICE)])


def asset(name: str) -> str:
    """Return the text of a file of this folder."""
    return (_HERE / name).read_text(encoding="utf-8")


def core_bytes() -> bytes:
    """Return the compiled WebAssembly core; `python -m dikkat.web.core` makes it."""
    return (_HERE / "core" / "core.wasm").read_bytes()
