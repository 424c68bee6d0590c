"""`dikkat attend`: every kind of file, the maps that were asked for, and one clear line for whatever is wrong."""

from __future__ import annotations

import io
import json
import math
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.system.toy import Command
from tests.system.written_maps import written_maps

from dikkat import Translator
from dikkat.explain.attention_map import SentenceMaps

SENTENCE = "the red dog sees my cat"


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return Translator.load(trained)


def type_in(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8"))


def require_same(found: SentenceMaps, translator: Translator, target: str) -> None:
    maps = {(item.stack, item.kind, item.layer, item.head): item for item in translator.attend(SENTENCE, target)}
    assert found.maps
    for item in found.maps:
        expected = maps[item.stack, item.kind, item.layer, item.head]
        assert (item.query_tokens, item.key_tokens) == (expected.query_tokens, expected.key_tokens)
        np.testing.assert_allclose(item.weights, expected.weights, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["a.png", "a.SVG", "a.json", "a.npz", "a.align", "a.html"])
def test_every_suffix_gives_its_file(dikkat: Command, trained: Path, tmp_path: Path, name: str) -> None:
    code, output, complaint = dikkat("attend", trained, SENTENCE, "--out", tmp_path / name)
    assert code == 0, complaint
    assert os.listdir(tmp_path) == [name]
    content = (tmp_path / name).read_bytes()
    starts = {".png": b"\x89PNG", ".svg": b"<?xml", ".json": b'{"format"', ".npz": b"PK"}
    suffix = Path(name).suffix.lower()
    if suffix == ".html":
        assert content.lower().startswith(b"<!doctype html>")
        assert (output, complaint) == ("", f"wrote {tmp_path / name}: open it in a browser\n")
    elif suffix == ".align":
        assert {int(link.split("-")[1]) for link in content.decode().split()} == set(range(len(output.split())))
    else:
        assert content.startswith(starts[suffix])
    if suffix != ".html":
        assert complaint.endswith(f"wrote {tmp_path / name}\n")
        assert output == f"{Translator.load(trained).translate([SENTENCE])[0].text}\n"


def test_without_a_file_a_table_names_the_word_that_each_word_looks_at_most(
    dikkat: Command, trained: Path, translator: Translator
) -> None:
    code, output, complaint = dikkat("attend", trained, SENTENCE)
    assert code == 0, complaint
    (message, *tables) = output.removesuffix("\n").split("\n\n")
    assert message == translator.translate([SENTENCE])[0].text
    layers = translator.config.model.encoder_layers, translator.config.model.decoder_layers
    assert [table.split("\n")[0] for table in tables] == [
        f"{name}, layer {layer + 1}"
        for name, count in zip(("encoder self-attention", "cross-attention"), layers, strict=True)
        for layer in range(count)
    ]
    rows = [line.split()[0] for line in tables[0].split("\n")[2:]]
    assert rows == [*SENTENCE.split(), "<eos>"]
    _, one, _ = dikkat("attend", trained, SENTENCE, "--kind", "encoder", "--layer", "1", "--head", "2")
    assert one.split("\n")[3].split() == ["head", "2"]


def test_every_sentence_is_read_as_translate_reads_it(
    dikkat: Command, trained: Path, tmp_path: Path, translator: Translator
) -> None:
    text, read = "the red dog!!\n\U0001f600 my cat  sees", ["the red dog!", "my cat sees"]
    assert [sentence for sentence, _ in translator.sentences(text)] == read
    apart = [dikkat("attend", trained, sentence)[1] for sentence in ("the red dog!!", "my cat sees")]
    assert dikkat("attend", trained, text)[1] == "\n".join(apart)
    assert dikkat("attend", trained, text, "--sentence", "2")[1] == apart[1]
    code, output, complaint = dikkat("attend", trained, text, "--out", tmp_path / "a.png")
    assert (code, output) == (0, dikkat("attend", trained, "the red dog!!", "--out", tmp_path / "b.png")[1])
    assert complaint.startswith("sentences 1 to 1 of 2; --sentence N shows others\n")
    dikkat("attend", trained, text, "--out", tmp_path / "a.json")
    assert [maps.source for maps in written_maps(tmp_path / "a.json")] == read
    message = dikkat.fails(2, "attend", trained, text, "--sentence", "3")
    assert message == "--sentence 3: the text has 2 sentences; choose one of them"
    message = dikkat.fails(2, "attend", trained, text, "--sentence", "1", "--target", "x")
    assert message.startswith("--sentence chooses a sentence of one text that the model translates")
    _, first, complaint = dikkat("explain", text, "--run", trained)
    assert "“the red dog!”" in first
    assert complaint.startswith("sentences 1 to 1 of 2; ")
    assert "“my cat sees”" in dikkat("explain", text, "--run", trained, "--sentence", "2")[1]


def test_the_translation_is_written_as_translate_writes_it(
    dikkat: Command, trained: Path, tmp_path: Path, translator: Translator
) -> None:
    text = "THE RED DOG SEES MY CAT!!"
    written = translator.translate([text])[0].text
    assert written == written.upper()
    assert dikkat("attend", trained, text)[1].split("\n")[0] == written
    assert dikkat("attend", trained, text, "--out", tmp_path / "a.json")[1] == f"{written}\n"


@pytest.mark.parametrize("option", ["--words", "--n-best=2"])
def test_what_is_for_files_needs_one(dikkat: Command, trained: Path, option: str) -> None:
    name = option.split("=")[0]
    assert dikkat.fails(2, "attend", trained, SENTENCE, *option.split("=")).startswith(f"{name} is for ")


def test_data_hold_every_map_of_the_translation(
    dikkat: Command, trained: Path, tmp_path: Path, translator: Translator
) -> None:
    for name in ("a.json", "a.npz"):
        _, output, _ = dikkat("attend", trained, SENTENCE, "--out", tmp_path / name)
        (result,) = written_maps(tmp_path / name)
        assert (result.source, f"{result.output}\n") == (SENTENCE, output)
        assert len(result.maps) == 3 * 2
        require_same(result, translator, result.output)


def test_only_what_is_asked_for(dikkat: Command, trained: Path, tmp_path: Path, translator: Translator) -> None:
    arguments = ("--kind", "cross", "--layer", "1", "--head", "2", "--target", "cato", "--out", tmp_path / "a.json")
    assert dikkat("attend", trained, SENTENCE, *arguments)[:2] == (0, "cato\n")
    (result,) = written_maps(tmp_path / "a.json")
    assert [(item.stack, item.kind, item.layer, item.head) for item in result.maps] == [("decoder", "cross", 0, 1)]
    require_same(result, translator, "cato")


def test_words_are_those_of_the_sentence(dikkat: Command, trained: Path, tmp_path: Path) -> None:
    _, output, _ = dikkat("attend", trained, SENTENCE, "--words", "--out", tmp_path / "a.json")
    (result,) = written_maps(tmp_path / "a.json")
    assert result.source_tokens == (*SENTENCE.split(), "<eos>")
    assert result.output_tokens == ("<bos>", *output.split())
    for item in result.maps:
        np.testing.assert_allclose(item.weights.sum(axis=1), 1.0, rtol=0, atol=1e-5)


def test_every_hypothesis_on_request(dikkat: Command, trained: Path, tmp_path: Path, translator: Translator) -> None:
    arguments = ("--beam", "4", "--n-best", "3", "--out")
    _, output, _ = dikkat("attend", trained, SENTENCE, *arguments, tmp_path / "a.json")
    (best,) = translator.translate([SENTENCE], beam_size=4, n_best=3)
    expected = [best.text, *(item.text for item in best.alternatives)]
    assert output.split("\n") == [*expected, ""]
    result = written_maps(tmp_path / "a.json")
    assert [item.output for item in result] == expected
    assert [item.output_tokens[1:] for item in result] == [best.tokens, *(item.tokens for item in best.alternatives)]
    dikkat("attend", trained, SENTENCE, *arguments, tmp_path / "a.align")
    lines = (tmp_path / "a.align").read_text().split("\n")
    assert [len(line.split()) for line in lines] == [*(len(text.split()) for text in expected), 0]


def test_many_sentences_from_standard_input(
    dikkat: Command, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_in(monkeypatch, f"{SENTENCE}\na cat wants this tree\n")
    code, output, _ = dikkat("attend", trained, "-", "--kind", "cross", "--out", tmp_path / "a.json")
    result = written_maps(tmp_path / "a.json")
    assert code == 0
    assert [item.source for item in result] == [SENTENCE, "a cat wants this tree"]
    assert output.split("\n") == [*(item.output for item in result), ""]


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("", "standard input: there is no sentence; give one a line"),
        (
            f"{SENTENCE}\n \n",
            "standard input:2: there is nothing to attend to in an empty line; remove it",
        ),
    ],
)
def test_nothing_on_standard_input(
    dikkat: Command, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, message: str
) -> None:
    type_in(monkeypatch, typed)
    assert dikkat.fails(65, "attend", trained, "-", "--out", tmp_path / "a.json") == message
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("code", "name", "arguments", "message"),
    [
        (65, "a.png", [""], "there is nothing to attend to in an empty text; give a few words"),
        (65, "a.json", [" \t ", "--target", "x"], "there is nothing to attend to in an empty text; give a few words"),
        (2, "a.png", ["--layer", "2"], "there is no layer 2 in the cross-attention: choose from 1"),
        (2, "a.json", ["--layer", "0"], "there is no layer 0 in the encoder self-attention: choose from 1"),
        (2, "a.svg", ["--kind", "decoder", "--head", "3"], "there is no head 3 in the decoder self-attention: choose"),
        (
            2,
            "a.gif",
            [],
            "a.gif: is written as .png or .svg or .json or .npz or .align or .html, not .gif; rename it",
        ),
        (2, "a", [], "not a file without suffix; rename it"),
        (2, "a.png", ["--kind", "sideways"], "'sideways' is not one of 'encoder', 'decoder', 'cross'"),
        (2, "a.png", ["--n-best", "2"], "--n-best: a picture shows one translation; write .json, .npz or .align"),
        (
            2,
            "a.json",
            ["--beam", "2", "--n-best", "3"],
            "--n-best must be a whole number from 1 to the size of the beam (2)",
        ),
        (2, "a.json", ["--beam", "0"], "Invalid value for '--beam': Input should be greater than or equal to 1."),
        (2, "a.png", ["--target", "x", "--beam", "2"], "--beam searches for a translation, but --target gives one"),
        (2, "a.align", ["--kind", "encoder"], "--kind encoder: words are aligned by cross-attention; leave it out"),
        (2, "a.align", ["--words"], "--words is not for .align, which always links words; leave it out"),
        (2, "a.html", ["--layer", "1"], "--layer is not for a page, which shows everything; leave it out"),
        (2, "a.png", ["-"], "a.png: the sentences of standard input go into .json or .html; rename it"),
        (2, "a.json", ["-", "--target", "x"], "--target is for one sentence, but - reads many; leave it out"),
    ],
)
def test_bad_input_is_one_line(
    dikkat: Command, trained: Path, tmp_path: Path, code: int, name: str, arguments: list[str], message: str
) -> None:
    sentence = [] if arguments and not arguments[0].startswith("--") else [SENTENCE]
    assert message in dikkat.fails(code, "attend", trained, *sentence, *arguments, "--out", tmp_path / name)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["a.png", "a.json", "a.align", "a.html"])
