"""Every default of the toolkit, each field with its own description.

A run is described by one `RunConfig`: it is what `config.json` of a run directory holds, what `--config F.toml`
overrides, and what the presets name. An unknown key is an error that names the nearest known one.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from dikkat.presets import PRESETS
from dikkat_runtime.errors import UsageError, nearest

LARGEST = 2**31 - 1
"""No size or count of a run is larger: what computes with it would leave its range."""
ABSOLUTE_POSITIONS = ("sinusoidal", "sinusoidal_halves", "sinusoidal_concatenated", "learned")
"""Positions that are added to vectors; the others act in self-attention."""


class Section(BaseModel):
    """Hold a frozen group of settings that refuses unknown keys and numbers that nothing can compute with."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)

    @field_validator("*")
    @classmethod
    def _is_computable(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, int) and info.field_name != "seed" and value > LARGEST:
            raise ValueError(f"input should be at most {LARGEST}")
        return value


class ModelConfig(Section):
    """Hold the shape of the encoder-decoder (Vaswani et al. 2017, section 3)."""

    vocab_size: int = Field(8000, gt=3)
    """V, entries of the vocabulary, or of the source's where they are separate; set from the trained tokenizer."""
    target_vocab_size: int | None = Field(None, gt=3)
    """Entries of the target's vocabulary where there are two; set from its tokenizer. Left out, there is one."""
    model_dim: int = Field(256, gt=0)
    """D, width of the residual stream."""
    num_heads: int = Field(4, gt=0)
    """H, attention heads."""
    head_dim: int | None = Field(None, gt=0)
    """K, width of a head; left out, model_dim / num_heads."""
    num_kv_heads: int | None = Field(None, gt=0)
    """Heads of keys and values, each shared by a group of query heads; left out, num_heads."""
    feed_forward_dim: int = Field(1024, gt=0)
    """F, hidden width of the position-wise feed-forward network."""
    encoder_layers: int = Field(3, gt=0)
    """Number of encoder blocks."""
    decoder_layers: int = Field(3, gt=0)
    """Number of decoder blocks."""
    dropout: float = Field(0.1, ge=0.0, lt=1.0)
    """Probability of dropping an entry of a sub-layer's output and of the embeddings."""
    attention_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """Probability of dropping an attention weight."""
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "geglu", "swiglu"] = "relu"
    """Non-linearity of the feed-forward network; gelu_tanh is an approximation, geglu and swiglu are gated, with half
    as many weights again."""
    norm: Literal["layer", "rms"] = "layer"
    """Layer norm, or root-mean-square norm, which has no mean and no bias."""
    norm_placement: Literal["pre", "post"] = "pre"
    """Where the norm stands: on a sub-layer's input (pre) or after the residual sum (post, the paper)."""
    norm_eps: float = Field(1e-5, gt=0.0)
    """Epsilon of the norm."""
    positions: Literal[
        "sinusoidal",
        "sinusoidal_halves",
        "sinusoidal_concatenated",
        "learned",
        "rotary",
        "alibi",
        "relative",
        "relative_buckets",
    ] = "sinusoidal"
    """How positions enter: added to the embeddings (the first four), or in every self-attention (the others)."""
    max_positions: int = Field(1024, gt=0)
    """Rows of the table of learned positions; no sentence may be longer."""
    score: Literal["scaled_dot", "dot", "additive", "bilinear"] = "scaled_dot"
    """How a query is compared with a key."""
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
    positions_in_every_layer: bool = False
    """Whether positions are added to the input of every layer (Dehghani et al. 2019); learned, of a table each."""

    @model_validator(mode="after")
    def _heads_fit(self) -> ModelConfig:
        if self.head_dim is None and self.model_dim % self.num_heads:
            raise ValueError(
                f"num_heads must divide model_dim, but {self.num_heads} does not divide {self.model_dim}; "
                "set head_dim to free the two"
            )
        if self.num_kv_heads is not None and self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"num_kv_heads must divide num_heads, but {self.num_kv_heads} does not divide {self.num_heads}"
            )
        if self.decoder_memory == "ssru" and self.positions_in_every_layer:
            raise ValueError("positions_in_every_layer needs decoder_memory = attention")
        head_dim = self.head_dim or self.model_dim // self.num_heads
        if self.positions == "rotary" and head_dim % 2:
            raise ValueError(f"rotary positions need an even head_dim, but head_dim is {head_dim}")
        if self.positions_in_every_layer and self.positions not in ABSOLUTE_POSITIONS:
            known = ", ".join(ABSOLUTE_POSITIONS)
            raise ValueError(f"positions_in_every_layer needs positions of {known}, but they are {self.positions}")
        if self.global_tokens and self.attention_window is None:
            raise ValueError(f"global_tokens = {self.global_tokens} needs an attention_window, but none is set")
        return self


