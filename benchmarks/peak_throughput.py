"""The peak throughput of a model: its linear layers, and how fast this machine multiplies matrices of their shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.harness import OWN_PYTHON, Measured, child

REPEATS = 7


@dataclass(frozen=True, slots=True)
class Layer:
    """A shape of linear layers, and how often a source and a target token pass through one of this shape."""

    inputs: int
    outputs: int
    on_source: int
    on_target: int

    def products(self, source_tokens: float, target_tokens: float) -> float:
        """Multiplications, each with its addition, of these tokens in the forward pass."""
        return self.inputs * self.outputs * (self.on_source * source_tokens + self.on_target * target_tokens)


def linear_layers(model: Measured) -> list[Layer]:
    """All linear layers of an encoder-decoder; attention scores and padding are not counted as work."""
    width, hidden = model["model_dim"], model["feed_forward_dim"]
    encoder, decoder = model["encoder_layers"], model["decoder_layers"]
    return [
        Layer(width, 3 * width, encoder, decoder),  # query, key and value of self-attention
        Layer(width, 2 * width, decoder, 0),  # key and value of cross-attention
        Layer(width, width, encoder, 3 * decoder),  # outputs of attention, query of cross-attention
        Layer(width, hidden, encoder, decoder),
        Layer(hidden, width, encoder, decoder),
        Layer(width, model["vocab_size"], 0, 1),
    ]


def measure_products(products: Sequence[tuple[int, Layer]], threads: int, *, backward: bool) -> Measured:
    """By type, FLOP/s of the products of so many rows with each layer; and the bytes a second of a copy in memory."""
    shapes = [(rows, layer.inputs, layer.outputs) for rows, layer in products]
    job = {"shapes": shapes, "backward": backward, "repeats": REPEATS}
    return child(OWN_PYTHON, "matrix_products", job, threads)
