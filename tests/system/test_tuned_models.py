"""Models of another toolkit that learn on here: imported, trained with --from, whole or by low-rank updates."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.parity.test_huggingface_families import pair_tokenizer
from tests.parity.weights import shake
from tests.system.test_classifier import reviews, write_table
from tests.system.toy import Command, kept_signals, toy_sentences
from tests.unit.interop.checkpoints import bert_tokenizer, gpt2_tokenizer

from dikkat import Classifier
from dikkat.config import build_config, merge
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.tensor_files import read_tensors
from dikkat.tasks.classification.prepare import shape_settings
from dikkat_runtime.cli.main import run as run_command

transformers = pytest.importorskip(
    "transformers", reason="needs Hugging Face transformers, which the extra [test] brings"
)
pytestmark = pytest.mark.peer
SHORT = ("--set", "training.max_updates=4", "--set", "training.validations=2", "--set", "training.patience=9")


def imported(model: Any, tokenizer: Any, folder: Path, *options: str) -> Path:
    torch.manual_seed(3)
    shake(model)
    model.save_pretrained(folder / "theirs")
    tokenizer.save(str(folder / "theirs" / "tokenizer.json"))
    with kept_signals():
        assert run_command(["import", str(folder / "theirs"), "--out", str(folder / "run"), *options]) == 0
    return folder / "run"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = bert_tokenizer()
    config = transformers.BertConfig(
        vocab_size=tokenizer.get_vocab_size(), hidden_size=32, num_attention_heads=4, num_hidden_layers=2,
        intermediate_size=48, max_position_embeddings=64,
    )  # fmt: skip
    return imported(transformers.BertModel(config), tokenizer, tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_table(tmp_path_factory.mktemp("reviews") / "train.tsv", reviews(300))


def matrices(tensors: dict[str, torch.Tensor]) -> list[str]:
    return [name for name, tensor in tensors.items() if ".blocks." in name and tensor.dim() == 2]


def test_a_classifier_is_tuned_from_an_imported_encoder(
    dikkat: Command, encoder: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    code, _, progress = dikkat("train", "classifier", data, "--from", encoder, "--out", out, *SHORT)
    assert code == 0
    assert "0 of them of 63 tokens or more" in progress
    before, begun = read_tensors(encoder / "model.safetensors"), read_tensors(out / "initial.safetensors")
    assert all(begun[name].equal(before[name]) for name in before if name.startswith("encoder."))
    # a text alone is of the first kind: its vector is added to every position
    moved = before["positions.embedding"] + before["segment_embedding"][0]
    assert begun["positions.embedding"].equal(moved)
    after = read_tensors(out / "model.safetensors")
    assert not any(after[name].equal(begun[name]) for name in matrices(begun))
    assert (out / "tokenizer.json").read_bytes() == (encoder / "tokenizer.json").read_bytes()
    answers = [Classifier.load(out, engine=engine).classify(["a superb film"])[0] for engine in ("native", "torch")]
    assert answers[0].label == answers[1].label
    assert answers[0].probabilities == pytest.approx(answers[1].probabilities, abs=1e-5)


def test_layers_that_stay_are_those_of_the_encoder(dikkat: Command, encoder: Path, data: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = ("--set", "classifier.still_layers=1", "--set", "classifier.seen_tokens=16")
    code, _, progress = dikkat("train", "classifier", data, "--from", encoder, "--out", out, *SHORT, *options)
    assert code == 0
    assert " a pass, of 16 tokens a text; the first 1 layers stay\n" in progress
    begun, after = read_tensors(out / "initial.safetensors"), read_tensors(out / "model.safetensors")
    still = {name for name in begun if name.startswith(("embedding", "positions.", "encoder.blocks.0."))}
    assert len(still) > 12
    assert {name for name in begun if after[name].equal(begun[name])} == still
    (step, *_) = sorted((out / "checkpoints").iterdir())
    assert read_tensors(step / "model.safetensors").keys() == begun.keys() - still


@pytest.mark.parametrize(("minutes", "texts", "saves"), [(10.0, 10**9, True), (10.0, 10, False), (None, 10**9, False)])
def test_minutes_that_are_short_for_the_texts_are_saved(
    encoder: Path, minutes: float | None, texts: int, saves: bool
) -> None:
    settings = shape_settings(encoder, {} if minutes is None else {"training": {"minutes": minutes}}, texts)
    saved = {"seen_tokens": 64, "still_layers": 1, "table_rise": 1.0}
    assert ({name: settings["classifier"].get(name) for name in saved} == saved) == saves
    assert settings["model"]["dropout"] == settings["model"]["attention_dropout"] == (0.0 if saves else 0.1)
    # positions reach no further
    assert settings["classifier"]["max_tokens"] == 63
    build_config(merge(settings, {"classifier": {"still_layers": 0}}))


STILL = ("--set", "classifier.still_layers=1")


@pytest.mark.parametrize("options", [(), ("--lora", "2"), STILL])
def test_a_resumed_tuning_is_bit_identical(
    dikkat: Command, encoder: Path, data: Path, tmp_path: Path, options: tuple[str, ...]
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    keep = ("--set", "training.keep_checkpoints=9", "--set", "classifier.word_table=false")
    assert dikkat("train", "classifier", data, "--from", encoder, "--out", whole, *SHORT, *keep, *options)[0] == 0
    shutil.copytree(whole, broken)
    (broken / "card.md").unlink()
    _, *steps = sorted((broken / "checkpoints").iterdir())
    assert steps
    for step in steps:
        shutil.rmtree(step)
    # what is lost, low-rank or whole, is rebuilt from the checkpoint and what training began with
    (broken / "model.safetensors").unlink()
    assert dikkat("train", "classifier", "--out", broken, "--resume")[0] == 0
    for name in ("model.safetensors", *(f"checkpoints/{step.name}/model.safetensors" for step in steps)):
        assert (broken / name).read_bytes() == (whole / name).read_bytes()


def test_low_rank_updates_of_a_language_model_are_merged(dikkat: Command, tmp_path: Path) -> None:
    tokenizer = gpt2_tokenizer()
    size = tokenizer.get_vocab_size()
    config = transformers.LlamaConfig(
        vocab_size=size, hidden_size=32, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2,
        intermediate_size=48, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    base = imported(transformers.LlamaForCausalLM(config), tokenizer, tmp_path)
    text, out = tmp_path / "text.txt", tmp_path / "tuned"
    text.write_text("".join(f"{line}\n" for _, line in reviews(300)), encoding="utf-8")
    more = ("--set", "training.max_updates=30", "--set", "training.validations=3")
    assert dikkat("train", "lm", text, "--from", base, "--lora", "2", "--out", out, *more)[0] == 0
    before, after = (read_tensors(folder / "model.safetensors") for folder in (base, out))
    assert before.keys() == after.keys()
    changed = {name for name in before if not before[name].equal(after[name])}
    assert changed == set(matrices(before)), "embeddings and norms stay"
    for name in changed:
        assert torch.linalg.matrix_rank((after[name] - before[name]).double(), rtol=1e-4) <= 2
    # a model that never met dropout is not taught by it
    assert RunDirectory.open(out).read_config()["model"]["dropout"] == 0.0
    losses = [row["valid_loss"] for row in RunDirectory.open(out).read_metrics()]
    assert losses[-1] < losses[0]
    (step, *_) = sorted((out / "checkpoints").iterdir())
    held = read_tensors(step / "model.safetensors")
    assert {name.rpartition(".")[2] for name in held} == {"up", "down"}, "a checkpoint holds what is trained"
    code, written, _ = dikkat("generate", out, "the film", "--greedy", "--max-tokens", "4")
    assert code == 0
    assert written.startswith("the film")


def pair_model(kind: str) -> Any:
    size = pair_tokenizer().get_vocab_size()
    if kind == "t5":
        return transformers.T5ForConditionalGeneration(transformers.T5Config(
            vocab_size=size, d_model=32, d_kv=8, num_heads=4, num_layers=2, d_ff=48, pad_token_id=0, eos_token_id=1,
            decoder_start_token_id=0,
        ))  # fmt: skip
    return transformers.BartForConditionalGeneration(transformers.BartConfig(
        vocab_size=size, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=64, pad_token_id=0,
        bos_token_id=2, eos_token_id=1, decoder_start_token_id=1,
    ))  # fmt: skip


@pytest.mark.parametrize(("kind", "options"), [("t5", ()), ("bart", ("--lora", "2"))])
def test_a_translator_is_tuned(dikkat: Command, kind: str, options: tuple[str, ...], tmp_path: Path) -> None:
    base = imported(pair_model(kind), pair_tokenizer(), tmp_path)
    data, out = tmp_path / "toy.en-eo.tsv", tmp_path / "tuned"
    data.write_text("".join(f"{a}\t{b}\n" for a, b in toy_sentences(200)), encoding="utf-8")
    limits = ("--set", "data.typing_errors=0.0")
    assert dikkat("train", "translator", data, "--from", base, "--out", out, *SHORT, *limits, *options)[0] == 0
    before, after = (read_tensors(folder / "model.safetensors") for folder in (base, out))
    changed = {name for name in before if not before[name].equal(after[name])}
    assert changed >= set(matrices(before))
    assert "output_weight" in changed or options
    (tmp_path / "lines.txt").write_text("one\n", encoding="utf-8")
    assert dikkat("translate", out, tmp_path / "lines.txt")[0] == 0


def test_low_rank_updates_need_a_model(dikkat: Command, data: Path, tmp_path: Path) -> None:
    for kind in ("classifier", "lm", "translator"):
        message = dikkat.fails(2, "train", kind, data, "--lora", "4", "--out", tmp_path / "run")
        assert message == ("settings: training.low_rank (--lora) updates an existing model: name it with --from")


def test_a_language_model_begins_with_another_kind(dikkat: Command, encoder: Path, data: Path, tmp_path: Path) -> None:
    message = dikkat.fails(2, "train", "lm", data, "--from", encoder, "--out", tmp_path / "run")
    assert message == f'{encoder}: holds a "encoder"; --from takes a language model'
    assert not (tmp_path / "run").exists()
