"""A GPU beside the processor: the same updates, the same translations, and a run that goes on as if never stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.unit.training.toy import Recorder, task_of, toy_model, toy_trainer

from dikkat.nn.masks import causal_mask
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.sliding_window import LONG
from dikkat.torch_engine.engine import TorchEngine
from dikkat.training.loop import Trainer
from dikkat.training.precision import Precision
from dikkat_runtime.engine.contract import Hypothesis
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions
from dikkat_runtime.tasks.batches import search_all

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

SENTENCES = [[4, 5, 6], [7], [8, 9, 10, 11, 12, 13], [], [14, 15]]


def gpu_trainer(folder: Path, precision: Precision, *, resume: bool = False) -> Trainer:
    here = toy_trainer(folder, optimizer="muon", dropout=0.1, resume=resume)
    task = task_of(here)
    task.model.to("cuda")
    return Trainer(task, here.run, here.config, here.budget, precision)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize(("precision", "most"), [(torch.float32, 1e-4), (torch.bfloat16, 0.1)], ids=str)
def test_a_gpu_learns_what_a_processor_learns(
    tmp_path: Path, precision: torch.dtype, most: float, dropout: float
) -> None:
    result = []
    for device in ("cpu", "cuda"):
        here = toy_trainer(tmp_path / device, dropout=dropout)
        task_of(here).model.to(device)
        trainer = Trainer(task_of(here), here.run, here.config, here.budget, Precision(precision))
        trainer.train(watcher := Recorder())
        result.append([report.loss for report in watcher.steps])
    assert result[1][-1] < result[1][0]
    assert result[1] == pytest.approx(result[0], abs=most)


@pytest.mark.parametrize("options", [DecodingOptions(), BeamOptions(beam_size=3)], ids=["greedy", "beam"])
def test_a_gpu_writes_what_a_processor_writes(options: DecodingOptions) -> None:
    written: list[list[list[Hypothesis]]] = []
    for device in ("cpu", "cuda"):
        model = toy_model().to(device).eval()
        written.append(search_all(TorchEngine(model), SENTENCES, options, batch_size=3))
    for here, there in zip(*written, strict=True):
        assert [item.tokens for item in here] == [item.tokens for item in there]
        assert [item.score for item in here] == pytest.approx([item.score for item in there], abs=1e-5)


@pytest.mark.parametrize("options", [DecodingOptions(), BeamOptions(beam_size=3)], ids=["greedy", "beam"])
def test_a_gpu_writes_with_rounded_weights(options: DecodingOptions) -> None:
    model = toy_model().to("cuda", torch.bfloat16)
    rounded = toy_model().to("cuda")
    rounded.load_state_dict(model.state_dict())
    found, wanted = (search_all(TorchEngine(each), SENTENCES, options, batch_size=3) for each in (model, rounded))
    for one, other in zip(found, wanted, strict=True):
        assert one[0].score == pytest.approx(other[0].score, abs=0.1)


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16], ids=str)
def test_a_gpu_goes_on_bit_for_bit(tmp_path: Path, precision: torch.dtype) -> None:
    whole = gpu_trainer(tmp_path / "whole", Precision(precision))
    whole.train(Recorder())
    first = gpu_trainer(tmp_path / "parts", Precision(precision))
    watcher = Recorder()
    assert not first.train(watcher, should_stop=lambda: len(watcher.steps) == 5)
    second = gpu_trainer(tmp_path / "parts", Precision(precision), resume=True)
    checkpoint = second.run.latest_checkpoint()
    assert checkpoint is not None
    second.resume(checkpoint)
    second.train(Recorder())
    assert torch.equal(second.parameters.master, whole.parameters.master)


def test_a_gpu_sees_through_a_window_what_a_processor_sees() -> None:
    module = MultiHeadAttention(32, 2, window=20, causal=True)
    x, mask, result = torch.randn(2, LONG + 150, 32), causal_mask(LONG + 150), []
    for device in ("cpu", "cuda"):
        inputs = x.to(device).requires_grad_()
        output = module.to(device)(inputs, mask=mask.to(device))
        result.append((output.cpu(), torch.autograd.grad(output.square().sum(), inputs)[0].cpu()))
    for here, there in zip(*result, strict=True):
        assert (here - there).abs().max() <= 1e-4


def test_an_update_waits_for_the_gpu_nowhere(tmp_path: Path) -> None:
    trainer = gpu_trainer(tmp_path, Precision(torch.bfloat16))
    trainer.launch(0.1)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        result, _ = trainer.launch(0.1)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert bool(result.isfinite().all())
