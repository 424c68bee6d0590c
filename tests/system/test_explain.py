"""`dikkat explain` on a model that was trained by the same program: numbers, languages, forms, bad input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.system.toy import Command

from dikkat import Translator

SENTENCE = "the red dog sees my cat"


@pytest.mark.seed("D10")
@pytest.mark.parametrize("place", [[], ["--kind", "cross", "--query", "2"], ["--stack", "decoder", "--query", "3"]])
def test_the_numbers_are_those_of_the_model(dikkat: Command, trained: Path, place: list[str]) -> None:
    code, output, complaint = dikkat("explain", SENTENCE, "--run", trained, "--head", "2", "--json", *place)
    assert (code, complaint) == (0, "")
    result = json.loads(output)
    assert result["cell"]["largest_difference"] <= 1e-6
    np.testing.assert_allclose(result["total"], result["cell"]["module_output"], rtol=0, atol=1e-6)
    cell = result["cell"]
    (expected,) = (
        item.weights[result["query"]["number"] - 1]
        for item in Translator.load(trained).attend(SENTENCE)
        if (item.stack, item.kind, item.layer, item.head) == (cell["stack"], cell["kind"], 0, 1)
    )
    np.testing.assert_allclose(result["weights"], expected, rtol=0, atol=1e-6)


@pytest.mark.seed("D18")
@pytest.mark.parametrize(("language", "step"), [("en", "Step"), ("tr", "Adım")])
def test_the_six_steps_on_the_users_own_model(dikkat: Command, trained: Path, language: str, step: str) -> None:
    arguments = ["--kind", "cross", "--query", "2", "--language", language]
    code, output, complaint = dikkat("explain", SENTENCE, "--run", trained, *arguments)
    assert (code, complaint) == (0, "")
    indices = [output.index(f"{step} {number}. ") for number in range(1, 7)]
    assert indices == sorted(indices)
    assert SENTENCE in output
    assert "√32 = 5.6569" in output


@pytest.mark.seed("D7")
def test_all_terms_on_request(dikkat: Command, trained: Path) -> None:
    arguments = ("explain", SENTENCE, "--run", str(trained))
    short, full = dikkat(*arguments)[1], dikkat(*arguments, "--full")[1]
    assert "(+29)" in short
    assert "…" not in full
    keys = short.count("(+29)")
    assert full.count("·") >= 32 * keys


@pytest.mark.parametrize(
    ("code", "arguments", "message"),
    [
        (2, ["--layer", "2"], "there is no layer 2 in the encoder: choose from 1 to 1"),
        (2, ["--layer", "0"], "there is no layer 0 in the encoder: choose from 1 to 1"),
        (2, ["--head", "3"], "there is no head 3: choose from 1 to 2"),
        (2, ["--head", "0"], "there is no head 0: choose from 1 to 2"),
        (2, ["--stack", "encoder", "--kind", "cross"],
            "there is no cross-attention in the encoder; only a decoder attends to a source"),
        (2, ["--target", "x"],
            "only the decoder reads a translation: leave out --target, or choose --stack decoder"),
    ],
)  # fmt: skip
def test_bad_places(dikkat: Command, trained: Path, code: int, arguments: list[str], message: str) -> None:
    assert dikkat.fails(code, "explain", SENTENCE, "--run", trained, *arguments) == message


def test_bad_queries_and_sentences(dikkat: Command, trained: Path) -> None:
    assert dikkat.fails(2, "explain", SENTENCE, "--run", trained, "--query", "99").startswith("there is no query 99; ")
    assert "occurs at" not in dikkat.fails(2, "explain", SENTENCE, "--run", trained, "--query", "unicorn")
    assert "an empty sentence" in dikkat.fails(65, "explain", " ", "--run", trained)
    for index in (["7" * 3000], [SENTENCE, "--stack", "decoder", "--target", "7" * 3000]):
        assert "tokens, over the limit of 2,000; shorten it" in dikkat.fails(65, "explain", *index, "--run", trained)


def test_what_would_steer_a_terminal_is_shown_and_not_obeyed(dikkat: Command, trained: Path, tmp_path: Path) -> None:
    hostile = "the \x1b[31mred\x1b]0;t\x07 \u202edog\0"
    for arguments in (
        ("explain", hostile, "--run", trained),
        ("attend", trained, SENTENCE, "--target", hostile, "--out", tmp_path / "a.json"),
    ):
        code, output, complaint = dikkat(*arguments)
        assert code == 0, complaint
        assert "\\x1b" in output
        assert not {"\x1b", "\x07", "\0", "\u202e"} & set(output + complaint)
