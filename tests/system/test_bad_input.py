"""Whatever is wrong with what a user gives: one line, the right exit code, and nothing lost or half-written."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.system.toy import Command, one_line, settings, toy_sentences

TRAIN = ("train", "translator")


def content_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def flip_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) * 2 // 3] ^= 0x10
    path.write_bytes(content)


def half_written(folder: Path) -> list[str]:
    names = [path.name for path in folder.rglob("*")]
    return [name for name in names if name.startswith((".writing", ".replaced")) or name.endswith(".partial")]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """60 sentences in English and in the toy language, each with a number that tells the pairs apart."""
    pairs = toy_sentences(60)
    paths = tmp_path / "train.en", tmp_path / "train.eo"
    for path, side in zip(paths, (0, 1), strict=True):
        path.write_text("".join(f"{pair[side]} {100 + 7 * n}\n" for n, pair in enumerate(pairs)), encoding="utf-8")
    return paths


class TestData:
    """Nothing is left in the output directory, so that the corrected command can be given as it was."""

    @pytest.fixture(autouse=True)
    def _nothing_is_left(self, out: Path) -> Iterator[None]:
        yield
        assert not out.exists() or list(out.iterdir()) == []

    def test_unequal_line_counts(self, dikkat: Command, files: tuple[Path, Path], out: Path) -> None:
        source, target = files
        lines = target.read_text().split("\n")
        del lines[39]
        target.write_text("\n".join(lines))
        message = dikkat.fails(65, *TRAIN, source, target, "--out", out)
        assert message.startswith(f"{source} has 60 lines, but {target} has 59; the pairing seems to shift near line ")
        line = int(message.partition("near line ")[2].partition(";")[0])
        assert abs(line - 40) <= 1

    def test_missing_file(self, dikkat: Command, files: tuple[Path, Path], out: Path) -> None:
        source, target = files
        message = dikkat.fails(66, *TRAIN, source, target.with_name("trian.eo"), "--out", out)
        assert message == f'{target.with_name("trian.eo")}: there is no such file; did you mean "train.eo"?'

    def test_empty_file(self, dikkat: Command, files: tuple[Path, Path], out: Path) -> None:
        source, target = files
        target.write_bytes(b"")
        assert dikkat.fails(65, *TRAIN, source, target, "--out", out) == f"{target}: the file is empty"

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
    def test_utf16(self, dikkat: Command, files: tuple[Path, Path], out: Path, encoding: str) -> None:
        source, target = files
        target.write_bytes(target.read_text().encode(encoding))
        message = dikkat.fails(65, *TRAIN, source, target, "--out", out)
        assert message == f"{target}: looks like UTF-16; convert with iconv -f UTF-16 -t UTF-8"

    def test_invalid_utf8(self, dikkat: Command, files: tuple[Path, Path], out: Path) -> None:
        source, target = files
        lines = target.read_bytes().split(b"\n")
        lines[16] = "çé".encode() + b"ab\xe9 cd"
        target.write_bytes(b"\n".join(lines))
        message = dikkat.fails(65, *TRAIN, source, target, "--out", out)
        assert message.startswith(f"{target}:17:5: byte 0xE9 is not valid UTF-8")

    def test_a_line_of_5_megabytes(self, dikkat: Command, files: tuple[Path, Path], out: Path) -> None:
        source, target = files
        with target.open("a") as file:
            file.write("word " * 1_000_000 + "\n")
        with source.open("a") as file:
            file.write("short\n")
        message = dikkat.fails(65, *TRAIN, source, target, "--out", out)
        assert message.startswith(f"{target}:61: the line has 5,000,000 bytes, over the limit of ")

    def test_a_file_of_an_unknown_kind(self, dikkat: Command, files: tuple[Path, Path], out: Path) -> None:
        message = dikkat.fails(2, *TRAIN, files[0], "--out", out)
        assert message.startswith(f"{files[0]}: cannot tell from its name how to read pairs from it; known: .tsv")

    def test_too_few_pairs(self, dikkat: Command, tmp_path: Path, out: Path) -> None:
        data = tmp_path / "few.tsv"
        data.write_text("the dog\tla hundo\nthe cat\tla kato\n")
        message = dikkat.fails(65, *TRAIN, data, "--out", out)
        assert message.startswith(
            f"{data}: 2 pairs to train on and 0 to validate on are left after cleaning; give more"
        )

    def test_validation_data_is_checked_as_well(self, dikkat: Command, files: tuple[Path, Path], out: Path) -> None:
        missing = files[0].with_name("valid.tsv")
        message = dikkat.fails(66, *TRAIN, *files, "--valid", missing, "--out", out)
        assert message.startswith(f"{missing}: there is no such file")

    @pytest.mark.parametrize("language", ["klingon", ""])
    def test_an_unknown_phrasebook(self, dikkat: Command, out: Path, language: str) -> None:
        message = dikkat.fails(2, *TRAIN, f"phrasebook:{language}", "--out", out)
        assert message == f'the phrasebook has no pair "{language}"; choose one of en-fr, en-tr, tr-en'

    @pytest.mark.parametrize(
        ("setting", "message"),
        [
            ("training.learning_rat=1", 'unknown key "training.learning_rat"; did you mean "learning_rate"?'),
            ("trainin.seed=1", 'unknown key "trainin"; did you mean "training"?'),
            ("training.max_epochs=inf", "training.max_epochs: input should be a finite number, not inf"),
            ("training.minutes=nan", "training.minutes: input should be a finite number, not nan"),
            ("training.minutes=-3", "training.minutes: input should be greater than 0, not -3"),
            ("training.seed=-1", "training.seed: input should be greater than or equal to 0, not -1"),
            (
                "training.seed=9223372036854775808",
                "training.seed: input should be less than 9223372036854775808, not 9223372036854775808",
            ),
            (
                "model.model_dim=1000000000000000000000000",
                "model.model_dim: input should be less than or equal to 32768, not 1000000000000000000000000",
            ),
            (
                "training.seed=" + 5000 * "9",
                "training.seed: unable to parse input string as an integer, exceeded maximum size, not '"
                + 59 * "9"
                + "…",
            ),
            (
                "training.seed=" + 5000 * "[",
                "training.seed: input should be a valid integer, unable to parse string as an integer, not '"
                + 59 * "["
                + "…",
            ),
            (
                "model.dropout=0.1\ndropout = 0.2",
                "model.dropout: input should be a valid number, unable to parse string as a number,"
                " not '0.1\\ndropout = 0.2'",
            ),
            ("model.dropout=2", "model.dropout: input should be less than 1, not 2"),
            (
                "model.num_heads=3",
                "model: num_heads must divide model_dim, but 3 does not divide 128; set head_dim to free the two",
            ),
        ],
    )
    def test_settings(self, dikkat: Command, toy_data: Path, out: Path, setting: str, message: str) -> None:
        assert dikkat.fails(2, *TRAIN, toy_data, "--out", out, "--set", setting) == f"settings: {message}"

    def test_a_setting_without_a_section(self, dikkat: Command, toy_data: Path, out: Path) -> None:
        message = dikkat.fails(2, *TRAIN, toy_data, "--out", out, "--set", "dropout=0.2")
        assert message == '--set needs section.key=value, as in model.dropout=0.2, not "dropout=0.2"'

    @pytest.mark.parametrize(
        ("text", "code", "message"),
        [
            ("[model]\nmodel_dimm = 64\n", 2, 'unknown key "model.model_dimm"; did you mean "model_dim"?'),
            ("[model\n", 65, "not valid TOML: "),
            ("[training]\nseed = " + 5000 * "9", 65, "not valid TOML: a number has thousands of digits, or brackets"),
            ("[training]\nseed = " + 5000 * "[", 65, "not valid TOML: a number has thousands of digits, or brackets"),
            ("minutes = 3\n", 2, '"minutes" stands outside a section; write it under a heading such as [training]'),
        ],
    )
    def test_config_file(
        self, dikkat: Command, toy_data: Path, tmp_path: Path, out: Path, text: str, code: int, message: str
    ) -> None:
        config = tmp_path / "config.toml"
        config.write_text(text)
        assert dikkat.fails(code, *TRAIN, toy_data, "--out", out, "--config", config).startswith(f"{config}: {message}")

    def test_config_file_that_cannot_be_read(self, dikkat: Command, toy_data: Path, tmp_path: Path, out: Path) -> None:
        missing = tmp_path / "none.toml"
        message = dikkat.fails(66, *TRAIN, toy_data, "--out", out, "--config", missing)
        assert message == f"{missing}: there is no such configuration file"
        message = dikkat.fails(66, *TRAIN, toy_data, "--out", out, "--config", tmp_path)
        assert message == f"{tmp_path}: cannot be read: Is a directory"
        binary = tmp_path / "binary.toml"
        binary.write_bytes(bytes(range(256)))
        message = dikkat.fails(65, *TRAIN, toy_data, "--out", out, "--config", binary)
        assert message.startswith(f"{binary}: not valid TOML: 'utf-8' codec can't decode byte 0x80")

    def test_preset(self, dikkat: Command, toy_data: Path, out: Path) -> None:
        message = dikkat.fails(2, *TRAIN, toy_data, "--out", out, "--preset", "smal")
        known = "tiny, small, base, d2l, nanogpt_cpu, imdb_seed"
        assert message == f'no preset is called "smal"; did you mean "small"? known: {known}'

    def test_usage(self, dikkat: Command, toy_data: Path, out: Path) -> None:
        assert "No such option: --sed" in dikkat.fails(2, *TRAIN, toy_data, "--out", out, "--sed", "1")
        assert "--out" in dikkat.fails(2, *TRAIN, toy_data)
        assert dikkat.fails(2, *TRAIN, "--out", out).startswith("name the data to train on, or add --resume")
        assert "No such command" in dikkat.fails(2, "trian")
        for minutes in ("inf", "nan", "-1"):
            message = dikkat.fails(2, *TRAIN, toy_data, "--out", out, "--minutes", minutes)
            assert message.startswith("settings: training.minutes: input should be ")
        assert "Invalid value for '--minutes'" in dikkat.fails(2, *TRAIN, toy_data, "--out", out, "--minutes", "many")

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
    @pytest.mark.parametrize("kind", ["translator", "classifier", "lm"])
    def test_a_gpu_that_is_not_there(self, dikkat: Command, toy_data: Path, out: Path, kind: str) -> None:
        message = dikkat.fails(2, "train", kind, toy_data, "--out", out, "--device", "cuda")
        assert message.startswith("device cuda: the installed PyTorch (")
        assert message.endswith("; use cpu")
        assert not out.exists()

    def test_nothing_to_resume(self, dikkat: Command, out: Path) -> None:
        message = dikkat.fails(66, *TRAIN, "--out", out, "--resume")
        assert message == f"{out}: there is no run to resume; leave --resume out to start one"

    def test_an_interrupted_preparation_needs_its_data(self, dikkat: Command, out: Path) -> None:
        out.mkdir()
        message = dikkat.fails(2, *TRAIN, "--out", out, "--resume")
        assert message == f"{out}: its preparation was interrupted; give the data again, with --resume"


def test_pairs_of_too_many_tokens_for_training(dikkat: Command, toy_data: Path, out: Path) -> None:
    """Short in characters, long in tokens: nothing is left to make a batch of."""
    code, _, notes = dikkat(*TRAIN, toy_data, "--out", out, *settings(data__max_length=4))
    message = one_line(code, notes, 65)
    assert message.startswith(f"{toy_data}: ")
    assert "data.max_length" in message or "are left after cleaning" in message
    assert not (out / "config.json").exists()


class TestOutput:
    """A directory that holds something is never written to."""

    def refused(self, dikkat: Command, toy_data: Path, folder: Path, *more: str) -> str:
        before = content_of(folder)
        message = dikkat.fails(73, *TRAIN, toy_data, "--out", folder, *more)
        assert content_of(folder) == before
        return message

    @pytest.mark.parametrize("more", [(), ("--resume",)], ids=["new", "resume"])
    def test_a_finished_run(self, dikkat: Command, toy_data: Path, trained: Path, more: tuple[str, ...]) -> None:
        message = self.refused(dikkat, toy_data, trained, *more)
        assert message == f"{trained}: holds a finished run; give another --out"

    def test_an_unfinished_run(self, dikkat: Command, toy_data: Path, stopped: Path) -> None:
        message = self.refused(dikkat, toy_data, stopped)
        assert message == f"{stopped}: holds an unfinished run; add --resume to continue it, or give another --out"

    @pytest.mark.parametrize("more", [(), ("--resume",)], ids=["new", "resume"])
    def test_someone_elses_files(self, dikkat: Command, toy_data: Path, out: Path, more: tuple[str, ...]) -> None:
        out.mkdir()
        (out / "thesis.tex").write_text("years of work")
        message = self.refused(dikkat, toy_data, out, *more)
        assert message == f"{out}: holds files that are not of a run (thesis.tex); give another --out"

    def test_a_file(self, dikkat: Command, toy_data: Path) -> None:
        before = toy_data.read_bytes()
        message = dikkat.fails(73, *TRAIN, toy_data, "--out", toy_data)
        assert message == f"{toy_data}: is a file, not a folder; give another --out"
        assert toy_data.read_bytes() == before


def checkpoints_of(run: Path) -> list[Path]:
    return sorted((run / "checkpoints").iterdir())


@pytest.fixture
def broken(stopped: Path, tmp_path: Path) -> Path:
    """A copy of an unfinished run, to be damaged."""
    return Path(shutil.copytree(stopped, tmp_path / "broken"))


class TestCheckpoints:
    @pytest.mark.parametrize("damage", ["flipped", "truncated", "missing", "no manifest"])
    def test_a_damaged_one_is_named_and_the_previous_one_used(
        self, dikkat: Command, broken: Path, stopped: Path, damage: str
    ) -> None:
        previous, last = checkpoints_of(broken)[-2:]
        victim = last / ("manifest.json" if damage == "no manifest" else "optimizer.safetensors")
        if damage == "flipped":
            flip_bit(victim)
        elif damage == "truncated":
            os.truncate(victim, victim.stat().st_size // 2)
        else:
            victim.unlink()
        code, _, notes = dikkat(*TRAIN, "--out", broken, "--resume")
        assert code == 0, notes
        lines = notes.split("\n")
        (note,) = [line for line in lines if "damaged: " in line]
        assert note.startswith(f"{victim if damage != 'no manifest' else last}: damaged: ")
        assert note.endswith(f"; going back to {previous.name}")
        assert f"resumed at update {int(previous.name.removeprefix('step-'))}" in lines
        assert (broken / "card.md").exists()
        assert (broken / "model.safetensors").read_bytes() == (stopped / "model.safetensors").read_bytes()
        assert content_of(last) == content_of(stopped / "checkpoints" / last.name) | {
            "state.json": (last / "state.json").read_bytes(),
            "metrics.jsonl": (last / "metrics.jsonl").read_bytes(),
            "manifest.json": (last / "manifest.json").read_bytes(),
        }, "written anew, with the same tensors"

    def test_when_all_are_damaged_nothing_is_touched(self, dikkat: Command, broken: Path) -> None:
        for folder in checkpoints_of(broken):
            flip_bit(folder / "model.safetensors")
        before = content_of(broken)
        code, _, notes = dikkat(*TRAIN, "--out", broken, "--resume")
        *progress, last, end = notes.split("\n")
        message = one_line(code, f"{last}\n{end}", 65)
        assert message.startswith(f"{broken / 'checkpoints'}: no checkpoint is intact: ")
        assert all(f"{folder / 'model.safetensors'}: damaged" in message for folder in checkpoints_of(broken))
        assert not any(line.startswith("dikkat:") for line in progress)
        assert content_of(broken) == before

    def test_killed_before_the_first_checkpoint(self, dikkat: Command, broken: Path, stopped: Path) -> None:
        """A row is written before its checkpoint: the run that starts over must not have it twice."""
        shutil.rmtree(broken / "checkpoints")
        rows = (broken / "metrics.jsonl").read_bytes().split(b"\n")
        (broken / "metrics.jsonl").write_bytes(rows[0] + b"\n")
        code, _, notes = dikkat(*TRAIN, "--out", broken, "--resume")
        assert code == 0, notes
        assert (broken / "metrics.jsonl").read_bytes().count(b"\n") == len(rows) - 1
        assert (broken / "model.safetensors").read_bytes() == (stopped / "model.safetensors").read_bytes()


class TestTranslate:
    @pytest.fixture
    def copy(self, trained: Path, tmp_path: Path) -> Path:
        ignore = shutil.ignore_patterns("checkpoints", "corpus")
        return Path(shutil.copytree(trained, tmp_path / "copy", ignore=ignore))

    def test_a_flipped_bit_in_the_weights(self, dikkat: Command, copy: Path, toy_data: Path) -> None:
        flip_bit(copy / "model.safetensors")
        message = dikkat.fails(65, "translate", copy, toy_data)
        assert message == (
            f"{copy / 'model.safetensors'}: damaged: its content does not match its checksum; restore the file"
        )

    @pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
    def test_a_truncated_file(self, dikkat: Command, copy: Path, toy_data: Path, name: str) -> None:
        os.truncate(copy / name, (copy / name).stat().st_size // 2)
        assert dikkat.fails(65, "translate", copy, toy_data).startswith(f"{copy / name}: ")

    @pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
    def test_a_missing_file(self, dikkat: Command, copy: Path, toy_data: Path, name: str) -> None:
        (copy / name).unlink()
        message = dikkat.fails(66, "translate", copy, toy_data)
        assert str(copy) in message
        assert name in message

    def test_weights_of_another_model(self, dikkat: Command, copy: Path, stopped: Path, toy_data: Path) -> None:
        shutil.copy(stopped / "model.safetensors", copy / "model.safetensors")
        message = dikkat.fails(65, "translate", copy, toy_data)
        assert message.startswith(f"{copy / 'model.safetensors'}: does not fit {copy / 'config.json'}: parameter ")
        assert "has the shape" in message

    def test_places_that_are_no_run(self, dikkat: Command, tmp_path: Path, toy_data: Path) -> None:
        none = tmp_path / "none"
        assert dikkat.fails(66, "translate", none, toy_data) == f"{none}: there is no such run directory"
        assert dikkat.fails(66, "translate", toy_data) == f"{toy_data}: is a file, not a run directory"
        assert dikkat.fails(66, "translate", tmp_path).startswith(f"{tmp_path}: not a run directory: config.json ")

    def test_text_that_is_missing_or_broken(self, dikkat: Command, trained: Path, tmp_path: Path) -> None:
        text = tmp_path / "text"
        assert dikkat.fails(66, "translate", trained, text).startswith(f"{text}: there is no such file")
        text.write_bytes(b"the dog\nthe c\xffat\n")
        code, output, notes = dikkat("translate", trained, text)
        last = notes.rstrip("\n").split("\n")[-1]
        assert one_line(code, f"{last}\n", 65).startswith(f"{text}:2:6: byte 0xFF is not valid UTF-8")
        # what was read before it is answered
        assert output.count("\n") == 1

    @pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
    def test_a_gpu_that_is_not_there(self, dikkat: Command, trained: Path, toy_data: Path) -> None:
        for command in (("translate", trained), ("evaluate", trained, toy_data)):
            assert dikkat.fails(2, *command, "--device", "cuda").startswith("device cuda: the installed PyTorch (")
        message = dikkat.fails(2, "translate", trained, "--device", "cuda", "--precision", "int8")
        assert message == "int8 is for processors; leave it out, or the device cuda"

    def test_options_out_of_range(self, dikkat: Command, trained: Path, toy_data: Path) -> None:
        translate = ("translate", trained, toy_data)
        message = dikkat.fails(2, *translate, "--beam", "0")
        assert message.startswith("Invalid value for '--beam': Input should be greater than or equal to 1. Try ")
        assert "--n-best must be a whole number from 1 to the size of the beam (2), not 3" in dikkat.fails(
            2, *translate, "--beam", "2", "--n-best", "3"
        )
        assert dikkat.fails(2, *translate, "--batch-size", "0") == "--batch-size must be at least 1, not 0"
        assert dikkat.fails(2, *translate, "--sample", "--n-best", "2").startswith("--sample draws one translation")


def test_evaluate_without_a_test_part(dikkat: Command, trained: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(trained, tmp_path / "copy"))
    for side in ("source", "target"):
        (copy / "held_out" / f"test.{side}.txt").write_bytes(b"")
    test = copy / "held_out" / "test.source.txt"
    assert dikkat.fails(65, "evaluate", copy).startswith(f"{test}: damaged: has 0 bytes, but ")
    (copy / "manifest.json").unlink()
    assert dikkat.fails(2, "evaluate", copy) == f"{copy}: this run held out no test part; name data to evaluate on"


def test_divergence(dikkat: Command, toy_data: Path, out: Path) -> None:
    options = settings(training__learning_rate=1e38, training__max_epochs=6, training__validations=1)
    code, _, notes = dikkat(*TRAIN, toy_data, "--out", out, *options)
    last = notes.rstrip("\n").split("\n")[-1]
    message = one_line(code, f"{last}\n", 76)
    assert "set a lower training.learning_rate and start again in another --out" in message


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 320 KiB: the prepared data and the weights fit on it, a checkpoint does not."""
    disk = tmp_path / "disk"
    disk.mkdir()
    created = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=320k", "tmpfs", disk], capture_output=True, text=True, check=False
    )
    if created.returncode:
        pytest.skip(f"NOT TESTED: a full disk; this user may not mount one: {created.stderr.strip()}")
    yield disk
    # lazily: the mapped corpus may still be open
    subprocess.run(["umount", "-l", disk], check=True)


