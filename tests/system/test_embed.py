"""`dikkat import` and `dikkat embed` as a user meets them."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from tests.system.toy import Command, toy_sentences
from tests.system.written_maps import written_maps
from tests.unit.interop.checkpoints import bert_folder, change_weights, gpt2_folder

from dikkat import Embedder, load
from dikkat_runtime.text.tokenizer import Tokenizer


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Eight sentences, an empty line and the first sentence once more."""
    sentences = [source for source, _ in toy_sentences(8)]
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{line}\n" for line in [*sentences, "", sentences[0]]), encoding="utf-8")
    return path


@pytest.mark.seed("A20")
def test_a_line_in_a_line_out(dikkat: Command, trained: Path, text: Path) -> None:
    code, output, complaint = dikkat("embed", trained, text)
    assert (code, complaint) == (0, "")
    rows = [line.split("\t") for line in output.split("\n")[:-1]]
    assert [sentence for sentence, _ in rows] == text.read_text().split("\n")[:-1]
    vectors = np.array([numbers.split(" ") for _, numbers in rows], dtype=np.float32)
    assert vectors.shape == (10, 64)
    assert not vectors[8].any()
    np.testing.assert_allclose(vectors[9], vectors[0], rtol=0, atol=1e-5)
    assert np.abs(vectors[1] - vectors[0]).max() > 0.1


