"""Every choice that a configuration can name, and some together."""

from __future__ import annotations

from typing import Any

from dikkat.config import ABSOLUTE_POSITIONS

CHOICES: dict[str, dict[str, Any]] = {
    "default": {},
    **{
        f"positions {name}": {"positions": name}
        for name in (*ABSOLUTE_POSITIONS[1:], "rotary", "alibi", "relative", "relative_buckets", "none")
    },
    **{f"score {name}": {"score": name} for name in ("dot", "additive", "bilinear")},
    **{f"selection {name}": {"selection": name} for name in ("argmax", "straight_through", "gumbel")},
    **{
        f"activation {name}": {"activation": name}
        for name in ("gelu", "gelu_tanh", "silu", "geglu", "geglu_tanh", "swiglu")
    },
    **{f"norm {name}": {"norm_placement": name, "norm": "rms"} for name in ("output", "both")},
    "disentangled score": {"score": "disentangled", "relative_span": 4, "relative_range": 12, "positions": "none"},
    "limited scores": {"attention_softcap": 2.0},
    "norm of queries and keys": {"query_key_norm": "head"},
    "norm of all queries and keys": {"query_key_norm": "all", "num_kv_heads": 1},
    "bias beside positions": {"relative_bias": True, "positions": "learned"},
    "positions of each side": {"shared_positions": False, "positions": "learned", "embedding_norm": True},
    "kinds of layers": {
        "positions": "rotary", "attention_window": 2, "layer_kinds": ("window", "unrotated"),
        "window_rotary_frequencies": (0.5, 0.1),
    },
    "rms norm": {"norm": "rms"},
    "rms norm after": {"norm": "rms", "norm_placement": "post"},
    "plain embeddings": {"scale_embeddings": False},
    "embedding norm": {"embedding_norm": True},
    "embedding rms norm": {"embedding_norm": True, "norm": "rms"},
    "multi-query": {"num_kv_heads": 1},
    "free head width": {"head_dim": 6},
    "recurrent decoder": {"decoder_memory": "ssru"},
    "output bias": {"output_bias": True},
    "output bias apart": {"output_bias": True, "tie_embeddings": False},
    "positions in every layer": {"positions_in_every_layer": True},
    "learned positions in every layer": {"positions_in_every_layer": True, "positions": "learned"},
    "three heads": {"num_heads": 3, "head_dim": 4},
    "start from zero": {"start_from_zero": True},
    "no end of sources": {"add_source_eos": False},
    "no bias but the last": {"attention_bias": False, "attention_output_bias": True},
    "temperature": {"inverse_temperature": 0.7},
    "window": {"attention_window": 2},
    "window and global": {"attention_window": 1, "global_tokens": 2},
    "modern": {
        "positions": "rotary", "norm": "rms", "activation": "swiglu", "num_kv_heads": 1, "attention_bias": False,
    },
    "everything": {
        "positions": "relative_buckets", "score": "additive", "selection": "gumbel", "norm": "rms",
        "activation": "geglu", "num_kv_heads": 1, "head_dim": 6, "attention_window": 3, "global_tokens": 1,
        "inverse_temperature": 0.5, "norm_placement": "post", "attention_dropout": 0.1, "tie_embeddings": False,
    },
    "forced first token": {"target_prefix": 5},
}  # fmt: skip
