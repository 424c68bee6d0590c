"""The parameters of Marian, by its names in .npz and .bin files, and ours; see src/models/transformer.h there.

A file keeps matrices as (inputs, outputs), and vectors as (1, D). Layers are numbered from 1.
"""

from __future__ import annotations

from collections.abc import Iterator

from dikkat.config import ModelConfig
from dikkat.interop.foreign_translator import BIAS, OUTPUT, SOURCE, TARGET
from dikkat.models.key_table import Row


def rows(model: ModelConfig) -> list[Row]:
    """Return the table for a translator of these settings."""
    table = list(_embeddings(model))
    for number in range(model.encoder_layers):
        ours, theirs = f"encoder.blocks.{number}", f"encoder_l{number + 1}"
        table += [*_attention(ours, theirs, "self"), *_feed_forward(ours, theirs)]
    for number in range(model.decoder_layers):
        ours, theirs = f"decoder.blocks.{number}", f"decoder_l{number + 1}"
        if model.decoder_memory == "ssru":
            table += _recurrence(ours, theirs)
        else:
            table += _attention(ours, theirs, "self")
        table += [*_attention(ours, theirs, "cross"), *_feed_forward(ours, theirs)]
    return table


def _embeddings(model: ModelConfig) -> Iterator[Row]:
    if model.target_vocab_size is None:
        yield Row(OUTPUT, ("Wemb",))
    else:
        yield Row(SOURCE, ("encoder_Wemb",))
        if model.tie_embeddings:
            yield Row(OUTPUT, ("decoder_Wemb",))
        else:
            yield Row(TARGET, ("decoder_Wemb",))
            yield Row(OUTPUT, ("decoder_ff_logit_out_Wt",))
    yield Row(BIAS, ("decoder_ff_logit_out_b",))


def _attention(ours: str, theirs: str, kind: str) -> Iterator[Row]:
    own, name = f"{ours}.{kind}_attention", f"{theirs}_{'context' if kind == 'cross' else 'self'}"
    yield Row(f"{own}.in_projection.weight", tuple(f"{name}_W{part}" for part in "qkv"), transposed=True)
    yield Row(f"{own}.in_projection.bias", tuple(f"{name}_b{part}" for part in "qkv"))
    yield Row(f"{own}.out_projection.weight", (f"{name}_Wo",), transposed=True)
    yield Row(f"{own}.out_projection.bias", (f"{name}_bo",))
    yield from _norm(f"{ours}.{kind}_residual.norm", f"{name}_Wo_ln")


def _recurrence(ours: str, theirs: str) -> Iterator[Row]:
    yield Row(f"{ours}.recurrence.content.weight", (f"{theirs}_rnn_W",), transposed=True)
    yield Row(f"{ours}.recurrence.forget.weight", (f"{theirs}_rnn_Wf",), transposed=True)
    yield Row(f"{ours}.recurrence.forget.bias", (f"{theirs}_rnn_bf",))
    yield from _norm(f"{ours}.self_residual.norm", f"{theirs}_rnn_ffn_ln")


def _feed_forward(ours: str, theirs: str) -> Iterator[Row]:
    for part, number in (("inner", 1), ("outer", 2)):
        yield Row(f"{ours}.feed_forward.{part}.weight", (f"{theirs}_ffn_W{number}",), transposed=True)
        yield Row(f"{ours}.feed_forward.{part}.bias", (f"{theirs}_ffn_b{number}",))
    yield from _norm(f"{ours}.feed_forward_residual.norm", f"{theirs}_ffn_ffn_ln")


def _norm(ours: str, theirs: str) -> Iterator[Row]:
    yield Row(f"{ours}.weight", (f"{theirs}_scale",))
    yield Row(f"{ours}.bias", (f"{theirs}_bias",))
