"""The torch engine with weights in bfloat16, as a GPU validates with them."""

from __future__ import annotations

import pytest
import torch
from tests.unit.training.toy import toy_model

from dikkat.torch_engine.engine import TorchEngine
from dikkat_runtime.engine.options import BeamOptions, DecodingOptions
from dikkat_runtime.tasks.batches import search_all

SENTENCES = [[4, 5, 6], [7], [8, 9, 10, 11, 12, 13], [], [14, 15]]


@pytest.mark.parametrize("options", [DecodingOptions(), BeamOptions(beam_size=3)], ids=["greedy", "beam"])
def test_a_model_in_bfloat16_scores_about_as_the_same_weights_in_float32(options: DecodingOptions) -> None:
    model, rounded = toy_model().bfloat16(), toy_model()
    rounded.load_state_dict(model.state_dict())
    assert rounded.output_weight.dtype == torch.float32
    found, wanted = (search_all(TorchEngine(each), SENTENCES, options, batch_size=3) for each in (model, rounded))
    for one, other in zip(found, wanted, strict=True):
        assert one[0].score == pytest.approx(other[0].score, abs=0.1)
