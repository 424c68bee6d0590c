"""Write a model as a module for JavaScript: the engine, its types, and the model file, without any dependency."""

import base64
import gzip
import json
from contextlib import suppress
from pathlib import Path

from dikkat.web.model_file import WebModel
from dikkat_runtime.errors import CannotCreateError
from dikkat_runtime.files import make_folder, write_atomically, write_errors

_HERE = Path(__file__).parent
ENGINE = (
    "model_file.js", "linear.js", "layers.js", "attention.js", "distances.js", "cell.js", "stack.js", "casing.js",
    "tokenizer.js", "word_pieces.js", "labels.js", "normalizing.js", "symbols.js", "placeholders.js", "recasing.js",
    "sentences.js", "segments.js", "reading.js", "repetition.js", "search.js", "gaps.js", "translator.js",
    "blake2b.js", "word_table.js", "classifier.js", "tagger.js", "language_model.js", "core.js",
)  # fmt: skip
"""Scripts of the engine."""

SERVICE = ("service.js", "translator_tasks.js", "reader_tasks.js", "worker.js")
"""Scripts after the engine that answer the questions of a page."""


def engine_script() -> str:
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


MODEL_NAME = "model.dikkat"
_CALLS = {
    "translator": ("Translator", 'model.translate("…").text'),
    "classifier": ("Classifier", 'model.classify("…").label'),
    "tagger": ("Tagger", 'model.tag("…")'),
    "regressor": ("Regressor", 'model.predict("…")'),
    "lm": ("Generator", 'model.generate("…")'),
}
"""The class of each kind of model, and how it is called."""


def module_script() -> str:
    """Return the source of `dikkat.js`, which holds the engine and its WebAssembly core."""
    core = base64.b64encode(core_bytes()).decode("ascii")
    return "\n".join([engine_script(), f'const CORE = "{core}";\n', asset("module/api.js")])


def write_module(model: WebModel, folder: Path) -> None:
    """Write dikkat.js, dikkat.d.ts, package.json, a readme and the model file into a new or empty `folder`.

    Stopped by an error or a signal, it leaves nothing after. Raises `CannotCreateError` for a folder that holds
    anything, and `DiskError` where it cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise CannotCreateError("{folder}: is not an empty folder; give another --out", folder)
    named = {"name": folder.resolve().name.lower(), "description": f"A {model.task} made by dikkat"}
    package = json.loads(asset("module/package.json")) | named
    files = {
        "dikkat.js": module_script().encode(),
        "dikkat.d.ts": asset("module/dikkat.d.ts").encode(),
        "package.json": (json.dumps(package, indent=2) + "\n").encode(),
        "README.md": _readme(model).encode(),
        MODEL_NAME: gzip.compress(model.encode(), 9, mtime=0),
    }
    is_new = not folder.exists()
    try:
        with write_errors(folder):
            make_folder(folder)
        for name, content in files.items():
            write_atomically(folder / name, content)
    except BaseException:
        with suppress(OSError):
            for name in files:
                (folder / name).unlink(missing_ok=True)
            if is_new:
                folder.rmdir()
        raise


def _readme(model: WebModel) -> str:
    kind, call = _CALLS[model.task]
    text = asset("module/readme.md").replace("{{TASK}}", model.task).replace("{{KIND}}", kind).replace("{{CALL}}", call)
    return text.replace("{{NAME}}", model.name)
