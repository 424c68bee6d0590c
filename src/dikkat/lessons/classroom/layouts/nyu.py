"""The sentiment classifier of the NYU course's notebook 15, *Transformer*: the names of its parameters."""

from __future__ import annotations

from dikkat.models.key_table import Row, layer, stacked

POSITIONS = "encoder.embedding.position_embeddings.weight"
"""The table of sines and cosines, which is stored and never trained."""

BLOCK = (
    Row("self_attention.in_projection.weight", tuple(f"mha.W_{part}.weight" for part in "qkv")),
    *layer("self_attention.out_projection", "mha.W_h"),
    *layer("self_residual.norm", "layernorm1"),
    *layer("feed_forward.inner", "cnn.k1convL1"),
    *layer("feed_forward.outer", "cnn.k1convL2"),
    *layer("feed_forward_residual.norm", "layernorm2"),
)


def rows(layers: int) -> list[Row]:
    """The table of a classifier."""
    return [
        Row("encoder.embedding.word_embeddings.weight", ("encoder.embedding.word_embeddings.weight",)),
        *layer("encoder.embedding.norm", "encoder.embedding.LayerNorm"),
        *stacked(BLOCK, "encoder.enc_layers", "encoder.enc_layers", layers),
        *layer("dense", "dense"),
    ]
