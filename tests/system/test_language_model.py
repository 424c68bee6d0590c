"""A language model from the command line: trained, resumed, written with, evaluated, and every way it may go wrong."""

from __future__ import annotations

import io
import json
import math
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.system.toy import Command, kept_signals, toy_sentences
from tests.system.written_maps import written_maps

from dikkat import LanguageModel, load
from dikkat_runtime.cli.main import run as run_command
from dikkat_runtime.engine.options import GenerationOptions

SETTINGS = {
    "model.model_dim": 32,
    "model.num_heads": 2,
    "model.feed_forward_dim": 64,
    "model.decoder_layers": 2,
    "model.dropout": 0.1,
    "language_model.context": 32,
    "training.tokens_per_batch": 512,
    "training.learning_rate": 0.005,
    "training.optimizer": "adamw",
    "training.precision": "float32",
    "training.validations": 3,
}
GREEDY = GenerationOptions(temperature=0.0, max_tokens=60)
DRAWN = GenerationOptions(temperature=0.7, max_tokens=200)
"""Greedy, a model this small may stay in one line for ever."""


def options(**changes: object) -> list[str]:
    merged = {**SETTINGS, **{name.replace("__", "."): value for name, value in changes.items()}}
    return [word for name, value in merged.items() for word in ("--set", f"{name}={value}")]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One document of 1,200 lines."""
    path = tmp_path_factory.mktemp("text") / "toy.txt"
    path.write_text("".join(f"{source}\n" for source, _ in toy_sentences(1200)), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, text: Path) -> Path:
    """A finished run that has learned the toy language. Look, do not touch; else copy it."""
    out = tmp_path_factory.mktemp("written") / "run"
    with kept_signals():
        assert run_command(["train", "lm", str(text), "--out", str(out), *options(training__max_updates=240)]) == 0
    return out


@pytest.fixture(scope="module")
def model(written: Path) -> LanguageModel:
    result = load(written)
    assert isinstance(result, LanguageModel)
    return result


def test_the_toy_language_is_learned(written: Path, model: LanguageModel) -> None:
    """Words of six letters, drawn from six to ten, leave about 0.4 nats a letter that nobody can know."""
    rows = [json.loads(line) for line in (written / "metrics.jsonl").read_text().split("\n")[:-1]]
    assert [row["step"] for row in rows] == [80, 160, 240]
    assert rows[-1]["valid_loss"] < 0.9 < rows[0]["valid_loss"] < math.log(30)
    assert rows[-1]["perplexity"] == pytest.approx(math.exp(rows[-1]["valid_loss"]))
    card = (written / "card.md").read_text(encoding="utf-8")
    assert f"loss {rows[-1]['valid_loss']:.4f} nats" in card
    words = {word for source, _ in toy_sentences(1200) for word in source.split()}
    (drawn,) = model.generate(["the dog sees a"], samples=4, options=DRAWN)
    lines = [line for result in drawn for line in result.text.split("\n")[1:-1]]
    assert len(lines) > 12
    assert sum(word in words for line in lines for word in line.split()) > 0.7 * sum(
        len(line.split()) for line in lines
    )


def test_the_cache_changes_nothing(model: LanguageModel) -> None:
    """Greedy, against reading all that is in sight anew for each token, across three slides of the window."""
    prompt = "my red bird finds"
    ((result,),) = model.generate([prompt], options=GenerationOptions(temperature=0.0, max_tokens=80))
    in_sight = model.tokenizer.encode(prompt)
    wanted = []
    with torch.inference_mode():
        for _ in range(80):
            in_sight = in_sight[-16:] if len(in_sight) > 32 else in_sight
            logits = model.model(torch.tensor([in_sight]))[0, -1]
            logits[[0, 1, 3]] = -torch.inf
            wanted.append(int(logits.argmax()))
            in_sight.append(wanted[-1])
    assert result.num_tokens == 80
    assert result.ended == "length"
    assert result.text == model.tokenizer.decode(wanted)


def test_a_batch_is_its_rows_alone_and_a_stream_its_pieces(model: LanguageModel) -> None:
    prompts = ["the king", "", "a small tree fo", "my cat", "the king"]
    drawn = GenerationOptions(temperature=1.0, top_p=0.9, max_tokens=50, seed=3)
    together = model.generate(prompts, samples=3, options=drawn)
    for prompt, row in zip(prompts, together, strict=True):
        assert len({item.text for item in row}) > 1
        assert model.generate([prompt], samples=3, options=drawn) == [row]
        assert "".join(model.stream(prompt, options=drawn)) == row[0].text
    assert together[0] == together[4]


def test_stop_strings_end_the_text(model: LanguageModel) -> None:
    ((whole,),) = model.generate(["the king "], options=DRAWN)
    line, end, _ = whole.text.partition("\n")
    assert end
    ((result,),) = model.generate(["the king "], options=DRAWN, stop=["\n", "never there"])
    assert (result.text, result.ended) == (line, "stop")
    assert "".join(model.stream("the king ", options=DRAWN, stop=["\n"])) == line


def test_generate_prints_the_prompt_and_its_continuation(
    dikkat: Command, written: Path, model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = "the king" + "".join(model.stream("the king", options=GREEDY))
    arguments = ("generate", written, "--greedy", "--max-tokens", "60")
    assert dikkat(*arguments, "the king") == (0, wanted.removesuffix("\n") + "\n", "")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the king\n")))
    assert dikkat(*arguments) == (0, wanted.removesuffix("\n") + "\n", "")
    code, output, _ = dikkat(
        "generate", written, "the king", "-n", "2", "--seed", "4", "--min-p", "0.02", "--stop", "\n"
    )
    assert code == 0
    assert output.startswith("--- 1 of 2 ---\nthe king")
    assert "--- 2 of 2 ---\nthe king" in output


def test_attend_shows_what_a_prompt_looks_at(dikkat: Command, written: Path, tmp_path: Path) -> None:
    for name in ("a.png", "a.svg", "a.npz", "a.json"):
        assert dikkat("attend", written, "the king sees", "--out", tmp_path / name) == (
            0,
            "",
            f"wrote {tmp_path / name}\n",
        )
    (result,) = written_maps(tmp_path / "a.json")
    assert result.output_tokens == tuple("the king sees")
    assert (result.source, result.source_tokens, result.output) == ("the king sees", (), "")
    assert len(result.maps) == 2 * 2
    for item in result.maps:
        assert (item.stack, item.kind) == ("decoder", "self")
        assert not np.triu(item.weights, 1).any()
        np.testing.assert_allclose(item.weights.sum(axis=1), 1.0, rtol=0, atol=1e-5)
    assert dikkat("attend", written, "the king sees", "--words", "--out", tmp_path / "w.json")[0] == 0
    assert written_maps(tmp_path / "w.json")[0].output_tokens == ("the", "king", "sees")
    for kind, name in (("encoder", "encoder self-attention"), ("cross", "cross-attention")):
        message = dikkat.fails(2, "attend", written, "the", "--kind", kind, "--out", tmp_path / "b.png")
        assert message == f"--kind {kind}: a language model has no {name}; choose from decoder"


def test_a_text_longer_than_the_context_is_attended_to_by_windows(
    dikkat: Command, written: Path, tmp_path: Path
) -> None:
    """Of 57 characters, with a context of 32: the first 32, and the last 32."""
    text = "the dog sees a cat " * 3
    table = dikkat("attend", written, text, "--layer", "1")[1]
    assert table.startswith("window 1 of 2: tokens 1 to 32 of 57\n\ndecoder self-attention, layer 1")
    assert "\n\nwindow 2 of 2: tokens 26 to 57 of 57\n\n" in table
    second = dikkat("attend", written, text, "--layer", "1", "--sentence", "2")[1]
    assert second == table[table.index("window 2") :]
    out = tmp_path / "b.png"
    assert dikkat("attend", written, text, "--out", out) == (
        0, "", f"windows 1 to 1 of 2; --sentence N shows others\nwrote {out}\n",
    )  # fmt: skip
    assert dikkat("attend", written, text, "--sentence", "2", "--out", out)[2] == f"wrote {out}\n"
    assert dikkat("attend", written, text, "--out", tmp_path / "b.json")[2] == f"wrote {tmp_path / 'b.json'}\n"
    assert [one.output_tokens for one in written_maps(tmp_path / "b.json")] == [tuple(text[:32]), tuple(text[25:57])]
    message = dikkat.fails(2, "attend", written, text, "--sentence", "3")
    assert message == "--sentence 3: the text has 2 windows; choose one of them"
    page = tmp_path / "b.html"
    assert dikkat("attend", written, text, "--out", page) == (0, "", f"wrote {page}\n")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    report = dikkat("explain", "--run", written, text)[1]
    assert "Of 57 tokens these last 32 are read." in " ".join(report.split())
    assert dikkat("heads", written, "--sentences", "2")[2].endswith(
        "windows, evenly spread; --sentences N takes more\n"
    )


def test_the_doctor_examines_a_language_model(dikkat: Command, written: Path) -> None:
    code, output, complaint = dikkat("doctor", written)
    assert (code, complaint) == (0, ""), output
    assert output.endswith("all 10 proofs pass\n")


def test_an_unknown_character_is_said(dikkat: Command, written: Path) -> None:
    code, output, notes = dikkat("generate", written, "the ðß ð", "--max-tokens", "5")
    assert (code, notes) == (0, "not in the vocabulary, and read as <unk>: 'ð', 'ß'\n")
    assert output.startswith("the ðß ð")


def test_evaluate_is_what_the_validation_said(dikkat: Command, written: Path, tmp_path: Path) -> None:
    """With a stride of the whole context the windows are those of the validation, on the same weights."""
    best = min(json.loads(line)["valid_loss"] for line in (written / "metrics.jsonl").read_text().split("\n")[:-1])
    code, output, notes = dikkat("evaluate", written, "--stride", "32")
    assert (code, notes) == (0, "")
    loss = float(output.split("\n")[0].split()[1])
    assert loss == pytest.approx(best, abs=0.01)
    numbers = json.loads(dikkat("evaluate", written, "--stride", "32", "--json")[1])
    assert output.split()[1] == f"{numbers['loss']:.4f}"
    assert numbers["perplexity"] == pytest.approx(math.exp(numbers["loss"]))
    closer = float(dikkat("evaluate", written, "--stride", "4")[1].split("\n")[0].split()[1])
    assert closer < loss
    other = tmp_path / "other.txt"
    other.write_text("the dog sees a ßtar\n", encoding="utf-8")
    code, output, notes = dikkat("evaluate", written, other)
    assert (code, notes) == (0, "not in the vocabulary, and read as <unk>: 'ß'\n")
    assert "20 tokens, 21 bytes; window 32, stride 16" in output


@pytest.mark.seed("E21")
@pytest.mark.parametrize(
    ("kind", "objective"),
    [pytest.param("bytes", "prefix", marks=pytest.mark.nightly), ("bpe", "masked"), ("characters", "causal")],
)
def test_a_folder_of_documents_with_any_objective_resumes_bit_for_bit(
    dikkat: Command, tmp_path: Path, kind: str, objective: str
) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    for number, (source, target) in enumerate(toy_sentences(60)):
        (folder / f"{number}.txt").write_text(f"{source}\n{target}\n", encoding="utf-8")
    settings = options(
        tokenizer__kind=kind,
        language_model__objective=objective,
        training__max_updates=12,
        training__keep_checkpoints=3,
    )
    whole, again = tmp_path / "whole", tmp_path / "again"
    assert dikkat("train", "lm", folder, "--out", whole, *settings)[0] == 0
    shutil.copytree(whole, again)
    (again / "card.md").unlink()
    for late in ("step-000008", "step-000012"):
        shutil.rmtree(again / "checkpoints" / late)
    assert dikkat("train", "lm", "--out", again, "--resume")[0] == 0
    for name in ("model.safetensors", "checkpoints/step-000012/optimizer.safetensors"):
        assert (whole / name).read_bytes() == (again / name).read_bytes()
    config = json.loads((whole / "config.json").read_text(encoding="utf-8"))
    assert (config["task"], config["data_source"]["documents"]) == ("lm", 60)
    if objective == "masked":
        message = dikkat.fails(2, "generate", whole, "the")
        assert (
            message == "this model was trained to fill in hidden tokens (objective masked); it cannot continue a text"
        )
        assert "a text has no likelihood" in dikkat.fails(2, "evaluate", whole)
    else:
        assert dikkat("generate", whole, "", "--max-tokens", "40")[0] == 0


def test_what_cannot_be_generated_is_one_line(dikkat: Command, written: Path, trained: Path) -> None:
    long = dikkat.fails(65, "generate", written, "the dog sees a cat " * 3)
    assert long == "the prompt has 57 tokens, but the model sees at most 32 (its context); give only the end of it"
    for option, value, limit in (
        ("--temperature", "-1", "--temperature must be a finite number of at least 0, not -1.0"),
        ("--top-k", "-2", "--top-k must be a whole number of at least 0, not -2"),
        ("--top-p", "0", "--top-p must be above 0 and at most 1, not 0.0"),
        ("--min-p", "2", "--min-p must be between 0 and 1, not 2.0"),
        ("--repetition-penalty", "0", "--repetition-penalty must be a finite number above 0, not 0.0"),
        ("--max-tokens", "0", "--max-tokens must be a whole number of at least 1, not 0"),
        ("--samples", "0", "--samples must be at least 1, not 0"),
        ("--context", "1", "--context must be a whole number of at least 2, not 1"),
        ("--seed", "-1", "--seed must be a whole number of at least 0, not -1"),
    ):
        assert dikkat.fails(2, "generate", written, "the", option, value) == limit
    assert dikkat.fails(2, "generate", trained, "the") == (
        f"{trained}: holds a translator, not a language model; try: echo … | dikkat translate {trained}"
    )
    assert "--stride must be a whole number from 1 to the context, 32, not 33" in dikkat.fails(
        2, "evaluate", written, "--stride", "33"
    )


def test_what_cannot_be_trained_on_is_one_line(dikkat: Command, tmp_path: Path) -> None:
    out = tmp_path / "out"
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "short.txt").write_bytes(b"a")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "data.csv").write_text("a,b\n")
    for name, code, complaint in (
        ("empty.txt", 65, "the file is empty"),
        ("none.txt", 66, "there is no such file"),
        (
            "folder",
            66,
            "holds no text: no file named *.txt, *.text, *.md, *.rst (also compressed) has anything in it",
        ),
        ("short.txt", 65, "too little text"),
    ):
        message = dikkat.fails(code, "train", "lm", tmp_path / name, "--out", out)
        assert message.startswith(str(tmp_path / name))
        assert complaint in message
        assert not out.exists()
    assert "name the data" in dikkat.fails(2, "train", "lm", "--out", out)
