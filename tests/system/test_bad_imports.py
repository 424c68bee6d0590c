"""Models of other toolkits that cannot be imported, and those of another kind: one line, and nothing written."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from tests.system.toy import Command, kept_signals
from tests.unit.interop.checkpoints import bert_folder, bert_tokenizer, change_weights, gpt2_folder

from dikkat.interop import checkpoint_folder
from dikkat.interop.family import families
from dikkat_runtime.cli import progress
from dikkat_runtime.cli.main import run as run_command
from dikkat_runtime.run import weights


@pytest.fixture(autouse=True)
def _no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine progress is told before the line that is compared."""
    monkeypatch.setattr(progress, "WORK_EVERY", math.inf)


KNOWN = ", ".join(sorted(families()))


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def sharded(folder: Path, count: int = 3) -> list[Path]:
    """Cut the weights of a folder into files that an index names, as those of large models are."""
    path = folder / "model.safetensors"
    stored = safetensors.torch.load_file(path)
    path.unlink()
    files = [folder / f"model-{number:05}-of-{count:05}.safetensors" for number in range(1, count + 1)]
    where = {name: files[number % count].name for number, name in enumerate(stored)}
    for file in files:
        safetensors.torch.save_file({name: stored[name] for name in stored if where[name] == file.name}, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    return files


def other_family(folder: Path) -> None:
    edit(folder / "config.json", model_type="rwkv")


def near_family(folder: Path) -> None:
    edit(folder / "config.json", model_type="distillbert")


def more_words(folder: Path) -> None:
    edit(folder / "config.json", vocab_size=99)


def more_layers(folder: Path) -> None:
    edit(folder / "config.json", num_hidden_layers=3)


def fewer_layers(folder: Path) -> None:
    edit(folder / "config.json", num_hidden_layers=1)


def layers_without_end(folder: Path) -> None:
    edit(folder / "config.json", num_hidden_layers=10**9)


def missing_shard(folder: Path) -> None:
    sharded(folder)[1].unlink()


def cut_shard(folder: Path) -> None:
    path = sharded(folder)[2]
    path.write_bytes(path.read_bytes()[:-100])


def shard_elsewhere(folder: Path) -> None:
    sharded(folder)
    edit(folder / "model.safetensors.index.json", weight_map={"a": "../other.safetensors"})


def pointer(folder: Path) -> None:
    spec = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 90868376\n"
    (folder / "model.safetensors").write_text(spec)


def pickled(folder: Path) -> None:
    stored = safetensors.torch.load_file(folder / "model.safetensors")
    torch.save(stored, folder / "pytorch_model.bin")
    torch.save({"lr": torch.tensor(0.1)}, folder / "optimizer.bin")
    (folder / "model.safetensors").unlink()


def more_entries(folder: Path) -> None:
    larger = bert_tokenizer()
    larger.add_tokens(["new"])
    larger.save(str(folder / "tokenizer.json"))


_CONVERT = (
    'import glob, torch, safetensors.torch as st; st.save_file({name: tensor.clone() for file in glob.glob("pytorch_'
    'model*.bin") for name, tensor in torch.load(file, weights_only=True).items()}, "model.safetensors")'
)
_CUT = "not a readable safetensors file (Error while deserializing header: incomplete metadata, file not fully covered)"
_SECOND = "model-00002-of-00003.safetensors"
_WEIGHT = "model.safetensors: the weight"
BAD: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "family": (other_family, 65, f"config.json: model_type 'rwkv' is not supported; known: {KNOWN}"),
    "near": (
        near_family,
        65,
        f"config.json: model_type 'distillbert' is not supported; did you mean \"distilbert\"? known: {KNOWN}",
    ),
    "words": (
        more_words,
        65,
        f"{_WEIGHT} embeddings.word_embeddings.weight does not fit its config.json: its shape is 13 x 24, not 99 x 24",
    ),
    "more layers": (more_layers, 65, f"{_WEIGHT} encoder.layer.2.attention.self.query.weight is missing, and 15 more"),
    "fewer layers": (
        fewer_layers,
        65,
        "model.safetensors: this model has no weight encoder.layer.1.attention.output.LayerNorm.bias, and 15 more",
    ),
    "endless": (
        layers_without_end,
        65,
        "config.json: num_hidden_layers is 1,000,000,000, but model.safetensors has only 39 weights",
    ),
    "missing shard": (
        missing_shard,
        66,
        f"{_SECOND}: there is no such file, but model.safetensors.index.json names it: 1 of 3 are missing; download"
        " them again",
    ),
    "cut shard": (cut_shard, 65, f"model-00003-of-00003.safetensors: {_CUT}"),
    "shard elsewhere": (
        shard_elsewhere,
        65,
        "model.safetensors.index.json: the file ../other.safetensors is outside the folder",
    ),
    "pointer": (
        pointer,
        65,
        "model.safetensors: is a pointer of Git LFS, not the file; fetch that with git lfs pull",
    ),
    "pickle": (
        pickled,
        66,
        "model.safetensors: there is no such file; pytorch_model.bin is a pickle, which may run any code: convert it in"
        f" Python with: {_CONVERT}",
    ),
    "entries": (more_entries, 65, "tokenizer.json: has 14 entries, but the model has only 13"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_folder_that_cannot_be_imported(dikkat: Command, name: str, tmp_path: Path) -> None:
    damage, code, message = BAD[name]
    folder = bert_folder(tmp_path / "theirs")
    damage(folder)
    assert dikkat.fails(code, "import", folder, "--out", tmp_path / "run") == f"{folder}/{message}"
    assert not (tmp_path / "run").exists()


def test_a_sharded_folder_is_the_same_model(dikkat: Command, tmp_path: Path) -> None:
    folder = bert_folder(tmp_path / "theirs")
    assert dikkat("import", folder, "--out", tmp_path / "whole")[0] == 0
    sharded(folder)
    assert dikkat("import", folder, "--out", tmp_path / "parts")[0] == 0
    one, other = (safetensors.torch.load_file(tmp_path / run / "model.safetensors") for run in ("whole", "parts"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_what_is_said_of_a_pickle_converts_it(dikkat: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = bert_folder(tmp_path / "theirs")
    pickled(folder)
    message = dikkat.fails(66, "import", folder, "--out", tmp_path / "run")
    monkeypatch.chdir(folder)
    exec(message.partition("convert it in Python with: ")[2], {})  # what a user copies
    assert dikkat("import", folder, "--out", tmp_path / "run")[0] == 0


@pytest.mark.parametrize(
    ("share", "advice"),
    [
        (0.7, "import it on a larger machine, and --precision int8 would fit here"),
        (0.2, "no precision would fit"),
    ],
)
def test_weights_beyond_the_memory_are_refused_before_they_are_read(
    dikkat: Command, share: float, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = bert_folder(tmp_path / "theirs")
    numbers = sum(tensor.numel() for tensor in safetensors.torch.load_file(folder / "model.safetensors").values())
    monkeypatch.setattr(weights, "free_memory", lambda: int(share * 4 * numbers))
    monkeypatch.setattr(checkpoint_folder, "require_finite", lambda *_: pytest.fail("a weight was read"))
    assert dikkat.fails(71, "import", folder, "--out", tmp_path / "run") == (
        f"{folder}/model.safetensors: its weights take 0.0 GiB in float32, but only 0.0 GiB are free; {advice}"
    )
    assert not (tmp_path / "run").exists()


def test_a_quantisation_that_is_not_known(dikkat: Command, tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="needs the package gguf, which the extra [test] brings")
    from tests.unit.interop.test_gguf import llama

    path, _ = llama(tmp_path / "model.gguf")
    content, name = bytearray(path.read_bytes()), b"blk.0.ffn_gate.weight"
    # behind the name stand the number of dimensions, two dimensions, and the kind of the blocks
    content[content.index(name) + len(name) + 4 + 2 * 8] = 20
    path.write_bytes(content)
    assert dikkat.fails(65, "import", path, "--out", tmp_path / "run") == (
        f"{path}: blk.0.ffn_gate.weight is quantised in a way that is not supported (number 20); known: F32, F16, BF16,"
        " Q8_0, Q4_0, Q4_1, Q4_K, Q6_K"
    )


# Imported models of every kind, and what each command does with them.


def head(folder: Path, architecture: str, **more: Any) -> Path:
    bert_folder(folder)
    edit(folder / "config.json", architectures=[architecture], **more)
    labels = len(more["id2label"])
    change_weights(folder, classifier__weight=torch.randn(labels, 24), classifier__bias=torch.zeros(labels))
    return folder


def hidden_words(folder: Path) -> Path:
    bert_folder(folder)
    edit(folder / "config.json", architectures=["BertForMaskedLM"])
    at = "cls__predictions__transform__"
    change_weights(
        folder, cls__predictions__bias=torch.zeros(13),
        **{f"{at}dense__weight": torch.randn(24, 24), f"{at}dense__bias": torch.zeros(24),
           f"{at}LayerNorm__weight": torch.ones(24), f"{at}LayerNorm__bias": torch.zeros(24)},
    )  # fmt: skip
    return folder


MAKERS: dict[str, tuple[Callable[[Path], Path], tuple[str, ...]]] = {
    "encoder": (bert_folder, ()),
    "classifier": (lambda folder: head(folder, "BertForSequenceClassification", id2label={"0": "no", "1": "yes"}), ()),
    "tagger": (lambda folder: head(folder, "BertForTokenClassification", id2label={"0": "O", "1": "PER"}), ()),
    "regressor": (lambda folder: head(folder, "BertForSequenceClassification", id2label={"0": "stars"}), ()),
    "lm": (gpt2_folder, ()),
    "masked": (hidden_words, ("--task", "lm")),
}
NAMES = {
    "encoder": "an encoder", "classifier": "a classifier", "tagger": "a tagger", "regressor": "a regression",
    "lm": "a language model", "masked": "a language model",
}  # fmt: skip
USES = {"encoder": "embed", "lm": "generate", "masked": "embed"}


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    runs = {}
    for kind, (make, options) in MAKERS.items():
        folder = tmp_path_factory.mktemp(kind)
        with kept_signals():
            assert run_command(["import", str(make(folder / "theirs")), "--out", str(folder / "run"), *options]) == 0
        runs[kind] = folder / "run"
    return runs


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("command", ["translate", "generate", "classify"])
def test_a_command_for_another_kind_names_its_own(
    dikkat: Command, imported: dict[str, Path], command: str, kind: str, tmp_path: Path
) -> None:
    if USES.get(kind, "classify") == command:
        return
    (tmp_path / "lines.txt").write_text("the dog\n")
    run, wanted = (
        imported[kind],
        {"translate": "a translator", "generate": "a language model", "classify": "a classifier"},
    )
    message = dikkat.fails(2, command, run, tmp_path / "lines.txt")
    if (kind, command) == ("masked", "generate"):
        assert "was trained to fill in hidden tokens" in message
        return
    use = f"echo … | dikkat {USES.get(kind, 'classify')} {run}"
    assert message == f"{run}: holds {NAMES[kind]}, not {wanted[command]}; try: {use}"


@pytest.mark.parametrize("kind", MAKERS)
def test_every_imported_model_is_embedded_and_shown(
    dikkat: Command, imported: dict[str, Path], kind: str, tmp_path: Path
) -> None:
    (tmp_path / "lines.txt").write_text("the dog\n")
    assert dikkat("embed", imported[kind], tmp_path / "lines.txt")[0] == 0
    assert dikkat("attend", imported[kind], "the dog", "--out", tmp_path / "attention.html")[0] == 0
    assert "</html>" in (tmp_path / "attention.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", MAKERS)
def test_a_report_of_an_imported_model_says_where_to_look(
    dikkat: Command, imported: dict[str, Path], kind: str
) -> None:
    run = imported[kind]
    message = dikkat.fails(2, "report", run)
    reason = "imported, with no training to report"
    look = f"dikkat attend {run} 'a text' --out attention.html"
    assert message == f"{run}: holds {NAMES[kind]}, {reason}; try: {look}"
    assert not (run / "report.html").exists()


@pytest.mark.parametrize("kind", ["encoder", "tagger", "regressor"])
def test_what_has_no_loss_is_looked_at_instead(dikkat: Command, imported: dict[str, Path], kind: str) -> None:
    run = imported[kind]
    look = f"try: dikkat attend {run} 'a text' --out attention.html"
    for command, reason in (("heads", "whose heads cannot be examined"), ("doctor", "which the doctor cannot examine")):
        assert dikkat.fails(2, command, run) == f"{run}: holds {NAMES[kind]}, {reason}; {look}"


def test_a_page_of_an_encoder_says_how_it_is_seen(dikkat: Command, imported: dict[str, Path], tmp_path: Path) -> None:
    run, out = imported["encoder"], tmp_path / "page.html"
    look = f"dikkat attend {run} 'a text' --out attention.html"
    reason = "for which there is no page that computes"
    assert dikkat.fails(2, "page", run, "--out", out) == f"{run}: holds an encoder, {reason}; try: {look}"
    assert (
        dikkat.fails(2, "page", run, "--out", "page.txt")
        == "page.txt: is written as .html or .htm, not .txt; rename it"
    )
    assert not out.exists()
