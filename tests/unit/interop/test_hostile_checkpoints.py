"""A checkpoint folder from a stranger is data: one line for what is wrong, soon, and without the memory it names."""

from __future__ import annotations

import json
import os
import resource
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from tests.unit.interop.checkpoints import bert_folder, change_weights, gpt2_folder

from dikkat.interop.importing import read_foreign, write_run
from dikkat_runtime.errors import DataError, DikkatError, MissingInputError

Damage = Callable[[Path], object]
LONG_TEXT = "x" * 100_000


def config(**changes: Any) -> Damage:
    def damage(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return damage


def content(name: str, text: str | bytes) -> Damage:
    raw = text.encode() if isinstance(text, str) else text
    return lambda folder: (folder / name).write_bytes(raw)


def tokenizer(change: Callable[[dict[str, Any]], object]) -> Damage:
    def damage(folder: Path) -> None:
        path = folder / "tokenizer.json"
        parsed = json.loads(path.read_text())
        change(parsed)
        path.write_text(json.dumps(parsed))

    return damage


def weights(**changes: torch.Tensor | None) -> Damage:
    return lambda folder: change_weights(folder, **changes)


def other_type(kind: torch.dtype) -> Damage:
    def damage(folder: Path) -> None:
        path = folder / "model.safetensors"
        stored = safetensors.torch.load_file(path)
        safetensors.torch.save_file({name: tensor.to(kind) for name, tensor in stored.items()}, path)

    return damage


def cut(name: str, share: float) -> Damage:
    def damage(folder: Path) -> None:
        raw = (folder / name).read_bytes()
        (folder / name).write_bytes(raw[: int(len(raw) * share)])

    return damage


def header(entries: dict[str, Any] | bytes, size: int | None = None) -> Damage:
    raw = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return content("model.safetensors", struct.pack("<Q", len(raw) if size is None else size) + raw)


def pipe(name: str) -> Damage:
    def damage(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return damage


def link(name: str, target: str) -> Damage:
    def damage(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to(target)

    return damage


def directory(name: str) -> Damage:
    def damage(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).mkdir()

    return damage


NESTED = "[" * 100_000 + "]" * 100_000
FILES = ("config.json", "model.safetensors", "tokenizer.json")
OF_BOTH: dict[str, Damage] = {
    **{f"{name} is a pipe": pipe(name) for name in FILES},
    **{f"{name} is endless": link(name, "/dev/zero") for name in FILES},
    **{f"{name} is a loop of links": link(name, name) for name in FILES},
    **{f"{name} is a folder": directory(name) for name in FILES},
    **{f"{name} is empty": content(name, "") for name in FILES},
    **{f"{name} cut at {share}": cut(name, share) for name in FILES for share in (0.01, 0.5, 0.99)},
    **{f"{name} is nested": content(name, NESTED) for name in ("config.json", "tokenizer.json", "modules.json")},
    **{f"{name} of half a letter": content(name, b'{"a": "\xc3"}') for name in ("config.json", "tokenizer.json")},
    "config of many parts": content("config.json", "[" + "[]," * 3_000_000 + "[]]"),
    "config of a long number": content("config.json", '{"model_type": "bert", "hidden_size": ' + "9" * 5000 + "}"),
    "config without a family": config(model_type=["bert"]),
    "config of a long family": config(model_type=LONG_TEXT),
    "config of another line": config(model_type="a\nb\x1b[31m"),
    "weights of integers": other_type(torch.int8),
    "weights of half a gigabyte of header": header(b"{}", size=2**29),
    "weights of a negative header": header(b"{}", size=2**63),
    # made when the test runs, not whenever tests are collected
    "weights of a header of 10^5 names": lambda folder: header(
        {f"h.{n}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for n in range(100_000)}
    )(folder),
    "weights outside the file": header({"wte.weight": {"dtype": "F32", "shape": [9, 9], "data_offsets": [0, 324]}}),
    "weights that overlap": header(
        {name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]} for name in ("wte.weight", "wpe.weight")}
    ),
    "weights of a shape without end": header(
        {"wte.weight": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 0]}}
    ),
    "weights of an unknown type": header({"wte.weight": {"dtype": "F2", "shape": [0], "data_offsets": [0, 0]}}),
    "weights nested": header(NESTED.encode()),
    "tokenizer of many ids": tokenizer(lambda t: t["model"]["vocab"].update({"x": 2**32 - 1})),
    "tokenizer of a negative id": tokenizer(lambda t: t["model"]["vocab"].update({"x": -1})),
    "tokenizer with a hole": tokenizer(lambda t: t["model"]["vocab"].update({"x": len(t["model"]["vocab"]) + 2})),
    "tokenizer of a fraction": tokenizer(lambda t: t["model"]["vocab"].update({"x": 1.5})),
    "tokenizer without a vocabulary": tokenizer(lambda t: t["model"].pop("vocab")),
    "tokenizer with a list for it": tokenizer(lambda t: t["model"].update(vocab=["a", "b"])),
    "tokenizer of another model": tokenizer(lambda t: t["model"].update(type="Unigram")),
    "tokenizer with a pattern": tokenizer(
        lambda t: t.update(pre_tokenizer={"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated"})
    ),
    "tokenizer that replaces": tokenizer(
        lambda t: t.update(
            normalizer={
                "type": "Sequence",
                "normalizers": [{"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}] * 3,
            }
        )
    ),
    "tokenizer with a map": tokenizer(
        lambda t: t.update(normalizer={"type": "Precompiled", "precompiled_charsmap": "A"})
    ),
    "tokenizer of many components": tokenizer(
        lambda t: t.update(normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}] * 100_000})
    ),
    "tokenizer that adds an id": tokenizer(
        lambda t: t["added_tokens"].append({**t["added_tokens"][0], "content": "x", "id": 4_000_000_000})
    ),
    "tokenizer that adds nothing": tokenizer(
        lambda t: t["added_tokens"].append({**t["added_tokens"][0], "content": ""})
    ),
    "tokenizer with two ids": tokenizer(lambda t: t["added_tokens"][0].update(id=1 + t["added_tokens"][0]["id"])),
    "tokenizer of text": content("tokenizer.json", '"text"'),
    "tokenizer of a number": content("tokenizer.json", "3"),
    "modules elsewhere": content("modules.json", '[{"type": "x.Transformer", "path": "../../../etc"}]'),
    "modules at the root": content("modules.json", '[{"type": "x.Transformer", "path": "/etc"}]'),
    "modules of many": content("modules.json", json.dumps([{"type": "x.Normalize", "path": ""}] * 100_000)),
    "modules of a number": content("modules.json", "7"),
}
NOT_NUMBERS = {"NaN": torch.nan, "infinity": torch.inf}
OF_BERT: dict[str, Damage] = {
    "modules of another line": content("modules.json", '[{"type": "x.A\\nB", "path": ""}]'),
    "10^6 layers": config(num_hidden_layers=10**6),
    "10^12 layers": config(num_hidden_layers=10**12),
    "width 10^6": config(hidden_size=3 * 10**6),
    "width 10^18": config(hidden_size=3 * 10**18),
    "vocabulary 10^9": config(vocab_size=10**9),
    "vocabulary 10^18": config(vocab_size=10**18),
    "positions 10^18": config(max_position_embeddings=10**18),
    "segments 10^18": config(type_vocab_size=10**18),
    "inner width 10^18": config(intermediate_size=10**18),
    "heads 10^18": config(num_attention_heads=10**18),
    "a list for a choice": config(hidden_act=["gelu"]),
    "a long choice": config(hidden_act=LONG_TEXT),
    "dropout infinite": config(hidden_dropout_prob=float("inf")),
    "dropout not a number": config(hidden_dropout_prob=float("nan")),
    "width infinite": config(hidden_size=float("inf")),
    "a long setting": config(position_embedding_type=[LONG_TEXT]),
    "a weight twice": weights(bert__pooler__dense__bias=torch.zeros(24)),
    "a name of two lines": weights(**{"a\nb\x1b[31m": torch.zeros(1)}),
    "a single number": weights(pooler__dense__bias=torch.tensor(1.0)),
    "one weight of integers": weights(pooler__dense__bias=torch.zeros(24, dtype=torch.int32)),
    **{
        f"a weight of {name}": weights(pooler__dense__bias=torch.full((24,), value))
        for name, value in NOT_NUMBERS.items()
    },
    "a frame of thousands": tokenizer(
        lambda t: t["post_processor"].update(single=[t["post_processor"]["single"][0]] * 5000)
    ),
    "a word without end": tokenizer(
        lambda t: t["model"].update(type="WordPiece", continuing_subword_prefix="##", max_input_chars_per_word=10**9)
    ),
}
OF_GPT2: dict[str, Damage] = {
    "10^6 layers": config(n_layer=10**6),
    "10^12 layers": config(n_layer=10**12),
    "width 10^6": config(n_embd=3 * 10**6),
    "inner width 10^18": config(n_embd=3 * 10**18),
    "vocabulary 10^9": config(vocab_size=10**9),
    "a tie that is a list": config(tie_word_embeddings=[1]),
    "an output of another shape": weights(lm_head__weight=torch.zeros(3, 24)),
    "a flat matrix": weights(h__0__attn__c_attn__weight=torch.zeros(72)),
    "a matrix of three axes": weights(h__0__attn__c_attn__weight=torch.zeros(24, 72, 1)),
    "merges of nothing": tokenizer(lambda t: t["model"].update(merges=["xx yy"])),
    "merges of a number": tokenizer(lambda t: t["model"].update(merges=7)),
    "drops merges": tokenizer(lambda t: t["model"].update(dropout=0.5)),
}
_NAMED = [
    (make, damage, f"{family}: {name}")
    for family, make, cases in (
        ("BERT", bert_folder, {**OF_BOTH, **OF_BERT}),
        ("GPT-2", gpt2_folder, {**OF_BOTH, **OF_GPT2}),
    )
    for name, damage in cases.items()
]
# every third by day
CASES = [
    pytest.param(make, damage, id=name, marks=[pytest.mark.nightly] * (number % 3 > 0))
    for number, (make, damage, name) in enumerate(_NAMED)
]
MAX_SECONDS, MAX_KIB = 5.0, 400 * 1024


