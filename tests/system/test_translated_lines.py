"""`dikkat translate` on text of any kind: no line is lost, none is answered in part without a word."""

from __future__ import annotations

import io
import shutil
import sys
from pathlib import Path

import pytest
from tests.system.toy import Command, one_line, toy_sentences

from dikkat import Translator
from dikkat_runtime.text.segmentation import join

KNOWN = [source for source, _ in toy_sentences(480)[400:412]]


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    """With the precision that the command chooses."""
    return Translator.load(trained, "auto")


def text_file(folder: Path, lines: list[str]) -> Path:
    path = folder / "text"
    path.write_bytes("".join(f"{line}\n" for line in lines).encode())
    return path


def alone(translator: Translator, lines: list[str]) -> list[str]:
    return [item.text for item in translator.translate(lines)]


def test_the_sentences_of_a_line_are_all_translated(
    dikkat: Command, trained: Path, translator: Translator, tmp_path: Path
) -> None:
    """And a line of many words, and one of an old Mac; what stands on other lines stays as it is."""
    sentences = [f"{item}." for item in KNOWN]
    lines = [KNOWN[0], " ".join(sentences[:4]), "\r".join(KNOWN[4:6]), " ".join(sentences * 40), KNOWN[1]]
    code, output, notes = dikkat("translate", trained, text_file(tmp_path, lines))
    item = alone(translator, sentences)
    assert code == 0
    assert output.split("\n")[:-1] == [
        *alone(translator, KNOWN[:1]),
        join(item[:4]),
        join(alone(translator, KNOWN[4:6])),
        join(item * 40),
        *alone(translator, KNOWN[1:2]),
    ]
    assert "1 line had a carriage return (\\r) inside" in notes
    assert "(line 3)" in notes


def test_a_sentence_that_is_too_long_is_cut_and_told(dikkat: Command, trained: Path, tmp_path: Path) -> None:
    lines = [KNOWN[0], " ".join(KNOWN), KNOWN[1]]
    code, output, notes = dikkat("translate", trained, text_file(tmp_path, lines))
    assert code == 0
    written = output.split("\n")
    assert len(written[1].split()) >= len(KNOWN) * 4
    assert "1 line had a sentence that the model cannot read in one piece and that was cut (line 2)\n" in notes


def test_lines_without_words_come_back(dikkat: Command, trained: Path, tmp_path: Path) -> None:
    lines = ["1", "00:00:02,830 --> 00:00:05,560", KNOWN[0], "", "-", "...", "%s", "  ", "<br/>", "\u00a0", "2024"]
    code, output, notes = dikkat("translate", trained, text_file(tmp_path, lines))
    assert (code, notes) == (0, "")
    assert [line for index, line in enumerate(output.split("\n")[:-1]) if index != 2] == lines[:2] + lines[3:]


def test_what_did_not_survive_is_told_in_one_line(dikkat: Command, trained: Path, tmp_path: Path) -> None:
    lines = [KNOWN[0], f"{KNOWN[1]} %(name)s", f"{KNOWN[2]} {{count}} 1999"]
    _, output, notes = dikkat("translate", trained, text_file(tmp_path, lines))
    assert "lost or changed: numbers in 1 of 1 line (line 3: 1999)\n" in notes
    _, second, third, _ = output.split("\n")
    assert second.count("%(name)s") == third.count("{count}") == 1


@pytest.mark.parametrize("from_file", [True, False])
def test_a_line_beyond_the_limit_stops_no_other(
    dikkat: Command,
    trained: Path,
    translator: Translator,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    from_file: bool,
) -> None:
    lines = [KNOWN[0], "a" * 1_000_001, KNOWN[1], "b" * 3_000_000, KNOWN[2]]
    text = text_file(tmp_path, lines)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.read_bytes())))
    code, output, complaint = dikkat("translate", trained, *([text] if from_file else []))
    first, second, third = alone(translator, KNOWN[:3])
    assert output.split("\n") == [first, "", second, "", third, ""]
    where = str(text) if from_file else "standard input"
    assert one_line(code, complaint, 65) == (
        f"{where}:2: the line has 1,000,001 bytes, over the limit of 1,000,000; break it into sentences;"
        " it was left empty (and 1 more of this kind)"
    )


def test_a_word_of_a_megabyte_is_copied(dikkat: Command, trained: Path, tmp_path: Path) -> None:
    word = "a" * 999_000
    code, output, notes = dikkat("translate", trained, text_file(tmp_path, [KNOWN[0], word, KNOWN[1]]))
    assert code == 0
    assert output.split("\n")[1] == word
    assert notes == "1 line had a word that the model cannot read in one piece and that was copied (line 2)\n"


