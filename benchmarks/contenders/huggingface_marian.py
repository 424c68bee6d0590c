"""MarianMT of Hugging Face's transformers in the shape of a model of ours: post-norm, sines and tied embeddings."""

from __future__ import annotations

from typing import Any

from transformers import MarianConfig, MarianMTModel

PAD_ID, BOS_ID, EOS_ID = 0, 1, 2


def build(shape: dict[str, Any], attention: str) -> Any:
    """Random weights; `attention` is "sdpa", the default of transformers, or "eager"."""
    model = MarianMTModel(
        MarianConfig(
            vocab_size=shape["vocab_size"],
            d_model=shape["model_dim"],
            encoder_layers=shape["encoder_layers"],
            decoder_layers=shape["decoder_layers"],
            encoder_attention_heads=shape["num_heads"],
            decoder_attention_heads=shape["num_heads"],
            encoder_ffn_dim=shape["feed_forward_dim"],
            decoder_ffn_dim=shape["feed_forward_dim"],
            dropout=shape["dropout"],
            activation_function=shape["activation"],
            scale_embedding=True,
            pad_token_id=PAD_ID,
            bos_token_id=BOS_ID,
            eos_token_id=EOS_ID,
            forced_eos_token_id=EOS_ID,
            decoder_start_token_id=BOS_ID,
        )
    )
    model.set_attn_implementation(attention)
    return model
