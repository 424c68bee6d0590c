"""Measure with a linear probe how well each layer still encodes the position of a token.

    python examples/position_probe.py

prints the accuracy of the probe before and after each of eight post-norm layers, with positions added once and in every
layer (Dehghani et al. 2019, section 2.1). A chance guess has 1/16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from dikkat.models.encoder_decoder import Encoder
from dikkat.nn import EncoderBlock, PositionedEncoderBlock, SinusoidalPositions

WIDTH, LENGTH, LAYERS = 32, 16, 8


def position_accuracies(blocks: Sequence[nn.Module], run: Callable[[], object]) -> list[float]:
    """Return the accuracy of a probe on the input of the first block and on the output of each.

    The input should be many rows (B) of random tokens of one length (T), so that nothing but the position can be read.
    A chance guess has 1/T. Raises `ValueError` for fewer rows than the probe needs.
    """
    states: list[Tensor] = []
    handles = [blocks[0].register_forward_pre_hook(lambda _, inputs: states.append(inputs[0]))]
    handles += [block.register_forward_hook(lambda _, __, output: states.append(output)) for block in blocks]
    try:
        with torch.no_grad():
            run()
    finally:
        for handle in handles:
            handle.remove()
    return [position_accuracy(hidden) for hidden in states]


def position_accuracy(hidden: Float[Tensor, "B T D"]) -> float:
    """Return the share of tokens whose position a linear probe predicts.

    The probe is fitted by least squares to the first half of the rows and tested on the second.

    The probe has one weight vector and bias a position (a linear probe, Alain and Bengio 2017). Raises `ValueError`
    if the first half has fewer tokens than D + 1, the probe's weights a position.
    """
    rows, length, width = hidden.shape
    half = rows // 2
    if half * length <= width:
        raise ValueError(
            f"a probe of width {width} needs more than {width} tokens to be fitted, but has {half * length}"
        )
    wanted = torch.arange(length, device=hidden.device)
    # (B, T, D) -> (B, T, D + 1): a column of ones carries the bias
    features = torch.cat((hidden.double(), hidden.new_ones(rows, length, 1, dtype=torch.float64)), dim=-1)
    targets = torch.eye(length, dtype=torch.float64, device=hidden.device).repeat(half, 1)
    # the driver that copes with dependent columns, such as those of a normalised vector
    probe = torch.linalg.lstsq(features[:half].flatten(0, 1), targets, driver="gelsd").solution
    return float(((features[half:] @ probe).argmax(-1) == wanted).double().mean())


def deep_encoder(again: bool) -> Encoder:
    """Return a random encoder of `LAYERS` post-norm layers, in each of which the sum with the embeddings is diluted.

    With `again`, every layer adds the positions to its input once more.
    """
    positions = SinusoidalPositions(WIDTH)
    blocks = [
        PositionedEncoderBlock(positions, WIDTH, 4, 64) if again else EncoderBlock(WIDTH, 4, 64) for _ in range(LAYERS)
    ]
    return Encoder(blocks, nn.Identity()).eval()


def random_words() -> Float[Tensor, "B T D"]:
    """Return 200 rows of 16 words out of 40, whose vectors say nothing of their positions."""
    return torch.randn(40, WIDTH)[torch.randint(0, 40, (200, LENGTH))]


def main() -> None:
    positions = SinusoidalPositions(WIDTH)
    for name, again in (("positions once", False), ("positions in every layer", True)):
        torch.manual_seed(3)
        encoder, x = deep_encoder(again), positions(random_words())
        accuracies = position_accuracies([*encoder.blocks], partial(encoder, x))
        print(f"{name:26}", *(f"{accuracy:.2f}" for accuracy in accuracies))


if __name__ == "__main__":
    main()