def test_lines_before_a_broken_one_are_written(
    dikkat: Command, trained: Path, translator: Translator, tmp_path: Path
) -> None:
    text = text_file(tmp_path, KNOWN[:2])
    text.write_bytes(text.read_bytes() + b"\xff\n" + KNOWN[2].encode())
    code, output, complaint = dikkat("translate", trained, text)
    assert "text:3:1: byte 0xFF is not valid UTF-8" in one_line(code, complaint, 65)
    assert output.split("\n") == [*alone(translator, KNOWN[:2]), ""]


def test_repetition_can_be_limited(dikkat: Command, trained: Path, tmp_path: Path) -> None:
    text = text_file(tmp_path, [" ".join(["dog"] * 7), KNOWN[0]])
    free = dikkat("translate", trained, text)[1].split("\n")[0].split()
    for option in ("--no-repeat-ngram=1", "--repetition-penalty=1000"):
        for way in ((), ("--beam", "1"), ("--sample",)):
            code, output, _ = dikkat("translate", trained, text, option, *way)
            assert code == 0
            held = output.split("\n")[0].split()
            assert len(held) - len(set(held)) < max(1, len(free) - len(set(free)))
    message = dikkat.fails(2, "translate", trained, text, "--no-repeat-ngram", "-1")
    assert message == "--no-repeat-ngram must be a whole number of at least 0, not -1"


def test_the_engine_is_told_and_can_be_chosen(dikkat: Command, trained: Path, tmp_path: Path) -> None:
    text = text_file(tmp_path, KNOWN[:2])
    outputs = []
    for engine in ("auto", "native", "torch"):
        code, output, notes = dikkat("translate", trained, text, "--engine", engine, "--precision", "float32")
        assert (code, notes) == (0, "")
        assert dikkat.engine.startswith(f"{'torch' if engine == 'torch' else 'native'} engine")
        assert ", float32, " in dikkat.engine
        outputs.append(output)
    assert outputs[0] == outputs[1] == outputs[2] != ""
    assert dikkat("translate", trained, text, "--precision", "int8")[0] == 0
    assert ", int8, " in dikkat.engine


def test_no_other_engine_takes_the_place_of_one_that_cannot_run(
    dikkat: Command, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = text_file(tmp_path, KNOWN[:1])
    assert "Invalid value for '--engine': 'fast' is not one of 'auto', 'native', 'torch'." in dikkat.fails(
        2, "translate", trained, text, "--engine", "fast"
    )
    message = dikkat.fails(2, "translate", trained, text, "--engine", "torch", "--precision", "int8")
    assert message == "int8 is for the native engine; leave out --precision or --engine torch"
    monkeypatch.setenv("DIKKAT_NATIVE", "0")
    message = dikkat.fails(2, "translate", trained, text, "--engine", "native")
    assert message == "the native engine cannot run here: DIKKAT_NATIVE=0"
    message = dikkat.fails(2, "translate", trained, text, "--precision", "int8")
    assert message == "int8 needs the native engine, which cannot run here: DIKKAT_NATIVE=0; leave int8 out"
    assert dikkat("translate", trained, text)[0] == 0
    assert dikkat.engine.endswith("; not native: DIKKAT_NATIVE=0")


def test_a_correction_is_told_listed_used_and_forgotten(dikkat: Command, trained: Path, tmp_path: Path) -> None:
    run = shutil.copytree(trained, tmp_path / "run")
    source, near = KNOWN[0], f"{KNOWN[0]} {KNOWN[1].split()[0]}"
    text = text_file(tmp_path, [source, near])
    plain = dikkat("translate", run, text)[1]
    assert dikkat("correct", run, source, "tute alia") == (0, "", f"kept {source} → tute alia; 1 correction in all\n")
    code, _, notes = dikkat("correct", run, source, "alia vorto")
    assert (code, notes) == (0, f"kept {source} → alia vorto instead of tute alia; 1 correction in all\n")
    assert dikkat("correct", run, "--list")[1] == f"{source}\talia vorto\n"
    ours, theirs = set(source.split()), set(near.split())
    similarity = 2 * len(ours & theirs) / (len(ours) + len(theirs))
    assert dikkat("correct", run, "--near", near)[1] == f"{similarity:.2f}\t{source}\talia vorto\n"
    assert dikkat("translate", run, text)[1].split("\n")[0] == "alia vorto"
    assert dikkat("translate", run, text, "--no-corrections")[1] == plain
    assert dikkat("correct", run, "--remove", source)[2] == "removed; 0 corrections in all\n"
    assert dikkat("translate", run, text)[1] == plain
    for wrong in (["--near"], ["--list", source], ["--near", "--remove", source], [source], ["--remove", source]):
        assert dikkat("correct", run, *wrong)[0] == 2