class EncoderConfig(Section):
    """Hold what a sentence encoder has around its blocks."""

    segments: int = Field(2, gt=0)
    """Kinds of tokens, each with a learned vector (BERT's token types); a text alone is of the first."""
    pooler: bool = False
    """Whether a layer with a tanh follows on the first position, as BERT's."""
    pooling: Literal["mean", "first", "pooler"] = "mean"
    """What a sentence's vector is made from: all positions, the first one, or that one after the pooler."""
    normalize: bool = False
    """Whether a sentence's vector is divided by its length."""
    max_length: int = Field(512, gt=2)
    """Most tokens of a text that are read, special ones included."""

    @model_validator(mode="after")
    def _has_its_pooler(self) -> EncoderConfig:
        if self.pooling == "pooler" and not self.pooler:
            raise ValueError('pooling = "pooler" needs a pooler, but there is none')
        return self


class LanguageModelConfig(Section):
    """Hold the objective of a language model; its layers are `model.decoder_layers`."""

    objective: Literal["causal", "masked", "prefix"] = "causal"
    """Predict each next token, the tokens that were hidden, or the tokens after a prefix that is read both ways."""
    context: int = Field(256, gt=1)
    """Most tokens that the model sees at once, in training and in writing."""
    masked_share: float = Field(0.15, gt=0.0, lt=1.0)
    """Share of the tokens to predict where the objective is masked."""


class ClassifierConfig(Section):
    """Hold what a classifier has around its encoder, and its objective."""

    pooling: Literal["mean", "first", "attention", "max"] = "mean"
    """One vector from a text: the mean of its positions, the first, what a query attends to, or the largest numbers."""
    max_tokens: int = Field(400, gt=1)
    """Most tokens that are read of a text; of a longer one its beginning and its end."""
    beginning: float = Field(0.25, ge=0.0, le=1.0)
    """Share of those tokens that is kept for the beginning of a longer text."""
    objective: Literal["cross_entropy", "binary", "multi_label"] = "cross_entropy"
    """A logit for each class, or for two classes a single one (binary cross-entropy), or a yes or no for each label, of
    which a text has any number."""
    label_separator: str | None = Field(None, min_length=1)
    """What stands between the labels of a text, where it may have several; left out, each has one, or a list."""
    balance: bool = False
    """Whether each class counts the same in training however rare, and the best weights are those of macro F1."""
    word_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """Probability of hiding a token from attention and pooling, in training."""


class TokenizerConfig(Section):
    """Hold how text becomes ids."""

    kind: Literal["bpe", "unigram", "words", "characters", "bytes"] = "bpe"
    """Byte-level BPE (nothing is unknown), words (teaching presets; rare words are unknown), the characters of the
    training text, or the 256 bytes (nothing is unknown). unigram, SentencePiece's, is that of imported translators."""
    vocab_size: int = Field(8000, gt=300)
    """Most entries of a vocabulary, special tokens included."""
    min_frequency: int = Field(2, gt=0)
    """A pair (bpe) or a word (words) seen less often gets no entry of its own."""
    lowercase: bool = False
    """Lower-case all text first; with Turkish as its language, I becomes ı and İ becomes i."""


class DataConfig(Section):
    """Hold what is kept of the data, and how it is split."""

    source_language: str = ""
    """Language code of the source side, for display and casing; if empty, of the file's name or guessed from text."""
    target_language: str = ""
    """Language code of the target side."""
    vocabularies: Literal["joint", "separate", "shared_ids"] = "joint"
    """One vocabulary for both sides, or one for each, with embeddings apart; the output layer is the target's. In an
    imported translator the sides may cut words in two ways and share ids and embeddings all the same."""
    max_length: int = Field(256, gt=0)
    """Pairs with more tokens than this on a side are left out of training."""
    max_ratio: float = Field(4.0, gt=1.0)
    """Pairs whose sides differ in length by more than this factor are left out: characters, of Han each as three."""
    validation_pairs: int = Field(1000, gt=0)
    """Most pairs held out for validation when no validation file is given."""
    test_pairs: int = Field(1000, ge=0)
    """Most pairs held out for the final test when data comes without files of its own for it."""


class DecodingConfig(Section):
    """Hold how a translator is used where nobody asks for something else."""

    length_penalty: float = Field(1.6, ge=0.0, le=5.0)
    """Alpha of the score `log p / length ** alpha` of a translation in beam search; many toolkits take 1."""
    thorough: bool = False
    """Whether beam search goes on while a live hypothesis, ending now, would be among the best that ended, as that of
    Hugging Face does; else only while it would be the best."""


