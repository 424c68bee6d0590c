"""Each way to look where one must not has its own name."""

from __future__ import annotations

import pytest
import torch
from tests.unit.explain.doctor.patients import diagnosis, dropping_model, violation
from tests.unit.models.small import small_model
from torch import Tensor

from dikkat.models.encoder_decoder import Decoder
from dikkat.nn.layers import FeedForward
from dikkat.nn.masks import causal_mask

IN_DECODER = "dikkat.models.encoder_decoder.causal_mask"


@pytest.mark.seed("F36")
@pytest.mark.parametrize(
    ("masked_in", "failing"),
    [
        ((False,), {"no future in training"}),
        ((True,), {"no future in evaluation"}),
        ((), {"no future in evaluation", "no future in training"}),
    ],
)
def test_a_causal_mask_in_some_modes_only(
    masked_in: tuple[bool, ...], failing: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Decoder.forward

    def forward(self: Decoder, x: Tensor, memory: Tensor, memory_mask: Tensor | None = None) -> Tensor:
        masked = self.training in masked_in
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(IN_DECODER, lambda *size, **place: causal_mask(*size, **place) | (not masked))
            return whole(self, x, memory, memory_mask)

    monkeypatch.setattr(Decoder, "forward", forward)
    follows = {"step = teacher forcing"} if "no future in evaluation" in failing else set()
    assert diagnosis(dropping_model()) == (failing, follows)


def test_one_token_of_the_future_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    def one_ahead(length: int, *rest: int, device: torch.device) -> Tensor:
        return torch.ones(length, length, dtype=torch.bool, device=device).tril(1)[None, None]

    monkeypatch.setattr(IN_DECODER, one_ahead)
    assert diagnosis(small_model())[0] == {"no future in evaluation", "no future in training"}


@pytest.mark.seed("F34")
def test_a_layer_over_positions_is_not_blamed_on_the_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = FeedForward.forward
    # a width-3 convolution would do the same
    monkeypatch.setattr(FeedForward, "forward", lambda self, x: whole(self, x + 0.1 * x.mean(dim=1, keepdim=True)))
    failing, follows = diagnosis(small_model())
    assert failing == {"positions meet only in attention"}
    assert {"no future in evaluation", "padding changes nothing", "step = teacher forcing"} <= follows


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_the_stack_in_which_positions_meet_is_named(stack: str) -> None:
    model = small_model()
    block = getattr(model, stack).blocks[1]
    block.feed_forward.register_forward_hook(lambda module, inputs, output: output + output.mean(dim=1, keepdim=True))
    result = violation(model, "positions meet only in attention")
    assert (result.outcome, result.where) == ("fail", stack)
