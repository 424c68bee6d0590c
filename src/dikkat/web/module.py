"""Write a model as a module for JavaScript: the engine, its types, and the model file, without any dependency."""

import base64
import gzip
import json
from contextlib import suppress
from pathlib import Path

from dikkat.web.assets import asset, core_bytes, engine_script
from dikkat.web.model_file import WebModel
from dikkat_runtime.errors import CannotCreateError
from dikkat_runtime.files import make_folder, write_atomically, write_errors

MODEL_NAME = "model.dikkat"
_CLASSES = {"translator": "Translator", "classifier": "Classifier", "lm": "Generator"}
_CALLS = {
    "translator": 'model.translate("…").text',
    "classifier": 'model.classify("…").label',
    "lm": 'model.generate("…")',
}


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
    package = {
        "name": folder.resolve().name.lower(),
        "version": "1.0.0",
        "description": f"A {model.task} made by dikkat",
        "type": "module",
        "main": "dikkat.js",
        "types": "dikkat.d.ts",
        "files": ["dikkat.js", "dikkat.d.ts", MODEL_NAME],
        "private": True,
    }
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
    kind = _CLASSES[model.task]
    return f"""# {model.name}

A {model.task} made by dikkat, for browsers and Node 20; no dependency, no build step.

```js
import {{ {kind} }} from "./dikkat.js";

const model = await {kind}.load(new URL("./{MODEL_NAME}", import.meta.url));
console.log({_CALLS[model.task]});
```
"""
