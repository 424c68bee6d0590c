"""The shape of a model: every default, each field with its own description."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

from dikkat_runtime.engine.settings import IMPORTED
from dikkat_runtime.errors import msg

# The base of every section of settings.


MAX_VALUE = 2**31 - 1
"""No size or count of a run is larger: what computes with it would leave its range."""


class Section(BaseModel):
    """Hold a frozen group of settings that refuses unknown keys and numbers that nothing can compute with."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _is_computable(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, int) and info.field_name != "seed" and value > MAX_VALUE:
            raise ValueError(msg("input should be at most {max_value}", MAX_VALUE))
        return value


# The names of position encodings, of which `dikkat.nn.named_positions` builds each.

AbsolutePosition = Literal["sinusoidal", "sinusoidal_halves", "sinusoidal_concatenated", "learned"]
PositionName = Literal[AbsolutePosition, "rotary", "alibi", "relative", "relative_buckets", "none"]

ABSOLUTE_POSITIONS: tuple[str, ...] = get_args(AbsolutePosition)
"""Positions that are added to vectors; the others act in self-attention."""


FOREIGN_SETTINGS = tuple(IMPORTED)
"""Settings that only imported models have."""
_COMMON = {"activation": ("relu", "gelu", "gelu_tanh", "silu", "geglu", "swiglu"), "norm_placement": ("pre", "post")}
"""The values of other settings that a model trained from nothing has."""