def test_standard_input_and_every_format(
    dikkat: Command, trained: Path, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, shown, _ = dikkat("embed", trained, text)
    for kind in ("tsv", "jsonl", "npz"):
        stream = SimpleNamespace(buffer=io.BytesIO(text.read_bytes()), isatty=lambda: False)
        monkeypatch.setattr("sys.stdin", stream)
        out = tmp_path / f"v.{kind}"
        assert dikkat("embed", trained, "--out", out) == (0, "", f"wrote {out}\n")
    assert (tmp_path / "v.tsv").read_text(encoding="utf-8") == shown
    read = [json.loads(line) for line in (tmp_path / "v.jsonl").read_text(encoding="utf-8").split("\n")[:-1]]
    with np.load(tmp_path / "v.npz") as arrays:
        assert np.array_equal(arrays["vectors"], np.array([row["vector"] for row in read], dtype=np.float32))


def test_tokens_have_vectors_that_explain_reads(dikkat: Command, trained: Path, text: Path, tmp_path: Path) -> None:
    code, output, _ = dikkat("embed", trained, text, "--tokens")
    rows = [line.split("\t") for line in output.split("\n")[:-1]]
    assert code == 0
    assert {row[0] for row in rows} == {"1", "2", "3", "4", "5", "6", "7", "8", "10"}
    assert sum(row[1] == "<eos>" for row in rows) == 9
    (tmp_path / "words.txt").write_text("dog\nking\n")
    assert dikkat("embed", trained, tmp_path / "words.txt", "--out", tmp_path / "words.tsv")[0] == 0
    code, output, complaint = dikkat("explain", "dog king", "--vectors", tmp_path / "words.tsv")
    assert (code, complaint) == (0, "")
    assert "king" in output


@pytest.mark.seed("A20")
def test_the_nearest_neighbour_of_a_sentence_is_its_twin(dikkat: Command, trained: Path, text: Path) -> None:
    code, output, _ = dikkat("embed", trained, text, "--nearest", "2")
    rows = [line.split("\t") for line in output.split("\n")[:-1]]
    assert code == 0
    assert [row[0] for row in rows] == [line for line in [*"12345678", "10"] for _ in range(2)]
    assert rows[0] == ["1", rows[0][1], "1.0000", "10", rows[0][1]]
    assert rows[-2][3] == "1"
    for best, second in zip(rows[::2], rows[1::2], strict=True):
        assert float(best[2]) >= float(second[2])


def test_a_picture(dikkat: Command, trained: Path, text: Path, tmp_path: Path) -> None:
    for name, options in (("lines.png", ()), ("tokens.png", ("--tokens",))):
        code, output, complaint = dikkat("embed", trained, text, "--picture", tmp_path / name, *options)
        assert (code, output) == (0, "")
        before = complaint.removesuffix(f"wrote {tmp_path / name}\n")
        assert before != complaint
        assert before == "" or "room for" in before
        with Image.open(tmp_path / name) as image:
            assert np.asarray(image.convert("L")).std() > 5


def test_a_line_that_is_too_long_is_cut_and_that_is_said(dikkat: Command, trained: Path, tmp_path: Path) -> None:
    """Of 100,000 tokens as well."""
    (tmp_path / "long.txt").write_text("the dog\n" + "tree " * 100_000 + "\n" + "tree " * 300 + "\n")
    code, _, complaint = dikkat("embed", trained, tmp_path / "long.txt", "--out", tmp_path / "v.npz")
    assert code == 0
    tokens = len(Tokenizer.load(trained / "tokenizer.json").encode(("tree " * 100_000).strip()))
    assert tokens >= 100_000
    cut = f"the first, line 2, by {tokens - 255:,} tokens"
    message = f"2 lines are longer than the model reads and therefore cut; {cut}\n"
    assert complaint == f"{message}wrote {tmp_path / 'v.npz'}\n"


@pytest.mark.parametrize(
    ("code", "options", "message"),
    [
        (
            2,
            ("--nearest", "0"),
            "Invalid value for '--nearest': Input should be greater than or equal to 1. Try `dikkat embed --help`.",
        ),
        (2, ("--out", "v.csv"), "v.csv: is written as .npz or .tsv or .jsonl, not .csv; rename it"),
        (2, ("--picture", "v.gif"), "v.gif: is written as .png or .svg, not .gif; rename it"),
        (73, ("--out", "nowhere/v.npz"), "nowhere/v.npz: cannot be written: the folder nowhere does not exist; "),
    ],
)
def test_options_that_cannot_be(
    dikkat: Command, trained: Path, text: Path, code: int, options: tuple[str, ...], message: str
) -> None:
    assert dikkat.fails(code, "embed", trained, text, *options).startswith(message)


def test_bad_input_of_embed(dikkat: Command, trained: Path, tmp_path: Path) -> None:
    one = tmp_path / "one.txt"
    one.write_text("the dog\n\n")
    for option in (("--nearest", "1"), ("--picture", tmp_path / "p.png")):
        message = dikkat.fails(65, "embed", trained, one, *option)
        assert message == f"{option[0]} needs at least two texts that are not empty, not 1"
    assert "there is no such file" in dikkat.fails(66, "embed", trained, tmp_path / "nowhere.txt")
    assert "there is no such run directory" in dikkat.fails(66, "embed", tmp_path / "nowhere", one)
    (tmp_path / "latin1.txt").write_bytes("café\n".encode("latin-1"))
    assert "latin1.txt:1:4: byte 0xE9 is not valid UTF-8" in dikkat.fails(65, "embed", trained, tmp_path / "latin1.txt")


def test_an_imported_bert_embeds_and_an_imported_gpt2_writes(dikkat: Command, text: Path, tmp_path: Path) -> None:
    for make, use in ((bert_folder, "embed"), (gpt2_folder, "generate")):
        out = tmp_path / use
        code, output, complaint = dikkat("import", make(tmp_path / make.__name__), "--out", out)
        assert (code, output) == (0, "")
        assert f"try: echo … | dikkat {use} {out}" in complaint
        assert dikkat("embed", out, text, "--out", tmp_path / "v.npz")[0] == 0
    code, output, _ = dikkat("generate", tmp_path / "generate", "A dog", "--max-tokens", "50")
    assert code == 0
    assert output.startswith("A dog")
    assert len(output) > 10


def test_attend_shows_an_encoder_with_its_special_tokens(dikkat: Command, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert dikkat("import", bert_folder(tmp_path / "theirs"), "--out", out)[0] == 0
    for name in ("a.png", "a.svg", "a.npz", "a.json"):
        assert dikkat("attend", out, "the dog sees a cat", "--out", tmp_path / name) == (
            0,
            "",
            f"wrote {tmp_path / name}\n",
        )
    (result,) = written_maps(tmp_path / "a.json")
    assert result.source_tokens == ("[CLS]", "the", "dog", "sees", "a", "cat", "[SEP]")
    assert (result.output, result.output_tokens, len(result.maps)) == ("", (), 2 * 3)
    arguments = ("attend", out, "the dog", "--out", tmp_path / "b.json")
    assert dikkat.fails(2, *arguments, "--kind", "decoder") == (
        "--kind decoder: an encoder has no decoder self-attention; choose from encoder"
    )
    assert "--words joins the subwords of dikkat's own tokenizers, not those of an imported" in dikkat.fails(
        2, *arguments, "--words"
    )
    assert not (tmp_path / "b.json").exists()


def test_other_commands_refuse_an_encoder_in_one_line(dikkat: Command, text: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert dikkat("import", bert_folder(tmp_path / "theirs"), "--out", out)[0] == 0
    for command, kind in (("translate", "a translator"), ("generate", "a language model")):
        assert dikkat.fails(2, command, out, text) == (
            f"{out}: holds an encoder, not {kind}; try: echo … | dikkat embed {out}"
        )
    loaded = load(out)
    assert isinstance(loaded, Embedder)
    (vector,) = loaded.sentences(["the dog"])
    assert vector.values.any()


def test_heads_that_are_left_out_are_named(dikkat: Command, tmp_path: Path) -> None:
    folder = bert_folder(tmp_path / "theirs")
    change_weights(folder, classifier__weight=torch.zeros(2, 24))
    _, _, complaint = dikkat("import", folder, "--out", tmp_path / "run")
    assert complaint.startswith("left out, heads of other tasks: classifier.weight\n")
    assert "classifier.weight" in (tmp_path / "run" / "card.md").read_text(encoding="utf-8")


def test_bad_input_of_import_leaves_nothing(dikkat: Command, tmp_path: Path) -> None:
    """What can be wrong with a folder is tried in tests/unit/interop; here is what the user sees."""
    out = tmp_path / "run"
    assert "there is no such folder" in dikkat.fails(66, "import", tmp_path / "nowhere", "--out", out)
    folder = bert_folder(tmp_path / "theirs")
    change_weights(folder, embeddings__LayerNorm__bias=None)
    message = dikkat.fails(65, "import", folder, "--out", out)
    assert message.endswith("model.safetensors: the weight embeddings.LayerNorm.bias is missing")
    (folder / "config.json").write_text('{"model_type": "rwkv"}')
    message = dikkat.fails(65, "import", folder, "--out", out)
    assert "config.json: model_type 'rwkv' is not supported; known: albert, bart, bert, " in message
    assert not out.exists()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    other = bert_folder(tmp_path / "other")
    assert "holds files that are not of a run" in dikkat.fails(73, "import", other, "--out", folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
