"""The translator as a library: attention maps, empty texts, and every way in which loading can fail."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import dikkat
from dikkat import Translation, Translator, load
from dikkat.run_directory import RunDirectory
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions, SamplingOptions
from dikkat_runtime.errors import DataError, MissingInputError, UsageError
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID
from dikkat_runtime.text.tokenizer import Tokenizer

pytestmark = pytest.mark.usefixtures("either_path")

SOURCE, TARGET = "my name is ada .", "adım ada ."


@pytest.fixture(scope="module")
def translator(untrained: Path) -> Translator:
    return Translator.load(untrained)


@pytest.fixture
def copy(untrained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(untrained, tmp_path / "run"))


def test_attention_has_a_map_for_every_head(translator: Translator) -> None:
    """Rows E13 and E15: two layers of four heads in encoder, decoder and between the two, each (T, S)."""
    source = [*translator.tokenizer.labels(translator.encode(SOURCE)), "<eos>"]
    target = ["<bos>", *translator.tokenizer.labels(translator.tokenizer.encode(TARGET))]
    maps = translator.attend(SOURCE, TARGET)
    names = {(item.stack, item.kind, item.layer, item.head) for item in maps}
    stacks = (("encoder", "self"), ("decoder", "self"), ("decoder", "cross"))
    assert names == {(*stack, layer, head) for stack in stacks for layer in (0, 1) for head in range(4)}
    assert len(maps) == len(names)
    for item in maps:
        assert list(item.query_tokens) == (source if item.stack == "encoder" else target)
        assert list(item.key_tokens) == (target if (item.stack, item.kind) == ("decoder", "self") else source)
        assert item.weights.shape == (len(item.query_tokens), len(item.key_tokens))
        assert np.abs(item.weights.sum(axis=1) - 1.0).max() <= 1e-5
        assert item.weights.min() >= 0.0


@pytest.mark.seed("E16")
def test_the_decoder_looks_at_nothing_that_follows(translator: Translator) -> None:
    maps = [item for item in translator.attend(SOURCE, TARGET) if (item.stack, item.kind) == ("decoder", "self")]
    for item in maps:
        assert item.query_tokens[0] == "<bos>"
        assert not np.triu(item.weights, k=1).any()
        assert item.weights[0, 0] == 1.0
        assert np.diag(item.weights).min() > 0.0


def test_heads_and_layers_are_not_mixed_up(translator: Translator) -> None:
    """Against the reference: softmax(q k' / sqrt(K)) of the first encoder layer, from the weights themselves."""
    model = translator.model
    ids = torch.tensor([[*translator.encode(SOURCE), EOS_ID]])
    with torch.no_grad():
        x = model.positions(model.source_embedding(ids))
        block = model.encoder.blocks[0]
        attention = block.self_attention
        normalized = torch.nn.functional.layer_norm(x, (32,), *_norm_of(block))
        q, k, _ = attention.in_projection(normalized)[0].split(32, dim=-1)
    maps = {(item.stack, item.layer, item.kind, item.head): item for item in translator.attend(SOURCE, TARGET)}
    for head in range(4):
        columns = slice(8 * head, 8 * head + 8)
        scores = (q[:, columns].double() @ k[:, columns].double().T / 8**0.5).numpy()
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        assert np.abs(maps["encoder", 0, "self", head].weights - weights).max() <= 1e-5


def _norm_of(block: torch.nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    norm = next(module for module in block.modules() if isinstance(module, torch.nn.LayerNorm))
    return norm.weight, norm.bias


def test_attention_is_that_of_its_own_translation_if_none_is_given(translator: Translator) -> None:
    """Token by token as it was written: reading the text anew may cut it into others; loops are not decoded again."""
    own = next(translator.stream([SOURCE], DecodingOptions(), retry_loops=False))
    maps = [item for item in translator.attend(SOURCE) if item.stack == "decoder"]
    assert {item.query_tokens for item in maps} == {("<bos>", *own.tokens)}


def test_watching_changes_no_translation(translator: Translator) -> None:
    before = translator.translate([SOURCE])
    translator.attend(SOURCE, TARGET)
    assert translator.translate([SOURCE]) == before


@pytest.mark.parametrize("text", ["", "  \t"])
def test_an_empty_text_has_no_attention(translator: Translator, text: str) -> None:
    with pytest.raises(DataError, match="there is nothing to attend to in an empty text"):
        translator.attend(text)


def test_an_empty_translation_has_one_row(translator: Translator) -> None:
    maps = [item for item in translator.attend(SOURCE, "") if item.stack == "decoder"]
    assert {item.query_tokens for item in maps} == {("<bos>",)}


def test_an_empty_text_has_an_empty_translation(translator: Translator) -> None:
    first, second, third = translator.translate(["", SOURCE, " \t "])
    assert first == Translation("", 0.0, ())
    assert third == Translation(" \t ", 0.0, ())
    assert second == translator.translate([SOURCE])[0]
    assert second.text
    assert translator.translate([]) == []


def test_a_translation_carries_its_tokens_score_and_alternatives(translator: Translator) -> None:
    (result,) = translator.translate([SOURCE], beam_size=3, n_best=3)
    assert len(result.alternatives) == 2
    for item in (result, *result.alternatives):
        assert item.score < 0.0
        joined = "".join(item.tokens).replace("▁", " ")
        assert "\\" in joined or "�" in item.text or joined.strip() == item.text.strip()
    best = translator.translate([SOURCE], beam_size=3)[0]
    assert (best.text, best.score, best.alternatives) == (result.text, result.score, ())


def test_the_score_is_the_mean_log_probability_of_its_tokens(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Teacher-forced in float64; the end mark counts (when there is one)."""
    # labels of bytes that are no character do not tell which bytes
    monkeypatch.setattr(type(translator.tokenizer), "labels", Tokenizer.pieces)
    (result,) = translator.translate([SOURCE], beam_size=2, length_penalty=1.0)
    vocabulary = {translator.tokenizer.pieces([number])[0]: number for number in range(translator.tokenizer.vocab_size)}
    target = [vocabulary[token] for token in result.tokens]
    source = torch.tensor([[*translator.encode(SOURCE), EOS_ID]])
    with torch.no_grad():
        logits = translator.model(source, torch.tensor([[BOS_ID, *target]]), torch.ones_like(source, dtype=torch.bool))
    log_probabilities = logits[0].double().log_softmax(dim=-1)
    sums = [float(log_probabilities[index, token]) for index, token in enumerate(target)]
    ended = (sum(sums) + float(log_probabilities[len(target), EOS_ID])) / (len(target) + 1)
    cut = sum(sums) / len(target)
    assert min(abs(result.score - ended), abs(result.score - cut)) <= 1e-5


@pytest.mark.parametrize("options", [BeamOptions(beam_size=3), SamplingOptions(seed=2)], ids=["beam", "sampling"])
def test_a_translation_is_one_line(untrained: Path, options: BeamOptions) -> None:
    """Whatever bytes the model writes: here it may only choose between "\\n" and the end."""
    translator = Translator.load(untrained)
    (newline,) = {number for number in range(4, 260) if translator.tokenizer.pieces([number]) == ["\\n"]}
    with torch.no_grad():
        weight = translator.model.output_weight
        weight[newline] = weight.mean(dim=0)
    decoded = translator.tokenizer.decode([newline, newline])
    assert decoded == "\n\n"
    real = translator.tokenizer

    class Newlines:
        """A tokenizer that reads every output as two empty lines."""

        encode_batch, labels = real.encode_batch, real.labels

        def decode_batch(self, batch: list[list[int]]) -> list[str]:
            return [decoded for _ in batch]

    translator.target_tokenizer = Newlines()  # type: ignore[assignment]
    assert [item.text for item in translator.stream([SOURCE], options)] == ["  "]


def test_load_gives_the_right_one(untrained: Path) -> None:
    assert isinstance(load(untrained), Translator)
    assert isinstance(load(str(untrained)), Translator)
    with pytest.raises(AttributeError, match="has no attribute 'Translater'"):
        dikkat.Translater  # noqa: B018


def test_load_refuses_an_unknown_task(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "task": "juggler"}))
    (copy / "manifest.json").unlink()
    with pytest.raises(UsageError, match='run: holds a "juggler", which this version cannot load'):
        load(copy)


def test_a_model_is_loaded_in_evaluation_mode_and_float32(translator: Translator) -> None:
    assert not translator.model.training
    assert {parameter.dtype for parameter in translator.model.parameters()} == {torch.float32}


def change_config(run: Path, section: str, **values: object) -> None:
    config = json.loads((run / "config.json").read_text())
    config[section].update(values)
    (run / "config.json").write_text(json.dumps(config))
    (run / "manifest.json").unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_dim": 64}, r"does not fit \S+config.json: parameter \S+ has the shape \(.*32.*\), not \(.*64.*\)"),
        ({"encoder_layers": 3}, r"does not fit \S+config.json: parameter encoder.blocks.2.\S+ is missing"),
        ({"encoder_layers": 1}, r"does not fit \S+config.json: no parameter is called encoder.blocks.1.\S+"),
    ],
)
def test_weights_that_do_not_fit_the_settings(copy: Path, change: dict[str, int], message: str) -> None:
    change_config(copy, "model", **change)
    with pytest.raises(DataError, match=rf"model\.safetensors: {message}$") as caught:
        Translator.load(copy)
    assert "\n" not in str(caught.value)


def test_an_unknown_setting_is_named(copy: Path) -> None:
    change_config(copy, "model", widht=3)
    with pytest.raises(UsageError, match=r'config\.json: unknown key "model\.widht"'):
        Translator.load(copy)


def test_missing_parts_are_named(copy: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingInputError, match="there is no such run directory"):
        Translator.load(tmp_path / "nowhere")
    (copy / "tokenizer.json").unlink()
    with pytest.raises(MissingInputError, match=r"tokenizer\.json"):
        Translator.load(copy)
    (copy / "model.safetensors").unlink()
    with pytest.raises(MissingInputError, match=r"model\.safetensors: no weights yet; continue training with --resume"):
        Translator.load(copy)


def test_damaged_weights_are_refused(copy: Path) -> None:
    content = bytearray((copy / "model.safetensors").read_bytes())
    content[-5] ^= 1
    (copy / "model.safetensors").write_bytes(content)
    with pytest.raises(DataError, match=r"model\.safetensors: damaged"):
        Translator.load(copy)


def test_weights_come_back_bit_by_bit(untrained: Path, translator: Translator) -> None:
    saved = RunDirectory.open(untrained).load_weights()
    model = dict(translator.model.named_parameters())
    assert saved.keys() == model.keys()
    assert all(torch.equal(saved[name], model[name]) for name in saved)
