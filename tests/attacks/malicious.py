"""Runs that a stranger made to do harm: each kind of malice is a function that changes a good run.

Checksums are made right again afterwards, as the stranger would: what protects is what is checked beside them.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from dikkat.run_directory.directory import append_metrics, write_manifest
from dikkat.run_directory.tensor_files import encode_tensors, read_tensors
from dikkat_runtime.run.parts import ENDED, PREPARED

VALUES: tuple[Any, ...] = (
    10**4, 10**9, 10**30, -1, 0, 2**31, 2**63, 1e300, "x", "", [], {}, None, True, 0.5, "9" * 500, [[]] * 50,
)  # fmt: skip
NESTED = "[" * 100_000 + "]" * 100_000
Malice = Callable[[Path, random.Random], str]
"""Changes a run and says how."""


def reseal(run: Path) -> None:
    """Make the manifest of the run and of its checkpoints right for what is there."""
    try:
        write_manifest(run, (*PREPARED, *ENDED), {})
    except Exception:
        (run / "manifest.json").unlink(missing_ok=True)
    for folder in run.glob("checkpoints/step-*"):
        path = folder / "manifest.json"
        if folder.is_symlink() or not path.is_file():
            continue
        try:
            manifest = json.loads(path.read_text())
            names = list(manifest["sha256"])
        except (ValueError, RecursionError, TypeError, KeyError):
            continue
        for name in names:
            if (folder / name).is_file():
                content = (folder / name).read_bytes()
                manifest["sha256"][name], manifest["bytes"][name] = hashlib.sha256(content).hexdigest(), len(content)
        path.write_text(json.dumps(manifest))


def a_setting(run: Path, rng: random.Random) -> str:
    """Any number or name of config.json becomes something else."""
    path = run / "config.json"
    config = json.loads(path.read_text())
    sections = ["model"] * 4 + [name for name, value in config.items() if isinstance(value, dict)]
    section = rng.choice(sections)
    key = rng.choice(sorted(config[section]))
    value = rng.choice(VALUES)
    config[section][key] = value
    path.write_text(json.dumps(config))
    reseal(run)
    return f"{section}.{key} = {str(value)[:20]}"


def a_section(run: Path, rng: random.Random) -> str:
    path = run / "config.json"
    config = json.loads(path.read_text())
    key = rng.choice(sorted(config))
    value = rng.choice((*VALUES, {"x": 1}, ["a", "a"], [1, 2], ["a"] * 3))
    config[key] = value
    path.write_text(json.dumps(config))
    reseal(run)
    return f"{key} = {str(value)[:20]}"


def a_json_file(run: Path, rng: random.Random) -> str:
    """A file of JSON becomes JSON that a parser chokes on."""
    names = ["config.json", "tokenizer.json", "manifest.json", "metrics.jsonl"]
    names += [str(path.relative_to(run)) for path in run.glob("checkpoints/*/*.json")]
    name = rng.choice(names)
    path = run / name
    text = path.read_text()
    contents = {
        "nested": NESTED,
        "nested object": '{"a":' * 50_000 + "1" + "}" * 50_000,
        "key twice": text.replace("{", '{"step": 1, "step": 2, ', 1),
        "surrogate": text.replace("{", '{"x": "\\ud800", ', 1),
        "digits": text.replace("{", '{"x": ' + "9" * 100_000 + ", ", 1),
        "infinite": text.replace("{", '{"x": 1e999, ', 1),
        "NaN": text.replace("{", '{"x": NaN, ', 1),
        "a list": "[]",
        "a number": "3",
        "null": "null",
        "not UTF-8": None,
        "many": "[" + "0," * 3_000_000 + "0]",
        "NUL": "\0" * 5000,
    }
    how = rng.choice(sorted(contents))
    content = contents[how]
    path.write_bytes(b"\xff\xfe{" if content is None else content.encode("utf-8", "surrogatepass"))
    if name != "manifest.json":
        reseal(run)
    return f"{name}: {how}"


def a_tokenizer(run: Path, rng: random.Random) -> str:
    path = run / "tokenizer.json"
    content = json.loads(path.read_text())
    model, added = content["model"], content["added_tokens"]
    vocabulary = model["vocab"]
    last = max(vocabulary, key=vocabulary.get)
    double = {"type": "Replace", "pattern": {"Regex": "."}, "content": "aaaaaaaaaa"}
    bomb = {"type": "Split", "pattern": {"Regex": "(a+)+b|(x|x)*y"}, "behavior": "Isolated", "invert": False}
    changes: dict[str, Callable[[], Any]] = {
        "replace chain": lambda: content.update(normalizer={"type": "Sequence", "normalizers": [double] * 10}),
        "replace by much": lambda: content.update(normalizer={**double, "content": "a" * 2_000_000}),
        "map": lambda: content.update(normalizer={"type": "Precompiled", "precompiled_charsmap": "AAAA/////w=="}),
        "prepend": lambda: content.update(normalizer={"type": "Prepend", "prepend": "a" * 1_000_000}),
        "regex bomb": lambda: content.update(pre_tokenizer=bomb),
        "bad regex": lambda: content.update(pre_tokenizer={**bomb, "pattern": {"Regex": "(((("}}),
        "id near 2**32": lambda: vocabulary.update({last: 2**32 - 1}),
        "id of 10**9": lambda: vocabulary.update({last: 10**9}),
        "id twice": lambda: vocabulary.update({last: 5}),
        "id below 0": lambda: vocabulary.update({last: -1}),
        "a hole": lambda: vocabulary.pop(sorted(vocabulary, key=vocabulary.get)[10]),
        "one entry less": lambda: vocabulary.pop(last),
        "no entries": lambda: model.update(vocab={}),
        "entries in a list": lambda: model.update(vocab=[["a", 0.0]]),
        "merges of nothing": lambda: model.update(merges=[["q", "zzzz"]] * 10),
        "merges that are none": lambda: model.update(merges=[1, 2]),
        "dropout": lambda: model.update(dropout=0.5),
        "unknown model": lambda: model.update(type="Magic"),
        "other model": lambda: model.update(type="WordPiece"),
        "unknown token": lambda: model.update(unk_token="nowhere"),
        "added id": lambda: added[0].update(id=2**32 - 1),
        "added many": lambda: added.extend({**added[0], "content": f"t{i}", "id": 400 + i} for i in range(50_000)),
        "added name": lambda: added[1].update(content=""),
        "decoder": lambda: content.update(decoder={"type": "Strip", "content": "a", "start": 2**40, "stop": 0}),
        "processor": lambda: content.update(
            post_processor={"type": "TemplateProcessing", "single": [], "pair": [], "special_tokens": {"a": {}}}
        ),
        "padding": lambda: content.update(padding={"strategy": {"Fixed": 2**40}, "pad_id": 2**33}),
        "no normalizer": lambda: content.update(normalizer={}),
        "sequence of sequences": lambda: content.update(normalizer=_chain(60)),
        "other": lambda: content.update(surprise=1),
        "long entry": lambda: vocabulary.update({"a" * 5_000_000: vocabulary.pop(last)}),
        "no bytes": lambda: vocabulary.update({"日本": vocabulary.pop(last)}),
    }
    how = rng.choice(sorted(changes))
    changes[how]()
    path.write_text(json.dumps(content, ensure_ascii=rng.random() < 0.5))
    reseal(run)
    return how


def _chain(depth: int) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "NFKC"}
    for _ in range(depth):
        part = {"type": "Sequence", "normalizers": [part, part][: 1 + depth % 2]}
    return part


def some_weights(run: Path, rng: random.Random) -> str:
    """Weights of other values, types, shapes and names, with a right checksum."""
    paths = [run / "model.safetensors", *run.glob("checkpoints/*/*.safetensors")]
    path = rng.choice(paths)
    tensors = read_tensors(path)
    name = rng.choice(sorted(tensors))
    tensor = tensors[name]
    changes: dict[str, Callable[[], Any]] = {
        "nan": lambda: tensor.view(-1).__setitem__(0, float("nan")),
        "inf": lambda: tensor.fill_(float("inf")),
        "huge": lambda: tensor.fill_(3e38),
        "integers": lambda: tensors.update({name: tensor.to(torch.int64)}),
        "bytes": lambda: tensors.update({name: tensor.to(torch.uint8)}),
        "double": lambda: tensors.update({name: tensor.double()}),
        "one number": lambda: tensors.update({name: torch.ones(1)}),
        "none": lambda: tensors.update({name: torch.ones(0)}),
        "more": lambda: tensors.update({"surprise": torch.ones(3)}),
        "fewer": lambda: tensors.pop(name),
        "a dimension": lambda: tensors.update({name: tensor[None]}),
        "many": lambda: tensors.update({f"t{i}": torch.ones(1) for i in range(5000)}),
    }
    how = rng.choice(sorted(changes))
    changes[how]()
    path.write_bytes(encode_tensors(tensors, {"step": "4"}))
    reseal(run)
    return f"{path.relative_to(run)} {name}: {how}"


def a_header(run: Path, rng: random.Random) -> str:
    """The header of a file of weights lies."""
    path = run / "model.safetensors"
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header, body = json.loads(content[8 : 8 + length]), content[8 + length :]
    notes = json.loads(header["__metadata__"]["dikkat"])
    name = sorted(set(header) - {"__metadata__"})[0]
    changes: dict[str, Callable[[], Any]] = {
        "alias to nowhere": lambda: notes["aliases"].update(x="nowhere"),
        "alias to itself": lambda: notes["aliases"].update({name: name}),
        "aliases are a list": lambda: notes.update(aliases=[1]),
        "shape of 2**40": lambda: header[name].update(shape=[2**40, 2**40]),
        "shape below 0": lambda: header[name].update(shape=[-1, 4]),
        "offsets far away": lambda: header[name].update(data_offsets=[0, 2**50]),
        "offsets crossed": lambda: header[name].update(data_offsets=[100, 0]),
        "unknown type": lambda: header[name].update(dtype="C128"),
        "no notes": lambda: header.pop("__metadata__"),
        "notes nested": lambda: header["__metadata__"].update(dikkat=NESTED),
        "name of a method": lambda: header.update({"__class__": header.pop(name)}),
    }
    how = rng.choice([*sorted(changes), "length of 2**60", "length of 0", "nested", "empty body", "sparse"])
    if how in changes:
        changes[how]()
    if "__metadata__" in header and how != "notes nested":
        header["__metadata__"]["dikkat"] = json.dumps(notes)
    encoded = NESTED.encode() if how == "nested" else json.dumps(header).encode()
    size = {"length of 2**60": 2**60, "length of 0": 0}.get(how, len(encoded))
    path.write_bytes(struct.pack("<Q", size) + encoded + (b"" if how == "empty body" else body))
    if how == "sparse":
        os.truncate(path, 1 << 40)
    return how


def a_link(run: Path, rng: random.Random) -> str:
    """A folder or file of the run lies elsewhere: in a folder of the victim, which must not change."""
    victim = run.parent / "victim"
    names = ["checkpoints", "corpus", "held_out", "model.safetensors", "tokenizer.json", "config.json", "card.md"]
    names += [
        "metrics.jsonl",
        "manifest.json",
        "initial.safetensors",
        "corpus/train.ids.npy",
        "checkpoints/step-000004",
    ]
    name = rng.choice([name for name in names if name == "initial.safetensors" or (run / name).exists()])
    path = run / name
    if path.is_dir():
        shutil.copytree(path, victim / "inner", dirs_exist_ok=True)
        for old in ("step-000900", ".writing-x", ".replaced-step-000001"):
            shutil.copytree(victim / "inner", victim / "inner" / old, ignore=lambda *_: list(_[1]))
        shutil.rmtree(path)
    elif path.exists():
        shutil.copy(path, victim / "inner")
        path.unlink()
    how = rng.choice(["link", "link", "pipe", "/dev/zero", "/dev/tty", "itself", "nowhere"])
    if how == "pipe":
        os.mkfifo(path)
    else:
        targets = {"link": victim / "inner", "itself": path, "nowhere": Path("/nowhere")}
        path.symlink_to(targets.get(how, Path(how)))
    return f"{name}: {how}"


def a_checkpoint(run: Path, rng: random.Random) -> str:
    """The newest checkpoint's manifest names what is not in it, or its state is not one."""
    folder = max(run.glob("checkpoints/step-*"))
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    names = ["/dev/zero", "../../../input.txt", "..", "", "a/b", "/dev/stdin", "x" * 5000, "pipe.safetensors"]
    if rng.random() < 0.5:
        name = rng.choice(names)
        manifest["sha256"][name], manifest["bytes"][name] = "0" * 64, 0
        if name == "pipe.safetensors":
            os.mkfifo(folder / name)
        path.write_text(json.dumps(manifest))
        return f"lists {name[:20]!r}"
    state = json.loads((folder / "state.json").read_text())
    key = rng.choice([*sorted(state), "surprise"])
    value = rng.choice(VALUES)
    state[key] = value
    (folder / "state.json").write_text(json.dumps(state))
    reseal(run)
    return f"state {key} = {str(value)[:20]}"


