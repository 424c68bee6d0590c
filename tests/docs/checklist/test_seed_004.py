"""Rows of seed 004, the textbook's Transformer, that no other test covers (E10 to E12: tests/system/test_d2l.py)."""

from __future__ import annotations

import contextlib
import io
import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.system.toy import TINY, kept_signals, toy_sentences
from tests.unit.models.small import real_tokens, shake, some_tokens
from torch import Tensor, nn
from torch.nn import functional as F

from dikkat.config import build_config, merge, preset
from dikkat.models.encoder_decoder import Encoder
from dikkat.models.factory import build_model
from dikkat.nn import (
    BlockSettings,
    DecoderBlock,
    EncoderBlock,
    LayerNorm,
    PostNormResidual,
    PreNormResidual,
    SinusoidalPositions,
    TokenEmbedding,
    causal_mask,
    key_mask,
)
from dikkat_runtime.cli.main import run as run_command

ROOT = Path(__file__).resolve().parents[3]

# E1, E3, E4: the parts and how they are put together ------------------------------------------------------------------


@pytest.mark.seed("E1")
def test_the_textbook_preset_is_the_assembled_post_norm_model() -> None:
    settings = build_config(merge(preset("d2l"), {"model": {"vocab_size": 23}})).model
    model = build_model(settings, seed=1).eval()
    wrappers = [part for part in model.modules() if isinstance(part, PostNormResidual | PreNormResidual)]
    assert [type(part) for part in wrappers] == [PostNormResidual] * (2 * 2 + 2 * 3)
    outputs: list[Tensor] = []
    for part in wrappers:
        part.register_forward_hook(lambda _, __, output: outputs.append(output))
    source, target, mask = some_tokens(2, 5), some_tokens(2, 6), real_tokens([5, 3], 5)
    logits = model(source, target, mask)
    assert logits.shape == (2, 6, 23)
    for output in outputs:
        # every sub-layer gives R^d, and the norm comes after the residual sum: mean 0, variance 1
        assert output.shape[-1] == settings.model_dim
        torch.testing.assert_close(output.mean(-1), torch.zeros(output.shape[:2]), rtol=0, atol=1e-5)
        torch.testing.assert_close(output.var(-1, unbiased=False), torch.ones(output.shape[:2]), rtol=0, atol=1e-3)
    later = target.clone()
    later[:, 4:] = 3 + (later[:, 4:] - 2) % 20
    changed = (model(source, later, mask) - logits).abs().amax((0, 2))
    assert (changed[:4] <= 1e-6).all()
    assert (changed[4:] > 1e-3).all()


@pytest.mark.seed("E3")
def test_layer_norm_looks_along_features_and_batch_norm_along_examples() -> None:
    x, exact = torch.tensor([[1.0, 2.0], [2.0, 3.0]]), 0.99998
    layer, batch = LayerNorm(2)(x), nn.BatchNorm1d(2)(x)
    torch.testing.assert_close(layer, exact * torch.tensor([[-1.0, 1.0], [-1.0, 1.0]]), rtol=0, atol=1e-6)
    torch.testing.assert_close(batch, exact * torch.tensor([[-1.0, -1.0], [1.0, 1.0]]), rtol=0, atol=1e-6)


@pytest.mark.seed("E4")
def test_add_and_norm_is_the_norm_of_the_dropped_output_plus_the_input() -> None:
    wrapper, x, y = PostNormResidual(4, dropout=0.5), torch.ones(2, 3, 4), torch.randn(2, 3, 4)
    x = x + torch.randn(2, 3, 4)
    for training in (True, False):
        wrapper.train(training)
        torch.manual_seed(7)
        output = wrapper(x, lambda _: y)
        torch.manual_seed(7)
        dropped = wrapper.dropout(torch.ones_like(y)) * y
        assert output.shape == (2, 3, 4)
        torch.testing.assert_close(output, F.layer_norm(dropped + x, (4,)), rtol=0, atol=1e-5)
    torch.testing.assert_close(output, F.layer_norm(y + x, (4,)), rtol=0, atol=1e-5)


