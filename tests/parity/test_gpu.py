"""A GPU beside the processor: the same updates, the same translations, and a run that goes on as if never stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.unit.training.toy import Recorder, task_of, toy_model, toy_trainer

from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.nn.masks import causal_mask
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.sliding_window import LONG
from dikkat.torch_engine.engine import TorchEngine
from dikkat.torch_engine.graph_engine import GraphEngine
from dikkat.training.loop import Trainer
from dikkat.training.precision import Precision
from dikkat_runtime.engine.hypotheses import Hypothesis
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions
from dikkat_runtime.tasks.batches import search_all

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

SENTENCES = [[4, 5, 6], [7], [8, 9, 10, 11, 12, 13], [], [14, 15]]
GRAPH_OPTIONS = [DecodingOptions(scores=False), DecodingOptions(), BeamOptions(beam_size=3)]
GRAPH_SETTINGS: dict[str, dict[str, Any]] = {
    "paper": {},
    "rotary, one group": {"positions": "rotary", "num_kv_heads": 1, "norm_placement": "pre"},
    "recurrent": {"decoder_memory": "ssru"},
    "window": {"positions": "learned", "attention_window": 3, "norm": "rms"},
}


def graph_model(settings: dict[str, Any]) -> EncoderDecoder:
    """Random weights whose sentences depend on their sources."""
    model = toy_model(**settings)
    block: Any = model.decoder.blocks[0]
    with torch.no_grad():
        block.cross_attention.out_projection.weight *= 3
    return model


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


@pytest.mark.parametrize("options", GRAPH_OPTIONS, ids=["greedy", "scores", "beam"])
@pytest.mark.parametrize("settings", GRAPH_SETTINGS.values(), ids=GRAPH_SETTINGS)
def test_recorded_steps_write_what_a_processor_writes(settings: dict[str, Any], options: DecodingOptions) -> None:
    sentences = [*SENTENCES, *([4 + number % 19, 5, 6] * (1 + number % 5) for number in range(40))]
    expected = search_all(TorchEngine(graph_model(settings).eval()), sentences, options)
    engine = GraphEngine(graph_model(settings).to("cuda"))
    # steps are taken one by one, then recorded, then only played again
    for _ in range(3):
        result = search_all(engine, sentences, options)
        assert [item[0].tokens for item in result] == [item[0].tokens for item in expected]
        scores = [[item[0].score for item in written] for written in (result, expected)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-4, nan_ok=True)
    assert any(graph is not None for plan in engine._captures.values() for graph in plan._graphs.values())


@pytest.mark.parametrize("options", GRAPH_OPTIONS, ids=["greedy", "scores", "beam"])
def test_float16_on_a_gpu_writes_nearly_as_likely_sentences(options: DecodingOptions) -> None:
    engines = [
        GraphEngine(graph_model({}).to("cuda"), precision="float16"),
        GraphEngine(graph_model({}).to("cuda"), precision="float32"),
    ]
    for _ in range(2):
        found, wanted = (search_all(engine, SENTENCES, options) for engine in engines)
        assert [item[0].score for item in found] == pytest.approx(
            [item[0].score for item in wanted], abs=0.05, nan_ok=True
        )


@pytest.mark.parametrize("options", GRAPH_OPTIONS, ids=["greedy", "scores", "beam"])
def test_steps_of_search_wait_for_the_gpu_nowhere(options: DecodingOptions) -> None:
    engine = GraphEngine(graph_model({}).to("cuda"), precision="float16", records=False)
    search_all(engine, SENTENCES, options)
    plan = next(iter(engine._captures.values()))
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        with torch.inference_mode():
            plan.take_steps(0)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()


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
