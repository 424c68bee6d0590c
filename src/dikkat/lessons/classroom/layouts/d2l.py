"""The translator of *Dive into Deep Learning*, section 11.7: names of its PyTorch and of its MXNet parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dikkat.models.key_table import Row, layer

_FEED_FORWARD = (
    *layer("feed_forward.inner", "ffn.dense1"),
    *layer("feed_forward.outer", "ffn.dense2"),
)


def _attention(ours: str, theirs: str) -> tuple[Row, ...]:
    return (
        *layer(f"{ours}.in_projection", *(f"{theirs}.W_{part}" for part in "qkv")),
        *layer(f"{ours}.out_projection", f"{theirs}.W_o"),
    )


ENCODER_BLOCK = (
    *_attention("self_attention", "attention"),
    *layer("self_residual.norm", "addnorm1.ln"),
    *_FEED_FORWARD,
    *layer("feed_forward_residual.norm", "addnorm2.ln"),
)
DECODER_BLOCK = (
    *_attention("self_attention", "attention1"),
    *layer("self_residual.norm", "addnorm1.ln"),
    *_attention("cross_attention", "attention2"),
    *layer("cross_residual.norm", "addnorm2.ln"),
    *_FEED_FORWARD,
    *layer("feed_forward_residual.norm", "addnorm3.ln"),
)


def rows(encoder_layers: int, decoder_layers: int, *, mxnet: bool = False) -> list[Row]:
    """The table of a translator, with its biases; MXNet numbers blocks plainly and calls a norm's weights gamma, beta.

    Rows of biases that a model has not are to be left out.
    """
    rows = [
        Row("encoder.embedding.weight", ("encoder.embedding.weight",)),
        *_stacked(ENCODER_BLOCK, "encoder", encoder_layers, "" if mxnet else "block"),
        Row("decoder.embedding.weight", ("decoder.embedding.weight",)),
        *_stacked(DECODER_BLOCK, "decoder", decoder_layers, "" if mxnet else "block"),
        *layer("decoder.dense", "decoder.dense"),
    ]
    return [replace(row, theirs=tuple(map(_mxnet_norm, row.theirs))) for row in rows] if mxnet else rows


def _stacked(block: tuple[Row, ...], stack: str, layers: int, prefix: str) -> Iterator[Row]:
    for number in range(layers):
        for row in block:
            yield row.within(f"{stack}.blks.{number}.", f"{stack}.blks.{prefix}{number}.")


def _mxnet_norm(name: str) -> str:
    return name.replace(".ln.weight", ".ln.gamma").replace(".ln.bias", ".ln.beta")