# E18: either half alone -----------------------------------------------------------------------------------------------

VOCABULARY, LENGTH = 12, 8


def stack() -> Encoder:
    """The same two blocks, whatever they are used for."""
    return Encoder([EncoderBlock(32, 4, 64) for _ in range(2)], nn.Identity())


class Half(nn.Module):
    """Ids, embeddings, positions, the stack, a linear layer: all that either half needs."""

    def __init__(self, answers: int) -> None:
        super().__init__()
        self.embedding, self.positions, self.stack = TokenEmbedding(VOCABULARY, 32), SinusoidalPositions(32), stack()
        self.head = nn.Linear(32, answers)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.head(self.stack(self.positions(self.embedding(tokens)), mask))


def trained(model: Half, batch: Callable[[], Any], loss: Callable[..., Tensor], updates: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(updates):
        value = loss(*batch())
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    model.eval()


@pytest.mark.seed("E18")
@pytest.mark.slow
def test_an_encoder_alone_classifies() -> None:
    """Does token 3 come before token 4? Padding is masked in attention and in the mean."""

    def batch(size: int = 64) -> tuple[Tensor, Tensor, Tensor]:
        tokens, lengths = torch.randint(5, VOCABULARY, (size, LENGTH)), torch.randint(4, LENGTH + 1, (size,))
        indices = torch.rand(size, 4).argsort(-1)[:, :2]
        tokens.scatter_(1, indices, torch.tensor([3, 4]).expand(size, 2))
        real = torch.arange(LENGTH) < lengths[:, None]
        return tokens.masked_fill(~real, 0), real, (indices[:, 0] < indices[:, 1]).long()

    def answers(tokens: Tensor, real: Tensor) -> Tensor:
        item = model(tokens, key_mask(real))
        return (item * real[..., None]).sum(1) / real.sum(1, keepdim=True)

    torch.manual_seed(1)
    model = Half(2)
    trained(model, batch, lambda tokens, real, wanted: F.cross_entropy(answers(tokens, real), wanted), 300)
    tokens, real, wanted = batch(1000)
    assert (answers(tokens, real).argmax(-1) == wanted).float().mean() > 0.95


@pytest.mark.seed("E18")
@pytest.mark.nightly
def test_a_decoder_alone_writes() -> None:
    """A language model: each token is the sum of the two before it, modulo 7; the first two are free."""

    def batch(size: int = 64) -> tuple[Tensor]:
        rows = [torch.randint(0, 7, (size,)), torch.randint(0, 7, (size,))]
        while len(rows) < LENGTH + 1:
            rows.append((rows[-1] + rows[-2]) % 7)
        return (torch.stack(rows, 1),)

    def logits(tokens: Tensor) -> Tensor:
        return model(tokens, causal_mask(tokens.shape[1]))

    torch.manual_seed(1)
    model = Half(VOCABULARY)

    def loss(tokens: Tensor) -> Tensor:
        return F.cross_entropy(logits(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

    trained(model, batch, loss, 800)
    (rows,) = batch(200)
    written = rows[:, :2]
    with torch.no_grad():
        while written.shape[1] < LENGTH:
            written = torch.cat((written, logits(written)[:, -1:].argmax(-1)), 1)
    assert (written == rows[:, :LENGTH]).all(1).float().mean() > 0.95


@pytest.mark.seed("E18")
def test_a_decoder_block_without_a_source_is_the_same_block() -> None:
    """With nothing to attend to, cross-attention adds nothing; what is left has the encoder block's weights."""
    settings = BlockSettings(norm_placement="pre", attention_bias=False)
    decoder, encoder = DecoderBlock(16, 4, 32, settings).eval(), EncoderBlock(16, 4, 32, settings).eval()
    shake(decoder)
    own = {name: value for name, value in decoder.state_dict().items() if not name.startswith("cross_")}
    encoder.load_state_dict(own)
    x, memory, nothing = torch.randn(2, 6, 16), torch.randn(2, 3, 16), torch.zeros(2, 1, 1, 3, dtype=torch.bool)
    expected = encoder(x, causal_mask(6))
    torch.testing.assert_close(decoder(x, memory, causal_mask(6), nothing), expected, rtol=0, atol=1e-6)
    assert not torch.allclose(decoder(x, memory, causal_mask(6)), expected, atol=1e-2)


# E19, E20: the sweep of docs/sweep.md ---------------------------------------------------------------------------------

FIXED = {**TINY, "training.max_epochs": 6, "training.validations": 2}


def in_this_process(command: list[str], check: bool, **_: object) -> subprocess.CompletedProcess[str]:
    """What `subprocess.run` would do, without four seconds of imports."""
    assert check
    assert command[0] == "dikkat"
    output, notes = io.StringIO(), io.StringIO()
    with kept_signals(), contextlib.redirect_stdout(output), contextlib.redirect_stderr(notes):
        code = run_command(command[1:])
    assert code == 0, notes.getvalue()
    return subprocess.CompletedProcess(command, code, output.getvalue(), notes.getvalue())


def swept(number: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, float, float, float]]:
    """The rows that the page's loop prints with its SWEEP of that number, on 80 pairs of a toy language."""
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / "docs/sweep.md").read_text(encoding="utf-8"), re.M | re.S)
    data = folder / "toy.en-eo.tsv"
    data.write_text("".join(f"{source}\t{target}\n" for source, target in toy_sentences(80)), encoding="utf-8")
    fixed = [word for name, value in FIXED.items() for word in ("--set", f"{name}={value}")]
    code = blocks[0]
    lines = {"DATA": f"{[str(data)]!r}", "FIXED": f"{fixed!r}"}
    if number:
        lines["SWEEP"] = blocks[number].removeprefix("SWEEP = ")
    for name, value in lines.items():
        line = f"{name} = {value}".replace("\\", r"\\")
        code, count = re.subn(rf"^{name} = .*$", line, code, flags=re.M)
        assert count == 1
    monkeypatch.chdir(folder)
    monkeypatch.setattr(subprocess, "run", in_this_process)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "docs/sweep.md", "exec"), {})
    head, rule, *rows = printed.getvalue().rstrip("\n").split("\n")
    assert (head, rule) == ("| setting | tokens/s | BLEU | chrF |", "|---|---|---|---|")
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    return [(name, *(float(value.replace(",", "")) for value in values)) for name, *values in cells]  # type: ignore[misc]


