"""A folder becomes a run directory, or one line says what is wrong with it and nothing is written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
from tests.unit.interop.checkpoints import bert_folder, bert_tokenizer, change_weights, gpt2_folder

from dikkat.config import EncoderConfig
from dikkat.interop.importing import Imported, read_foreign, write_run
from dikkat.models.key_table import to_theirs
from dikkat.run_directory import RunDirectory
from dikkat_runtime.errors import CannotCreateError, DataError, DikkatError, MissingInputError, UsageError

Maker = Callable[..., Path]
families = pytest.mark.parametrize("make", [bert_folder, gpt2_folder], ids=["BERT", "GPT-2"])


def read_imported(folder: Path) -> Imported:
    """Read a folder that holds no translator."""
    imported = read_foreign(folder)
    assert isinstance(imported, Imported)
    return imported


@families
def test_what_is_given_back_is_what_was_read_bit_for_bit(make: Maker, tmp_path: Path) -> None:
    folder = make(tmp_path / "theirs")
    found = read_imported(folder)
    stored = safetensors.torch.load_file(folder / "model.safetensors")
    again = to_theirs(found.rows, found.weights)
    assert again.keys() == stored.keys()
    assert all(torch.equal(again[name], stored[name]) for name in stored)
    assert found.parameters == sum(tensor.numel() for tensor in stored.values())


@families
def test_the_run_is_an_ordinary_one(make: Maker, tmp_path: Path) -> None:
    folder = make(tmp_path / "theirs")
    found = read_imported(folder)
    write_run(found, tmp_path / "run", folder, "dikkat import theirs --out run")
    run = RunDirectory.open(tmp_path / "run")
    assert run.is_finished
    assert run.read_config()["task"] == found.task
    assert run.tokenizer.read_bytes() == (folder / "tokenizer.json").read_bytes()
    weights = run.load_weights()
    assert weights.keys() == found.weights.keys()
    assert all(torch.equal(weights[name], tensor) for name, tensor in found.weights.items())
    assert "dikkat import theirs" in run.card.read_text(encoding="utf-8")
    with pytest.raises(CannotCreateError, match="holds a finished run"):
        write_run(found, tmp_path / "run", folder, "")


def test_a_checkpoint_with_a_head_is_its_trunk(tmp_path: Path) -> None:
    """Its names have a prefix; the old spelling of the norms and what is computed, not trained, come with it."""
    folder = bert_folder(tmp_path / "theirs")
    stored = safetensors.torch.load_file(folder / "model.safetensors")
    old = {
        "bert." + name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): value
        for name, value in stored.items()
    }
    assert sum("gamma" in name for name in old) == 5
    heads = {"cls.predictions.bias": torch.zeros(13), "bert.embeddings.position_ids": torch.arange(16)[None]}
    safetensors.torch.save_file({**old, **heads}, folder / "model.safetensors")
    found = read_imported(folder)
    assert found.left_out == ("cls.predictions.bias",)
    again = to_theirs(found.rows, found.weights)
    assert all(torch.equal(again[name], stored[name]) for name in stored)


def test_a_bert_without_a_pooler_has_none(tmp_path: Path) -> None:
    folder = bert_folder(tmp_path / "theirs")
    change_weights(folder, pooler__dense__weight=None, pooler__dense__bias=None)
    found = read_imported(folder)
    assert isinstance(found.head_config, EncoderConfig)
    assert not found.head_config.pooler


def test_gpt2_may_store_its_output_matrix_twice_or_have_another_one(tmp_path: Path) -> None:
    folder = gpt2_folder(tmp_path / "theirs")
    stored = safetensors.torch.load_file(folder / "model.safetensors")
    mask = torch.ones(1, 1, 32, 32, dtype=torch.bool)
    change_weights(folder, lm_head__weight=stored["wte.weight"].clone(), h__0__attn__bias=mask)
    assert torch.equal(read_imported(folder).weights["output_weight"], stored["wte.weight"])

    change_weights(folder, lm_head__weight=stored["wte.weight"] + 1.0)
    with pytest.raises(DataError, match=r"lm_head\.weight is to be tied to wte\.weight, but differs"):
        read_imported(folder)
    edit(folder / "config.json", tie_word_embeddings=False)
    found = read_imported(folder)
    assert torch.equal(found.weights["output_weight"], stored["wte.weight"] + 1.0)
    assert torch.equal(found.weights["embedding.weight"], stored["wte.weight"])


def sentence_transformer(folder: Path) -> Path:
    """The layout of sentence-transformers, with the trunk in the folder itself."""
    bert_folder(folder)
    kinds = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    modules = [{"path": path, "type": f"sentence_transformers.models.{kind}"} for path, kind in kinds.items()]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 9, "do_lower_case": false}')
    (folder / "1_Pooling").mkdir()
    pooling = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False, "word_embedding_dimension": 24}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


def test_pooling_normalisation_and_longest_text_of_sentence_transformers(tmp_path: Path) -> None:
    folder = sentence_transformer(tmp_path / "theirs")
    first = EncoderConfig(segments=2, pooler=True, pooling="first", normalize=True, max_length=9)
    assert read_imported(folder).head_config == first
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode": "mean"}')
    assert read_imported(folder).head_config == first.model_copy(update={"pooling": "mean"})
    (folder / "0_Transformer").mkdir()
    for name in ("config.json", "model.safetensors", "tokenizer.json", "sentence_bert_config.json"):
        (folder / name).rename(folder / "0_Transformer" / name)
    (folder / "modules.json").write_text(
        (folder / "modules.json").read_text().replace('"path": ""', '"path": "0_Transformer"')
    )
    # sentence-transformers leaves them beside the modules
    (folder / "onnx").mkdir()
    (folder / "onnx" / "model.onnx").write_bytes(b"")
    assert read_imported(folder).head_config == first.model_copy(update={"pooling": "mean"})


def edit(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def complaint(folder: Path, kind: type[DikkatError] = DataError) -> str:
    with pytest.raises(kind) as caught:
        read_imported(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(str(folder), "DIR")


def test_a_folder_that_is_not_there_or_lacks_a_file(tmp_path: Path) -> None:
    missing = complaint(tmp_path / "nowhere", MissingInputError)
    assert missing == (
        "DIR: there is no such folder; dikkat downloads nothing: name a folder that holds config.json,"
        " model.safetensors and tokenizer.json, as `hf download OWNER/NAME --local-dir FOLDER` leaves one"
    )
    for name in ("config.json", "tokenizer.json", "model.safetensors"):
        folder = bert_folder(tmp_path / name)
        (folder / name).unlink()
        assert complaint(folder, MissingInputError).startswith(f"DIR/{name}: ")
    (folder / "pytorch_model.bin").write_bytes(b"")
    assert complaint(folder, MissingInputError).endswith(
        "convert it in Python with: import glob, torch, safetensors.torch as st; st.save_file({name: tensor.clone() for"
        ' file in glob.glob("pytorch_model*.bin") for name, tensor in torch.load(file, weights_only=True).items()},'
        ' "model.safetensors")'
    )


def test_damaged_files(tmp_path: Path) -> None:
    for name, message in (
        ("config.json", "DIR/config.json: not valid JSON ("),
        ("tokenizer.json", "DIR/tokenizer.json: not a readable tokenizer ("),
        ("model.safetensors", "DIR/model.safetensors: not a readable safetensors file ("),
        ("modules.json", "DIR/modules.json: not a list of modules ("),
    ):
        folder = bert_folder(tmp_path / name)
        (folder / name).write_text("{")
        assert complaint(folder).startswith(message)
    (folder / "modules.json").unlink()
    (folder / "config.json").write_text("[]")
    assert complaint(folder) == "DIR/config.json: must be one object of settings"
    (folder / "tokenizer.json").write_text('{"model": {"type": "WordLevel", "vocab": {}, "unk_token": "x"}}')
    bert_config = json.dumps({**json.loads((bert_folder(tmp_path / "other") / "config.json").read_text())})
    (folder / "config.json").write_text(bert_config)
    empty = "DIR/tokenizer.json: not a readable tokenizer (the vocabulary is empty); restore the file"
    assert complaint(folder) == empty


@pytest.mark.parametrize(
    ("make", "changes", "message"),
    [
        (bert_folder, {"model_type": "rwkv"}, "model_type 'rwkv' is not supported"),
        (bert_folder, {"model_type": "lama"}, 'is not supported; did you mean "llama"?'),
        (bert_folder, {"hidden_size": None}, "hidden_size must be a number, not None"),
        (bert_folder, {"hidden_size": "24"}, "hidden_size must be a number, not '24'"),
        (bert_folder, {"hidden_size": -24}, "model_dim: input should be greater than 0, not -24"),
        (bert_folder, {"num_attention_heads": 5}, "num_heads must divide model_dim, but 5 does not divide 24"),
        (bert_folder, {"hidden_act": "mish"}, "hidden_act must be one of gelu, .*, gelu_new, .*, not 'mish'"),
        (bert_folder, {"position_embedding_type": "relative_key"}, "'relative_key' is not supported"),
        (bert_folder, {"is_decoder": True}, "is_decoder = True is not supported; only False is"),
        (gpt2_folder, {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx = True is not"),
        (gpt2_folder, {"scale_attn_weights": False}, "scale_attn_weights = False is not"),
        (gpt2_folder, {"activation_function": "mish"}, "activation_function must be one of gelu, .*gelu_new"),
    ],
)
def test_settings_that_are_wrong_or_that_we_do_not_compute(
    make: Maker, changes: dict[str, object], message: str, tmp_path: Path
) -> None:
    folder = make(tmp_path / "theirs", **changes)
    with pytest.raises(DataError, match=rf"^{folder}/config\.json: .*{message}"):
        read_imported(folder)


@pytest.mark.parametrize("absurd", [{"vocab_size": 10**12}, {"max_position_embeddings": 10**12}])
def test_absurd_sizes_take_no_memory(absurd: dict[str, int], tmp_path: Path) -> None:
    message = complaint(bert_folder(tmp_path / "theirs", **absurd))
    assert re.search("should be less than or equal to (4194304|16777216), not 1000000000000", message)


@families
def test_a_weight_that_is_missing_left_over_or_of_another_shape_is_named(make: Maker, tmp_path: Path) -> None:
    folder = make(tmp_path / "theirs")
    name = "encoder__layer__1__output__dense__bias" if make is bert_folder else "h__1__mlp__c_proj__bias"
    there = name.replace("__", ".")
    where = "DIR/model.safetensors: the weight"
    for value, message in (
        (None, f"{where} {there} is missing"),
        (torch.zeros(5), f"{where} {there} does not fit its config.json: its shape is 5, not 24"),
    ):
        change_weights(folder, **{name: value})
        assert complaint(folder) == message
    change_weights(folder, **{name: torch.zeros(24), "encoder__extra": torch.zeros(2)})
    assert complaint(folder) == "DIR/model.safetensors: this model has no weight encoder.extra"
    fewer = {"num_hidden_layers": 1} if make is bert_folder else {"n_layer": 1}
    change_weights(folder, encoder__extra=None)
    edit(folder / "config.json", **fewer)
    assert ", and " in complaint(folder)


def test_a_tokenizer_with_more_entries_than_the_model(tmp_path: Path) -> None:
    folder = bert_folder(tmp_path / "theirs")
    larger = bert_tokenizer()
    larger.add_tokens(["new"])
    larger.save(str(folder / "tokenizer.json"))
    assert complaint(folder) == "DIR/tokenizer.json: has 14 entries, but the model has only 13"


def test_what_sentence_transformers_does_and_we_do_not(tmp_path: Path) -> None:
    folder = sentence_transformer(tmp_path / "theirs")
    edit(folder / "1_Pooling" / "config.json", pooling_mode_mean_tokens=True)
    assert complaint(folder) == (
        "DIR/1_Pooling/config.json: pooling must be one of mean, cls, max, mean_sqrt_len, weightedmean, lasttoken,"
        " not ['cls_token', 'mean_tokens']"
    )
    edit(folder / "sentence_bert_config.json", do_lower_case=True)
    assert complaint(folder).startswith("DIR/sentence_bert_config.json: do_lower_case = True is not supported")
    (folder / "modules.json").write_text('[{"path": "", "type": "x.Transformer"}, {"path": "3", "type": "x.CNN"}]')
    edit(folder / "sentence_bert_config.json", do_lower_case=False)
    assert complaint(folder) == 'DIR/modules.json: the module "CNN" is not supported'


@pytest.mark.parametrize(
    ("name", "kind"), [("onnx/encoder_model.onnx", "an ONNX graph"), ("model.keras", "a model of Keras")]
)
def test_what_is_only_written_is_told_from_a_checkpoint(name: str, kind: str, tmp_path: Path) -> None:
    """By the folder, as an export leaves it, and by the file; beside weights of their own such files do not count."""
    folder = bert_folder(tmp_path / "theirs")
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"")
    assert read_imported(folder).task == "encoder"
    (folder / "model.safetensors").unlink()
    message = f"DIR/{name}: is {kind}, written by exports but never imported; name what it was made from"
    assert complaint(folder) == message
    assert complaint(folder / name) == message.removeprefix(f"DIR/{name}").replace(":", "DIR:", 1)


def test_a_run_is_told_that_it_is_one(tmp_path: Path) -> None:
    write_run(read_imported(bert_folder(tmp_path / "theirs")), tmp_path / "run", tmp_path / "theirs", "dikkat import")
    with pytest.raises(UsageError, match=f"{tmp_path}/run: is a run already; use it as it is"):
        read_foreign(tmp_path / "run")