def test_a_place_that_cannot_be_written(dikkat: Command, trained: Path, tmp_path: Path, name: str) -> None:
    message = dikkat.fails(73, "attend", trained, SENTENCE, "--out", tmp_path / "none" / name)
    assert f"{name}: cannot be written: the folder {tmp_path / 'none'} does not exist; create it first" in message
    (tmp_path / "file").write_text("x")
    message = dikkat.fails(73, "attend", trained, SENTENCE, "--out", tmp_path / "file" / name)
    assert f"{name}: cannot be written: Not a directory" in message
    (tmp_path / name).mkdir()
    message = dikkat.fails(73, "attend", trained, SENTENCE, "--out", tmp_path / name)
    assert f"{name}: cannot be written: Is a directory" in message
    assert sorted(os.listdir(tmp_path)) == sorted([name, "file"])


def test_no_such_run(dikkat: Command, tmp_path: Path) -> None:
    message = dikkat.fails(66, "attend", tmp_path / "nowhere", SENTENCE, "--out", tmp_path / "a.png")
    assert "there is no such run directory" in message


@pytest.mark.parametrize("tokens", [pytest.param(5000, marks=pytest.mark.nightly), 1600])
def test_thousands_of_tokens(
    tokens: int, dikkat: Command, trained: Path, tmp_path: Path, translator: Translator
) -> None:
    """A picture in tiles, of ordinary size (by night: it takes six seconds); JSON says what to do instead."""
    sentence = " ".join([SENTENCE] * math.floor((tokens - 10) / len(translator.encode(SENTENCE))))
    assert tokens - 100 < len(translator.encode(sentence)) < tokens
    arguments = ("attend", trained, sentence, "--target", "cato", "--out")
    is_drawn = tokens == 5000
    if is_drawn:
        assert dikkat(*arguments, tmp_path / "a.png", "--kind", "encoder", "--head", "1")[0] == 0
        with Image.open(tmp_path / "a.png") as image:
            assert max(image.size) <= 6000
    message = dikkat.fails(65, *arguments, tmp_path / "a.json")
    assert "JSON takes at most 5,000,000 weights; choose one layer or head, or write .npz" in message
    assert dikkat(*arguments, tmp_path / "b.json", "--kind", "cross")[0] == 0
    assert json.loads((tmp_path / "b.json").read_text())["sentences"][0]["source"] == sentence
    assert sorted(os.listdir(tmp_path)) == ["a.png", "b.json"][not is_drawn :]