def settings_of(run: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((run / "config.json").read_text(encoding="utf-8"))
    return loaded


@pytest.mark.seed("E19")
@pytest.mark.slow
def test_a_sweep_over_layers_prints_speed_and_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = swept(0, tmp_path, monkeypatch)
    assert [name for name, *_ in rows] == [f"model.encoder_layers={layers}" for layers in (1, 2, 4)]
    for layers, (name, speed, bleu, chrf) in zip((1, 2, 4), rows, strict=True):
        assert settings_of(tmp_path / "runs" / name)["model"]["encoder_layers"] == layers
        assert speed > 0
        assert 0 <= bleu <= 100
        assert 0 < chrf <= 100


@pytest.mark.seed("E20")
@pytest.mark.slow
def test_the_additive_score_trains_and_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = swept(1, tmp_path, monkeypatch)
    assert [name for name, *_ in rows][:2] == ["model.score=scaled_dot", "model.score=additive"]
    for name, speed, _, chrf in rows:
        assert settings_of(tmp_path / "runs" / name)["model"]["score"] == name.split("=")[1]
        losses = [
            json.loads(line)["train_loss"]
            for line in (tmp_path / "runs" / name / "metrics.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
        ]
        assert losses[-1] < losses[0] - 0.2
        assert speed > 0
        assert chrf > 0