@pytest.fixture(scope="module", autouse=True)
def imported_once(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The first model without numbers makes PyTorch load modules for seconds, whatever is read."""
    read_foreign(bert_folder(tmp_path_factory.mktemp("whole") / "theirs"))


@pytest.mark.parametrize(("make", "damage"), CASES)
def test_one_line_soon_and_in_little_memory(make: Callable[..., Path], damage: Damage, tmp_path: Path) -> None:
    folder = make(tmp_path / "theirs")
    damage(folder)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(DikkatError) as caught:
        read_foreign(folder)
    assert time.process_time() - start < MAX_SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MAX_KIB
    message = str(caught.value)
    assert message.startswith(str(folder))
    assert message.isprintable()
    assert len(message) < len(str(folder)) * 2 + 500
    assert caught.type in (DataError, MissingInputError)


def test_a_link_to_a_file_is_read_as_caches_have_them(tmp_path: Path) -> None:
    folder = bert_folder(tmp_path / "theirs")
    for name in FILES:
        (folder / name).rename(tmp_path / name)
        (folder / name).symlink_to(tmp_path / name)
    assert read_foreign(folder).parameters > 0


def test_thousands_of_heads_left_out_are_not_all_listed(tmp_path: Path) -> None:
    folder = bert_folder(tmp_path / "theirs")
    change_weights(folder, **{f"cls.{number:04}\n": torch.zeros(1) for number in range(2000)})
    found = read_foreign(folder)
    assert found.left_out[0] == r"cls.0000\n"
    write_run(found, tmp_path / "run", folder, "dikkat import")
    card = (tmp_path / "run" / "card.md").read_text()
    assert r"cls.0011\n, …." in card
    assert "cls.0012" not in card
