"""DeBERTa-v2 and v3: a disentangled score, whose vectors of distances each layer projects like queries and keys."""

import math
from collections.abc import Collection, Sequence

from torch import Tensor
from torch.nn import functional as F

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.families.bert import BLOCK, CONSTANTS, EMBEDDINGS, PREDICTED
from dikkat.interop.family import Derived, Family, Head, Keys, block
from dikkat.interop.family_settings import encoder_sizes
from dikkat_runtime.errors import DataError

_SELF = "attention.self"
_PARTS = "&".join(f"{_SELF}.{part}_proj" for part in ("query", "key", "value"))
_BLOCK = {**BLOCK, "self_attention.in_projection": _PARTS}


def _positions(model: ModelConfig, parts: Sequence[Tensor]) -> Tensor:
    """Return the vectors (H, 2 span, K) of the distances, by a table, a projection, and a norm where there is one."""
    table, weight, bias = parts[:3]
    table = table[: 2 * (model.relative_span or 0)]
    if len(parts) == 5:
        table = F.layer_norm(table, table.shape[1:], parts[3], parts[4], model.norm_eps)
    # (2 span, H * K) -> (H, 2 span, K)
    return F.linear(table, weight, bias).view(len(table), model.num_heads, -1).transpose(0, 1)


def keys(model: ModelConfig, theirs: ForeignSettings) -> Keys:
    has_norm = "layer_norm" in str(theirs.values.get("norm_rel_ebd", "none")).lower()
    norm = ("encoder.LayerNorm.weight", "encoder.LayerNorm.bias") if has_norm else ()
    score, table = "encoder.blocks.*.self_attention.comparison.score", {}
    for part, kind in (("key", "c2p"), ("query", "p2c")):
        name = f"{'' if theirs.values.get('share_att_key') else 'pos_'}{part}_proj"
        at = f"encoder.layer.*.{_SELF}.{name}"
        named = ("encoder.rel_embeddings.weight", f"{at}.weight", f"{at}.bias", *norm)
        table[f"{score}.position_{part}"] = Derived(named, _positions) if kind in _kinds(theirs) else "0"
    segments = {} if theirs.number("type_vocab_size", 0) else {"segment_embedding": "0"}
    return {**EMBEDDINGS, **segments, **block("encoder.blocks", "encoder.layer", _BLOCK), **table}


def settings(theirs: ForeignSettings, names: Collection[str]) -> dict[str, object]:
    theirs.require("relative_attention", True)
    theirs.require("conv_kernel_size", 0)
    sizes = encoder_sizes(theirs, 1e-7)
    theirs.require("embedding_size", sizes["model_dim"])
    reach = theirs.number("max_relative_positions", -1)
    reach = theirs.number("max_position_embeddings", 512) if reach < 1 else reach
    buckets = theirs.number("position_buckets", -1)
    width = theirs.number("hidden_size") // theirs.number("num_attention_heads")
    return {
        **sizes,
        "positions": "learned" if theirs.values.get("position_biased_input", True) else "none",
        "score": "disentangled",
        "relative_span": buckets if buckets > 0 else reach,
        "relative_range": reach if buckets > 0 else None,
        "inverse_temperature": 1 / math.sqrt(width * (1 + len(_kinds(theirs)))),
    }


def _kinds(theirs: ForeignSettings) -> list[str]:
    value = theirs.values.get("pos_att_type") or []
    kinds = value.split("|") if isinstance(value, str) else value
    if not isinstance(kinds, list) or not set(kinds) <= {"c2p", "p2c"}:
        raise DataError("{path}: pos_att_type must be of c2p and p2c, not {value}", theirs.path, repr(value))
    return kinds


DEBERTA = Family(
    ("deberta-v2",), "encoder", keys, settings, ("deberta.",),
    ("cls.", "lm_predictions.", "mask_predictions.", "classifier.", "pooler."), CONSTANTS,
    classifier=Head({"transform.dense": "pooler.dense", "output": "classifier"}, "pooler_hidden_act"),
    masked=PREDICTED,
)  # fmt: skip