class TestFullDisk:
    def stops(self, dikkat: Command, toy_data: Path, run: Path) -> str:
        code, _, notes = dikkat(*TRAIN, toy_data, "--out", run, *settings(training__max_epochs=3))
        last = notes.rstrip("\n").split("\n")[-1]
        assert half_written(run) == []
        return one_line(code, f"{last}\n", 74)

    def test_while_training(self, dikkat: Command, toy_data: Path, small_disk: Path) -> None:
        run = small_disk / "run"
        message = self.stops(dikkat, toy_data, run)
        assert message.startswith((f"{run}/checkpoints/step-", f"{run}/model.safetensors: "))
        assert message.endswith(
            "writing failed: No space left on device; what was saved before is intact; make room and resume"
        )
        subprocess.run(["mount", "-o", "remount,size=16m", small_disk], check=True)
        code, _, notes = dikkat(*TRAIN, "--out", run, "--resume")
        assert code == 0, notes
        assert dikkat("translate", run, toy_data)[0] == 0

    def test_while_preparing(self, dikkat: Command, toy_data: Path, small_disk: Path) -> None:
        (small_disk / "music").write_bytes(bytes(310 << 10))
        run = small_disk / "run"
        message = self.stops(dikkat, toy_data, run)
        assert message.startswith(str(run))
        assert "No space left on device" in message
        assert not (run / "config.json").exists()
        (small_disk / "music").unlink()
        subprocess.run(["mount", "-o", "remount,size=16m", small_disk], check=True)
        resume = ["--resume"] if run.exists() else []
        code, _, notes = dikkat(*TRAIN, toy_data, "--out", run, *settings(training__max_epochs=1), *resume)
        assert code == 0, notes