class ModelConfig(Section):
    """Hold the shape of the encoder-decoder (Vaswani et al. 2017, section 3).

    The largest sizes are far beyond what was ever trained: anything larger is a typing error or an attack.
    """

    vocab_size: int = Field(8000, gt=3, le=1 << 22)
    """V, entries of the vocabulary, or of the source's where they are separate; set from the trained tokenizer."""
    target_vocab_size: int | None = Field(None, gt=3, le=1 << 22)
    """Entries of the target's vocabulary where there are two; set from its tokenizer. Left out, there is one."""
    model_dim: int = Field(256, gt=0, le=1 << 15)
    """D, width of the residual stream."""
    num_heads: int = Field(4, gt=0, le=1 << 10)
    """H, attention heads."""
    head_dim: int | None = Field(None, gt=0, le=1 << 13)
    """K, width of a head; left out, model_dim / num_heads."""
    num_kv_heads: int | None = Field(None, gt=0, le=1 << 10)
    """Heads of keys and values, each shared by a group of query heads; left out, num_heads."""
    feed_forward_dim: int = Field(1024, gt=0, le=1 << 17)
    """F, hidden width of the position-wise feed-forward network."""
    encoder_layers: int = Field(3, gt=0, le=1 << 10)
    """Number of encoder blocks."""
    decoder_layers: int = Field(3, gt=0, le=1 << 10)
    """Number of decoder blocks."""
    dropout: float = Field(0.1, ge=0.0, lt=1.0)
    """Probability of dropping an entry of a sub-layer's output and of the embeddings."""
    attention_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """Probability of dropping an attention weight."""
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "geglu", "geglu_tanh", "swiglu"] = "relu"
    """Non-linearity of the feed-forward network; gelu_tanh is an approximation, those in -glu are gated, with half as
    many weights again."""
    norm: Literal["layer", "rms"] = "layer"
    """Layer norm, or root-mean-square norm, which has no mean and no bias."""
    norm_placement: Literal["pre", "post", "output", "both"] = "pre"
    """Where the norm stands: on a sub-layer's input (pre), after the residual sum (post, the paper), on the output of a
    sub-layer (as in OLMo 2), or on input and output (both, as in Gemma 2)."""
    norm_eps: float = Field(1e-5, gt=0.0)
    """Epsilon of the norm."""
    positions: PositionName = "sinusoidal"
    """How positions enter: added to the embeddings (the first four), or in every self-attention (the others)."""
    max_positions: int = Field(1024, gt=0, le=1 << 24)
    """Rows of the table of learned positions; no sentence may be longer."""
    score: Literal["scaled_dot", "dot", "additive", "bilinear", "disentangled"] = "scaled_dot"
    """How a query is compared with a key; disentangled is that of imported DeBERTas."""
    inverse_temperature: float | None = Field(None, ge=0.0)
    """Beta, which multiplies the scores; left out, 1/sqrt(head_dim) for scaled_dot and 1 for the others."""
    selection: Literal["soft", "argmax", "straight_through", "gumbel"] = "soft"
    """Weights on all keys, or on one: the best (no gradient reaches the scores; or that of soft), or one drawn."""
    attention_window: int | None = Field(None, ge=0)
    """How many positions away self-attention sees; left out, everywhere."""
    global_tokens: int = Field(0, ge=0)
    """First positions of a sentence that see all and are seen by all in spite of the window."""
    attention_bias: bool = True
    """Whether the query, key, value and output projections have a bias."""
    attention_output_bias: bool | None = None
    """Whether the output projection has one; left out, as attention_bias says."""
    scale_embeddings: bool = True
    """Whether embeddings are multiplied by sqrt(model_dim) (the paper), or taken as they are (BERT, GPT-2)."""
    embedding_norm: bool = False
    """Whether the sum of embedding and position passes a norm before the first block (Devlin et al. 2019)."""
    tie_embeddings: bool = True
    """One matrix for source embedding, target embedding and output projection (Press and Wolf 2017); with separate
    vocabularies, for the latter two."""
    output_bias: bool = False
    """Whether each entry of the vocabulary has a bias in the logits."""
    decoder_memory: Literal["attention", "ssru"] = "attention"
    """How a decoder knows what it has written: by self-attention, or by a recurrent unit (Kim et al. 2019), as the
    translators of Firefox."""
    start_from_zero: bool = False
    """Whether a translator's first input is a vector of zeros, as in Marian, and not one that is learned."""
    add_source_eos: bool = True
    """Whether a translator's source ends with `<eos>`, or with its last token, as in OpenNMT-py."""
    target_prefix: int | None = Field(None, gt=3)
    """The id of a token that every output of a translator begins with and that is never shown, as in packages of Argos
    for several languages; left out, there is none."""
    positions_in_every_layer: bool = False
    """Whether positions are added to the input of every layer (Dehghani et al. 2019); learned, of a table each."""

    first_norm: bool = True
    """Whether the first attention reads its input through a norm, or as the embedding norm leaves it (ModernBERT)."""
    parallel_residual: bool = False
    """Whether attention and feed-forward network of a block read one input, and both are added to it (Pythia, Phi)."""
    query_key_norm: Literal["head", "all"] | None = None
    """Root-mean-square norm of queries and keys: of each head (Qwen3) or of all heads together (OLMo 2)."""
    rotary_frequencies: tuple[Annotated[float, Field(ge=0.0)], ...] | None = None
    """Radians a position by which each pair of a head turns, head_dim / 2 of them; left out, 10000^(-2j/head_dim)."""
    window_rotary_frequencies: tuple[Annotated[float, Field(ge=0.0)], ...] | None = None
    """Those of the layers with a window, where they are others (Gemma 3, ModernBERT)."""
    layer_kinds: tuple[Literal["full", "window", "unrotated"], ...] | None = Field(None, min_length=1)
    """Attention of each layer: to all, within the window, or to all without rotary positions. Further layers begin anew
    with the first kind; left out, all have the window, if there is one."""
    attention_softcap: float | None = Field(None, gt=0.0)
    """Limit c of the scores of attention, which become c tanh(score / c) (Gemma 2)."""
    logit_softcap: float | None = Field(None, gt=0.0)
    """Limit of the logits, likewise."""
    embedding_dim: int | None = Field(None, gt=0)
    """Width of the embeddings where a layer widens them to model_dim (ALBERT, ELECTRA); left out, model_dim."""
    relative_span: int | None = Field(None, gt=1)
    """Vectors on each side of a position, by buckets of distances, with which queries and keys are compared (score =
    disentangled, DeBERTa)."""
    relative_range: int | None = Field(None, gt=1)
    """Distance that the last of those buckets reaches; left out, each distance has a vector."""
    relative_bias: bool = False
    """Whether attention has a bias of buckets of distances next to other positions (MPNet)."""
    output_transform: Literal["gelu", "gelu_tanh", "relu", "silu", "tanh"] | None = None
    """Non-linearity of a layer, followed by a norm, between the blocks and the output matrix (masked models)."""
    shared_positions: bool = True
    """Whether both sides of a translator have one table of learned positions and one norm of the embeddings."""

    @property
    def beyond_common(self) -> str:
        """The first setting that imported models alone have, which exports do not write; empty where there is none."""
        fields = type(self).model_fields
        unusual = [name for name in FOREIGN_SETTINGS if getattr(self, name) != fields[name].default]
        unusual += [name for name, usual in _COMMON.items() if getattr(self, name) not in usual]
        return f"model.{unusual[0]}" if unusual else ""

    @model_validator(mode="after")
    def _layers_fit(self) -> ModelConfig:
        width = self.head_dim or self.model_dim // self.num_heads
        for name in ("rotary_frequencies", "window_rotary_frequencies"):
            numbers = getattr(self, name)
            if numbers is not None and 2 * len(numbers) != width:
                raise ValueError(f"{name} must be {width // 2}, half of head_dim, but there are {len(numbers)}")
        if (self.score == "disentangled") != (self.relative_span is not None):
            raise ValueError("score = disentangled needs relative_span, which no other score has")
        return self

    @model_validator(mode="after")
    def _heads_fit(self) -> ModelConfig:
        if self.head_dim is None and self.model_dim % self.num_heads:
            raise ValueError(
                msg(
                    "num_heads must divide model_dim, but {num_heads} does not divide {model_dim}; set head_dim to "
                    "free the two"
                ).fill(self.num_heads, self.model_dim)
            )
        if self.num_kv_heads is not None and self.num_heads % self.num_kv_heads:
            raise ValueError(
                msg(
                    "num_kv_heads must divide num_heads, but {num_kv_heads} does not divide {num_heads}",
                    self.num_kv_heads,
                    self.num_heads,
                )
            )
        if self.target_prefix is not None and self.target_prefix >= (self.target_vocab_size or self.vocab_size):
            raise ValueError(
                msg("target_prefix must be an entry of the vocabulary, but it is {target_prefix}", self.target_prefix)
            )
        if self.decoder_memory == "ssru" and self.positions_in_every_layer:
            raise ValueError(msg("positions_in_every_layer needs decoder_memory = attention"))
        head_dim = self.head_dim or self.model_dim // self.num_heads
        if self.positions == "rotary" and head_dim % 2:
            raise ValueError(msg("rotary positions need an even head_dim, but head_dim is {head_dim}", head_dim))
        if self.positions_in_every_layer and self.positions not in ABSOLUTE_POSITIONS:
            known = ", ".join(ABSOLUTE_POSITIONS)
            raise ValueError(
                msg(
                    "positions_in_every_layer needs positions of {known}, but they are {positions}",
                    known,
                    self.positions,
                )
            )
        if self.global_tokens and self.attention_window is None:
            raise ValueError(
                msg("global_tokens = {global_tokens} needs an attention_window, but none is set", self.global_tokens)
            )
        return self
