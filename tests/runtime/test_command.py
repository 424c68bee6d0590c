"""The command `dikkat-runtime`: what it prints, and one line for each mistake."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.runtime.runs import SENTENCES, classifier_run, language_model_run, translator_run

pytest.importorskip("dikkat_runtime", reason="dikkat-runtime is not installed: pip install -e ./runtime")

from tests.command_lines import run_without_dikkat as run_command

from dikkat_runtime.tasks import term_placement

BLOCKED = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "dikkat", "transformers"):
            raise ImportError(f"{name} is blocked")
sys.meta_path.insert(0, Blocked())
from dikkat_runtime.cli.main import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.fixture
def translator(tmp_path: Path) -> Path:
    return translator_run(tmp_path / "translator")


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{sentence}\n" for sentence in SENTENCES), encoding="utf-8")
    return path


def fails(capsys: pytest.CaptureFixture[str], exit_code: int, *arguments: str | Path) -> str:
    """The one line on standard error of a command that must fail."""
    assert run_command([str(argument) for argument in arguments]) == exit_code
    output, complaint = capsys.readouterr()
    assert output == ""
    assert complaint.startswith("dikkat: ")
    assert complaint.count("\n") == 1
    return complaint


def test_all_commands_run_where_torch_cannot_be_imported(tmp_path: Path, translator: Path, lines: Path) -> None:
    classifier, model = classifier_run(tmp_path / "classifier"), language_model_run(tmp_path / "lm")
    for arguments, count in (
        (["translate", translator, lines], len(SENTENCES)),
        (["translate", translator, lines, "--precision", "int8"], len(SENTENCES)),
        (["classify", classifier, lines], len(SENTENCES)),
        (["embed", translator, lines], len(SENTENCES)),
        (["generate", model, "The", "--max-tokens", "5", "--greedy"], None),
    ):
        command = [sys.executable, "-c", BLOCKED, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        if count is not None:
            assert done.stdout.count("\n") == count
        assert "engine" in done.stderr or arguments[0] == "embed"


def test_classify_writes_an_object_a_line(tmp_path: Path, lines: Path, capsys: pytest.CaptureFixture[str]) -> None:
    classifier = classifier_run(tmp_path / "classifier")
    assert run_command(["classify", str(classifier), str(lines)]) == 0
    plain = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert run_command(["classify", str(classifier), str(lines), "--json"]) == 0
    objects = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["line"] for row in objects] == list(range(1, len(SENTENCES) + 1))
    for row, (label, probability) in zip(objects, plain, strict=True):
        assert row["labels"] == ([label] if label else [])
        if label:
            assert f"{row['probabilities'][label]:.4f}" == probability
    assert "leave out --words" in fails(capsys, 2, "classify", classifier, lines, "--json", "--words", "2")


def test_help_is_printed_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([]) == 0
    assert "translate" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("damage", "exit_code", "said"),
    [
        (lambda run: (run / "model.safetensors").unlink(), 66, "model.safetensors"),
        (lambda run: (run / "tokenizer.json").unlink(), 66, "tokenizer.json"),
        (lambda run: (run / "config.json").unlink(), 66, "config.json"),
        (lambda run: (run / "config.json").write_text("[" * 100_000), 65, "not valid JSON"),
        (lambda run: (run / "config.json").write_text("{}"), 65, "format_version"),
        (lambda run: (run / "tokenizer.json").write_text("{}"), 65, "tokenizer"),
        (lambda run: (run / "model.safetensors").write_bytes(b"\xff" * 8), 65, "damaged"),
        (lambda run: _flip(run / "model.safetensors", 9_000), 65, "checksum"),
        (lambda run: _flip(run / "model.safetensors", 40), 65, "damaged"),
        (lambda run: _set(run, "vocab_size", 401), 65, "output_weight"),
        (lambda run: _set(run, "encoder_layers", 10**9), 65, "encoder_layers"),
        (lambda run: _set(run, "encoder_layers", 3), 65, "missing"),
        (lambda run: _set(run, "encoder_layers", 1), 65, "no parameter is called"),
        (lambda run: _set(run, "num_heads", 0), 65, "num_heads"),
        (lambda run: _set(run, "positions", "alibi"), 2, "model.positions = alibi"),
        (lambda run: _set(run, "norm", "rms"), 2, "model.norm = rms"),
        (lambda run: _set(run, "output_bias", True), 65, "output_bias is missing"),
        (lambda run: _set(run, "target_vocab_size", 330), 65, "output_weight has the shape"),
        (lambda run: _set(run, "positions_in_every_layer", True), 2, "model.positions_in_every_layer = True"),
        (lambda run: _set(run, "unheard_of", 1), 2, "model.unheard_of"),
    ],
)
@pytest.mark.usefixtures("without_dikkat")
def test_a_damaged_or_foreign_run_is_one_line(
    capsys: pytest.CaptureFixture[str], translator: Path, lines: Path, damage: object, exit_code: int, said: str
) -> None:
    damage(translator)  # type: ignore[operator]
    assert said in fails(capsys, exit_code, "translate", translator, lines)


def test_wrong_options_and_inputs_are_one_line(
    capsys: pytest.CaptureFixture[str], translator: Path, lines: Path, tmp_path: Path
) -> None:
    for size, reason in (("0", "greater than or equal to 1"), ("1001", "less than or equal to 1000")):
        message = fails(capsys, 2, "translate", translator, lines, "--beam", size)
        assert message == (
            f"dikkat: Invalid value for '--beam': Input should be {reason}. Try `dikkat translate --help`.\n"
        )
    assert "a valid integer" in fails(capsys, 2, "translate", translator, lines, "--beam", "9" * 5_000)
    fails(capsys, 2, "translate", translator, lines, "--threads", "0")
    fails(capsys, 2, "translate", translator, lines, "--colour")
    fails(capsys, 2, "classify", translator, lines)
    fails(capsys, 66, "translate", tmp_path / "nowhere", lines)
    complaint = run_command(["translate", str(translator), str(tmp_path / "none.txt")])
    assert complaint == 66
    assert "none.txt" in capsys.readouterr().err
    binary = tmp_path / "binary.txt"
    binary.write_bytes(b"good\n\xff\xfe\n")
    assert run_command(["translate", str(translator), str(binary)]) == 65
    assert "binary.txt:2" in capsys.readouterr().err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_74_and_a_closed_pipe_141(translator: Path, lines: Path) -> None:
    command = [sys.executable, "-m", "dikkat_runtime", "translate", str(translator), str(lines)]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 74
    assert "Traceback" not in done.stderr
    many = lines.with_name("many.txt")
    many.write_text("Yes.\n" * 5_000, encoding="utf-8")
    piped = f"{' '.join([*command[:-1], str(many)])} 2>{lines.with_name('errors')} | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", piped], capture_output=True, text=True, check=False)
    assert done.returncode == 141
    assert lines.with_name("errors").read_text().count("\n") == 1  # which engine runs, and nothing else


def test_standard_input_is_utf8_whatever_the_locale(
    capsysbinary: pytest.CaptureFixture[bytes], translator: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("Où ?\nYes.\n".encode()), encoding="ascii"))
    assert run_command(["translate", str(translator)]) == 0


def _flip(path: Path, index: int) -> None:
    content = bytearray(path.read_bytes())
    content[index] ^= 1
    path.write_bytes(content)


def _set(run: Path, name: str, value: object) -> None:
    path = run / "config.json"
    config = json.loads(path.read_text())
    config["model"][name] = value
    path.write_text(json.dumps(config))
    (run / "manifest.json").unlink()


def test_a_line_without_words_is_copied_and_a_cut_one_is_noted(
    capsys: pytest.CaptureFixture[str], translator: Path, tmp_path: Path
) -> None:
    config = json.loads((translator / "config.json").read_text())
    config["data_source"] = {"source_lines": {"longest": 20, "usual": 20, "several_sentences": 0.0}}
    (translator / "config.json").write_text(json.dumps(config))
    (translator / "manifest.json").unlink()
    path = tmp_path / "odd.txt"
    path.write_text(f"-\n00:01 --> 00:02\n  \nYes.\nYes. Where are my keys?\n{'my keys ' * 40}\n", encoding="utf-8")
    assert run_command(["translate", str(translator), str(path)]) == 0
    output, notes = capsys.readouterr()
    assert output.split("\n")[:3] == ["-", "00:01 --> 00:02", "  "]
    assert output.count("\n") == 6
    assert "1 line had a sentence that the model cannot read in one piece and that was cut (line 6)" in notes
    assert run_command(["translate", str(translator), str(path), "--n-best", "2", "--beam", "3"]) == 0
    numbered = [line.split("\t") for line in capsys.readouterr().out.split("\n")[:-1]]
    # the two sentences of a line are read apart and written as one
    assert [number for number, *_ in numbered].count("5") == 2


def test_terms_prefixes_and_confidence_are_asked_for_by_options(
    capsys: pytest.CaptureFixture[str],
    translator: Path,
    lines: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # random weights look at no word more than at others: with this limit no place is clear
    monkeypatch.setattr(term_placement, "CLEAR", 1.0)
    terms, typed = tmp_path / "terms.tsv", tmp_path / "typed.txt"
    terms.write_text("dog\tHund\n", encoding="utf-8")
    typed.write_text("Die \n" + "\n" * (len(SENTENCES) - 1), encoding="utf-8")
    asked = ["translate", str(translator), str(lines), "--beam", "2"]
    assert run_command([*asked, "--glossary", str(terms), "--prefix", str(typed)]) == 0
    output, messages = capsys.readouterr()
    assert output.startswith("Die ")
    assert "glossary: 1 term in 1 text" in messages
    assert "glossary: 1 term not placed, since other words would be lost: dog → Hund (line 3)" in messages
    typed.write_text("Die \n", encoding="utf-8")
    assert run_command([*asked, "--prefix", str(typed)]) == 65
    assert capsys.readouterr().err.endswith(
        "more lines of text than prefixes (1); give one per line, empty where there is none\n"
    )
    fails(capsys, 2, *asked[:3], "--glossary", terms, "--sample")
    fails(capsys, 2, *asked, "--abstain", "2")
    terms.write_text("dog\tHund\ndog\tKatze\n", encoding="utf-8")
    assert run_command([*asked, "--glossary", str(terms)]) == 65
    assert f"{terms}:2: dog is translated differently in line 1" in capsys.readouterr().err
    # random weights come without a validation part
    assert run_command([*asked, "--confidence"]) == 66
    assert "validation.source.txt" in capsys.readouterr().err


def test_a_document_is_translated_by_the_options_of_lines(
    tmp_path: Path, translator: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, lines, out = tmp_path / "page.md", tmp_path / "lines", tmp_path / "out.md"
    for file in (page, lines):
        file.write_text("two dogs play\n")
    written = set[str]()
    for words in ([], ["--no-repeat-ngram", "0"]):
        assert run_command(["translate", str(translator), str(lines), *words]) == 0
        as_line = capsys.readouterr().out
        assert run_command(["translate", str(translator), str(page), "--out", str(out), *words]) == 0
        assert out.read_text() == as_line
        written.add(as_line)
    # this model repeats itself, and only one of the two lets it
    assert len(written) == 2