def some_rows(run: Path, rng: random.Random) -> str:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for row in rows:
        row.pop("sha256")
    key, value = rng.choice([*sorted(rows[0]), "surprise"]), rng.choice(VALUES)
    rows[-1][key] = value
    if rng.random() < 0.3:
        rows[-1].pop(key)
        value = "missing"
    (run / "metrics.jsonl").unlink()
    for row in rows:
        append_metrics(run / "metrics.jsonl", row)
    reseal(run)
    return f"{key} = {str(value)[:20]}"


def an_array(run: Path, rng: random.Random) -> str:
    path = run / rng.choice([f"corpus/{p}.{k}.npy" for p in ("train", "validation") for k in ("ids", "offsets")])
    content = path.read_bytes()
    values: dict[str, bytes] = {
        "nested header": _npy(b"-" * 9000 + b"1"),
        "object": _npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }") + b"cos\nsystem\n(S'true'\ntR.",
        "shape of 10**12": content.replace(b"'shape': (", b"'shape': (999999999", 1),
        "a zip": b"PK\x03\x04" + bytes(60),
        "a pickle": b"\x80\x04cos\nsystem\n(S'true'\ntR.",
        "ids of all bits": content[:128] + b"\xff" * (len(content) - 128),
        "ids of no bits": content[:128] + b"\0" * (len(content) - 128),
        "cut": content[: len(content) // 2],
    }
    how = rng.choice(sorted(values))
    path.write_bytes(values[how])
    reseal(run)
    return f"{path.name}: {how}"


def _npy(header: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header + b"\n"


def a_text(run: Path, rng: random.Random) -> str:
    texts = sorted(run.glob("held_out/*.txt"))
    path = rng.choice(texts or [run / "metrics.jsonl"])
    how, content = rng.choice(
        [
            ("escapes", b"\x1b]0;x\x07\x1b[2J\n" * 3),
            ("one line more", path.read_bytes() + b"a\n"),
            ("long line", b"a" * 2_000_000 + b"\n"),
            ("not UTF-8", b"\xff\xff\n"),
            ("NUL", bytes(3000)),
            ("empty lines", b"\n" * 50),
        ]
    )
    path.write_bytes(content)
    reseal(run)
    return f"{path.name}: {how}"


MALICE: tuple[Malice, ...] = (
    a_setting, a_section, a_json_file, a_tokenizer, some_weights, a_header, a_link, a_checkpoint, some_rows, an_array,
    a_text,
)  # fmt: skip