def test_the_caution_of_a_map_goes_to_standard_error(
    dikkat: Command, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dikkat.explain.head_analysis.caution", lambda result: f"careful with {len(result.maps)} maps")
    _, output, complaint = dikkat("attend", trained, SENTENCE, "--out", tmp_path / "a.png")
    assert complaint == f"careful with 2 maps\nwrote {tmp_path / 'a.png'}\n"
    _, output, complaint = dikkat("attend", trained, SENTENCE, "--n-best", "2", "--out", tmp_path / "a.json")
    assert complaint == f"1: careful with 6 maps\n2: careful with 6 maps\nwrote {tmp_path / 'a.json'}\n"
    assert "careful" not in output


@pytest.mark.parametrize("name", ["a.json", "a.html", "a.svg"])
def test_no_byte_of_a_character_is_shown(dikkat: Command, trained: Path, tmp_path: Path, name: str) -> None:
    """Case 06: the toy vocabulary has none of these characters whole."""
    code, _, complaint = dikkat("attend", trained, "très güzel 我 😀", "--target", "déjà", "--out", tmp_path / name)
    assert code == 0, complaint
    content = (tmp_path / name).read_text(encoding="utf-8")
    if name != "a.svg":
        data = content if name == "a.json" else content.split('id="data"')[1]
        data = data.replace("\\u00e8", "è").replace("\\u00e9", "é")
        assert "è(1/2)" in data
        assert "é(2/2)" in data
    assert "\\\\x" not in content
    assert "Ã" not in content
