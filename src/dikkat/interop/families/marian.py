"""MarianMT, such as OPUS-MT: the blocks of BART, computed positions, and a vocabulary for both sides or for each."""

from collections.abc import Collection

from dikkat.config import ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.families import bart
from dikkat.interop.family import Family, Keys

_REQUIRED = {
    "normalize_before": False, "add_final_layer_norm": False, "normalize_embedding": False,
    "static_position_embeddings": True, "is_decoder": False, "add_bias_logits": False, "extra_pos_embeddings": 0,
}  # fmt: skip
"""Settings of old files that say what all models of this family do, or that never came into use."""


def keys(model: ModelConfig, theirs: ForeignSettings) -> Keys:
    """Return the table of names, of which all but the bias are within the model."""
    table = {name: str(source) for name, source in bart.keys(model, theirs).items() if "positions" not in name}
    if model.target_vocab_size is not None:
        table |= {
            "source_embedding.weight": "encoder.embed_tokens.weight",
            "output_weight": "decoder.embed_tokens.weight",
        }
    bias = table.pop("output_bias")
    named = {name: "&".join(f"model.{part}" for part in source.split("&")) for name, source in table.items()}
    return {**named, "output_bias": bias}


def settings(theirs: ForeignSettings, names: Collection[str]) -> dict[str, object]:
    for name, only in _REQUIRED.items():
        theirs.require(name, only)
    separate = theirs.values.get("share_encoder_decoder_embeddings", True) is False
    return {
        **bart.settings(theirs, names),
        "target_vocab_size": theirs.number("decoder_vocab_size", theirs.number("vocab_size")) if separate else None,
        "norm_placement": "post", "positions": "sinusoidal_halves", "embedding_norm": False, "shared_positions": True,
    }  # fmt: skip


MARIAN = Family(
    ("marian",), "translator", keys, settings, constants=("embed_positions.weight",), layers="encoder_layers"
)