class TrainingConfig(Section):
    """Hold how the model is trained."""

    seed: int = Field(1, ge=0, lt=2**63)
    """Seed of initial weights, data order and dropout."""
    tokens_per_batch: int = Field(4096, gt=0)
    """Tokens of the longer side, padding included, in one micro-batch."""
    accumulate: int = Field(1, gt=0)
    """Micro-batches summed into one update."""
    max_epochs: float = Field(30.0, gt=0.0)
    """Passes over the data when no time limit is given."""
    max_updates: int | None = Field(None, gt=0)
    """Updates when no time limit is given; left out, as many as max_epochs takes."""
    minutes: float | None = Field(None, gt=0.0)
    """Plan the whole run, data preparation and last validation included, to end after this long."""
    optimizer: Literal["adamw", "muon"] = "muon"
    """AdamW (Loshchilov and Hutter 2019), or Muon (Jordan 2024) on the matrices and AdamW on the rest."""
    learning_rate: float = Field(3e-3, gt=0.0)
    """Peak learning rate of AdamW; with Muon, that of embeddings and vectors."""
    matrix_learning_rate: float = Field(5e-3, gt=0.0)
    """Peak learning rate of Muon for the matrices."""
    warmup_steps: int = Field(100, ge=0)
    """Updates over which the learning rate rises linearly; never more than a tenth of the run."""
    final_learning_rate: float = Field(0.0, ge=0.0, le=1.0)
    """Share of the peak that the linear decay ends at."""
    weight_decay: float = Field(0.0, ge=0.0)
    """Decoupled weight decay."""
    beta1: float = Field(0.9, ge=0.0, lt=1.0)
    """Decay of the first moment."""
    beta2: float = Field(0.98, ge=0.0, lt=1.0)
    """Decay of the second moment."""
    clip_norm: float = Field(1.0, gt=0.0)
    """Gradients are scaled down to this global norm."""
    bidirectional_share: float = Field(0.0, ge=0.0, le=1.0)
    """Share of the run, from its beginning, in which a translator learns every other batch backwards, from target to
    source (bidirectional training, Ding et al. 2021)."""
    label_smoothing: float = Field(0.1, ge=0.0, lt=1.0)
    """Share of the target distribution spread over the whole vocabulary (Szegedy et al. 2016)."""
    average: Literal["ema", "none"] = "ema"
    """Weights to validate and keep: an exponential moving average, or the last ones."""
    ema_decay: float = Field(0.995, ge=0.0, lt=1.0)
    """Decay of the moving average per update, once it is warm."""
    validations: int = Field(10, gt=0)
    """Validations in a planned run; early stopping looks at each. Fewer where a time limit leaves no time for them."""
    patience: int = Field(4, gt=0)
    """Validations without a better chrF after which training stops."""
    precision: Literal["auto", "int8", "bfloat16", "float32"] = "auto"
    """Type of the matrix products; auto takes the fastest that the processor has. With int8, linear layers multiply
    in eight bits and all else is in bfloat16, or in float32 where that is faster."""
    save_minutes: float = Field(5.0, gt=0.0)
    """Time after which a checkpoint is saved between two validations, too."""
    keep_checkpoints: int = Field(2, gt=0)
    """Checkpoints kept for resuming; older ones are removed."""


class RunConfig(Section):
    """Hold everything that decides a run."""

    model: ModelConfig = ModelConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    data: DataConfig = DataConfig()
    training: TrainingConfig = TrainingConfig()
    language_model: LanguageModelConfig = LanguageModelConfig()
    classifier: ClassifierConfig = ClassifierConfig()
    decoding: DecodingConfig = DecodingConfig()


def preset(name: str) -> dict[str, dict[str, Any]]:
    """Return the overrides of a preset. Raises `UsageError` naming the nearest preset."""
    if name not in PRESETS:
        known = ", ".join(PRESETS)
        raise UsageError(f'no preset is called "{name}"{nearest(name, PRESETS)} known: {known}')
    return PRESETS[name]


def merge(*layers: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Merge settings section by section; the later one wins."""
    merged: dict[str, dict[str, Any]] = {}
    for layer in layers:
        for section, values in layer.items():
            merged[section] = {**merged.get(section, {}), **values} if isinstance(values, dict) else values
    return merged


def build_config(settings: dict[str, Any], where: str = "configuration") -> RunConfig:
    """Check `settings` and fill in the defaults. Raises `UsageError` with `where`, the key and the nearest name."""
    try:
        return RunConfig.model_validate(settings)
    except ValidationError as error:
        raise UsageError(f"{where}: {first_complaint(error)}") from None


def first_complaint(error: ValidationError) -> str:
    """Return what is wrong with settings, in one line: the key, what it must be and what it was."""
    detail = error.errors()[0]
    path = [str(part) for part in detail["loc"]]
    key = ".".join(path)
    if detail["type"] == "extra_forbidden":
        known = _known_keys(path[:-1])
        return f'unknown key "{key}"{nearest(path[-1], known) or "; known: " + ", ".join(known)}'
    actual = "" if isinstance(detail.get("input"), dict | Section) else f", not {_shown(detail.get('input'))}"
    message = detail["msg"].removeprefix("Value error, ")
    return f"{key}: {message[0].lower() + message[1:]}{actual}" if key else message


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of more than 4,300 digits
        return "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:60]}…"


def _known_keys(path: list[str]) -> list[str]:
    section: type[BaseModel] = RunConfig
    for part in path:
        annotation = section.model_fields[part].annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            section = annotation
    return list(section.model_fields)
