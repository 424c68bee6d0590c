"""The book's language model, written out from its formulas in plain PyTorch: imported, it gives its logits."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from tests.unit.classroom.written_out import weighted
from tests.unit.interop.checkpoints import change_weights, gpt2_tokenizer
from torch import Tensor, nn

from dikkat import LanguageModel
from dikkat.interop.importing import read_foreign
from dikkat.models.key_table import to_theirs
from dikkat_runtime.cli.main import run
from dikkat_runtime.errors import DataError, UsageError

SETTINGS = {
    "vocab_size": 257, "context_length": 16, "emb_dim": 24, "n_heads": 3, "n_layers": 2, "drop_rate": 0.1,
    "qkv_bias": False,
}  # fmt: skip


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.randn(width)), nn.Parameter(torch.randn(width))

    def forward(self, x: Tensor) -> Tensor:
        x = x - x.mean(-1, keepdim=True)
        return self.scale * x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt() + self.shift


class Tanh(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, length: int, bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.W_query, self.W_key, self.W_value = (nn.Linear(width, width, bias=bias) for _ in range(3))
        self.out_proj = nn.Linear(width, width)
        self.register_buffer("mask", torch.ones(length, length).triu(1))

    def forward(self, x: Tensor) -> Tensor:
        past = torch.ones(1, x.shape[1], x.shape[1]).tril().bool()
        mixed: Tensor = self.out_proj(weighted(self.W_query(x), self.W_key(x), self.W_value(x), past, self.heads)[0])
        return mixed


class Block(nn.Module):
    def __init__(self, width: int, heads: int, length: int, bias: bool) -> None:
        super().__init__()
        self.att, self.norm1, self.norm2 = Attention(width, heads, length, bias), Norm(width), Norm(width)
        self.ff = nn.Module()
        self.ff.layers = nn.Sequential(nn.Linear(width, 4 * width), Tanh(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.att(self.norm1(x))
        return x + self.ff.get_submodule("layers")(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__()
        width, length = settings["emb_dim"], settings["context_length"]
        self.tok_emb, self.pos_emb = nn.Embedding(settings["vocab_size"], width), nn.Embedding(length, width)
        sizes = width, settings["n_heads"], length, settings["qkv_bias"]
        self.trf_blocks = nn.Sequential(*(Block(*sizes) for _ in range(settings["n_layers"])))
        self.final_norm, self.out_head = Norm(width), nn.Linear(width, settings["vocab_size"], bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tok_emb(ids) + self.pos_emb.weight[: ids.shape[1]]
        logits: Tensor = self.out_head(self.final_norm(self.trf_blocks(x)))
        return logits


def written(folder: Path, **changes: Any) -> Gpt:
    settings = {**SETTINGS, **changes}
    model = Gpt(settings)
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(settings))
    safetensors.torch.save_file(dict(model.state_dict()), folder / "model.safetensors")
    gpt2_tokenizer().save(str(folder / "tokenizer.json"))
    return model


@pytest.mark.parametrize("bias", [False, True])
@torch.no_grad()
def test_a_model_of_the_book_becomes_a_run_with_its_logits(bias: bool, tmp_path: Path) -> None:
    theirs = written(tmp_path / "theirs", qkv_bias=bias)
    assert run(["import", str(tmp_path / "theirs"), "--layout", "scratch", "--out", str(tmp_path / "run")]) == 0
    ours, ids = LanguageModel.load(tmp_path / "run"), torch.randint(0, 257, (2, 9))
    assert float((ours.model(ids) - theirs(ids)).abs().max()) <= 1e-5
    found = read_foreign(tmp_path / "theirs", "scratch")
    stored = {name: tensor for name, tensor in theirs.state_dict().items() if not name.endswith("mask")}
    again = to_theirs(found.rows, found.weights)
    assert again.keys() == stored.keys()
    assert all(torch.equal(again[name], stored[name]) for name in stored)


def test_what_is_not_of_the_layout_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    written(folder)
    change_weights(folder, more=torch.zeros(1))
    with pytest.raises(DataError, match="this model has no weight more"):
        read_foreign(folder, "scratch")
    with pytest.raises(DataError, match="model_type None is not supported"):
        read_foreign(folder)
    (folder / "config.json").write_text(json.dumps({**SETTINGS, "qkv_bias": 1}))
    with pytest.raises(DataError, match="qkv_bias must be true or false, not 1"):
        read_foreign(folder, "scratch")
    with pytest.raises(UsageError, match='there is no layout "scrach"; did you mean "scratch"'):
        read_foreign(folder, "scrach")
    with pytest.raises(
        UsageError, match=r"--layout nyu: .* dikkat\.lessons\.classroom\.load_weights\(model, path, .nyu.\)"
    ):
        read_foreign(folder, "nyu")
