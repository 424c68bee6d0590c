"""Small folders of CTranslate2, as dikkat writes them and as others do."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.unit.interop.translators import phrases, sentencepiece_model

from dikkat.config import RunConfig
from dikkat.interop.ctranslate2.agreement import exported_files
from dikkat.interop.ctranslate2.model_file import ModelFile, model_file_bytes, read_model_file
from dikkat.interop.importing import read_foreign
from dikkat.interop.trained_translator import TrainedTranslator
from dikkat.models.factory import build_model
from dikkat.run_directory import RunDirectory
from dikkat_runtime.errors import DikkatError
from dikkat_runtime.text.tokenizer import Tokenizer

SIZES = {"model_dim": 8, "num_heads": 2, "feed_forward_dim": 12, "encoder_layers": 1, "decoder_layers": 1}


def small_run(folder: Path, **model: Any) -> Path:
    """A run with initial weights and a vocabulary of some hundred entries."""
    config = RunConfig.model_validate({"model": SIZES | model, "tokenizer": {"vocab_size": 310}})
    tokenizer = Tokenizer.train(phrases(100)[0], config.tokenizer)
    settings = config.model.model_copy(update={"vocab_size": tokenizer.vocab_size})
    run = RunDirectory.create(folder)
    with run.alone():
        tokenizer.save(run.path / "tokenizer.json")
        dumped = config.model_dump(include={"tokenizer", "data", "decoding"})
        run.write_config({**dumped, "model": settings.model_dump(), "task": "translator"})
        run.save_weights(dict(build_model(settings, 3).named_parameters()), {})
    return run.path


def written(folder: Path, files: Mapping[str, bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def foreign_files(run: Path) -> dict[str, bytes]:
    """The same model without our checksums, with pieces as other programs have them."""
    translator = TrainedTranslator.open(run)
    files = exported_files(translator, "int8", with_tokenizers=False)
    config = {name: value for name, value in json.loads(files["config.json"]).items() if name != "dikkat"}
    marks = {"bos": "<s>", "decoder_start": "<s>", "eos": "</s>", "unk": "<unk>"}
    config |= {f"{name}_token": entry for name, entry in marks.items()}
    entries = json.loads(files["shared_vocabulary.json"])
    entries[:4] = ["<blank>", "<s>", "</s>", "<unk>"]
    pieces = sentencepiece_model(phrases(100)[0], 80)
    return {
        "model.bin": files["model.bin"],
        "config.json": json.dumps(config).encode(),
        "shared_vocabulary.txt": "\n".join(entry.replace("\n", "\\n") for entry in entries).encode() + b"\n",
        "sentencepiece.model": pieces,
    }


def refusal(path: Path) -> str:
    """The one line that refuses a path, which it names."""
    with pytest.raises(DikkatError) as caught:
        read_foreign(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert message.isprintable()
    return message.removeprefix(str(path)).removeprefix("/")


def complaint(path: Path) -> str:
    """What is wrong with a path, in one line; nothing where a whole model is read."""
    try:
        read_foreign(path)
    except DikkatError as error:
        return str(error)
    return ""


def damaged(content: bytes, kind: str, generator: random.Random) -> bytes:
    """The content cut anywhere, or with one bit turned."""
    place = generator.randrange(len(content) - 1)
    if kind == "cut":
        return content[:place]
    return content[:place] + bytes([content[place] ^ 1 << generator.randrange(8)]) + content[place + 1 :]


Change = Callable[[dict[str, Any]], object]


def changed(foreign: Mapping[str, bytes], change: Change, folder: Path, *, config: bool = False) -> Path:
    """Write the folder with other settings, or with another model."""
    written(folder, foreign)
    if config:
        settings = json.loads(foreign["config.json"])
        change(settings)
        (folder / "config.json").write_text(json.dumps(settings))
    else:
        model = read_model_file(folder / "model.bin")
        variables = dict(model.variables)
        change(variables)
        (folder / "model.bin").write_bytes(model_file_bytes(ModelFile(variables, model.aliases)))
    return folder
