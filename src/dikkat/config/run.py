"""The settings of a run: every default, each field with its own description."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from dikkat.config.model import ModelConfig, Section
from dikkat_runtime.errors import msg


class EncoderConfig(Section):
    """Hold what a sentence encoder has around its blocks."""

    segments: int = Field(2, gt=0)
    """Kinds of tokens, each with a learned vector (BERT's token types); a text alone is of the first."""
    pooler: bool = False
    """Whether a layer with a tanh follows on the first position, as BERT's."""
    pooling: Literal["mean", "first", "pooler", "max", "mean_sqrt_length", "weighted_mean", "last"] = "mean"
    """What a sentence's vector is made from: all positions, the first one, that one after the pooler, the largest
    numbers, a sum over the square root of the length, a mean in which position n counts n times, or the last one."""
    dense: tuple[tuple[int, Literal["identity", "gelu", "relu", "silu", "tanh"]], ...] = ()
    """Outputs and non-linearity of each layer that follows on it."""
    normalize: bool = False
    """Whether a sentence's vector is divided by its length."""
    max_length: int = Field(512, gt=2)
    """Most tokens of a text that are read, special ones included."""
    prompts: dict[str, str] = Field(default_factory=dict)
    """What may be put before a text, by the names that `dikkat embed --prompt` takes."""
    default_prompt: str = ""
    """The name of the one that is put before a text where nobody asks for another; empty for none."""

    @model_validator(mode="after")
    def _has_its_pooler(self) -> EncoderConfig:
        if self.pooling == "pooler" and not self.pooler:
            raise ValueError(msg('pooling = "pooler" needs a pooler, but there is none'))
        return self


class LanguageModelConfig(Section):
    """Hold the objective of a language model; its layers are `model.decoder_layers`."""

    objective: Literal["causal", "masked", "prefix"] = "causal"
    """Predict each next token, the tokens that were hidden, or the tokens after a prefix that is read both ways."""
    context: int = Field(256, gt=1)
    """Most tokens that the model sees at once, in training and in writing."""
    masked_share: float = Field(0.15, gt=0.0, lt=1.0)
    """Share of the tokens to predict where the objective is masked."""
    chat: dict[str, str] = Field(default_factory=dict)
    """Texts between messages of an imported chat template, by the roles before and after, none being an end."""


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
    precision_at: float | None = Field(None, gt=0.0, le=1.0)
    """Precision that each label should have where a text may have several; left out, each cut has the best F1."""
    label_separator: str | None = Field(None, min_length=1)
    """What stands between the labels of a text, where it may have several; left out, each has one, or a list."""
    transform: Literal["gelu", "gelu_tanh", "relu", "silu", "tanh"] | None = None
    """Non-linearity of a layer between pooling and output, as imported classifiers have; left out, there is none."""
    transform_norm: bool = False
    """Whether a norm follows on that layer."""
    balance: bool = False
    """Whether each class counts the same in training however rare, and the best weights are those of macro F1."""
    word_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """Probability of hiding a token from attention and pooling, in training."""
    seen_tokens: int | None = Field(None, gt=1)
    """Tokens that an update reads of a text, about: of a longer one runs of 16, drawn anew each time; left out, all."""
    still_layers: int = Field(0, ge=0)
    """Layers, from the first, that stay as they begin with --from, and the embeddings with them; 0 trains all."""
    table_rise: float = Field(0.0, ge=0.0, le=1.0)
    """Share of the run in which the word table comes into the loss, bit by bit; without it the encoder learns all."""
    word_table: bool = False
    """Whether a table of n-grams of words and characters over the whole text scores first, and the encoder learns what
    it leaves: fitted to the training texts as a linear model, before the encoder is trained."""
    baseline: bool = False
    """Whether TF-IDF with logistic regression is fitted to the same texts and reported next to the score of the run."""


class TokenizerConfig(Section):
    """Hold how text becomes ids."""

    kind: Literal["bpe", "unigram", "words", "characters", "bytes"] = "bpe"
    """Byte-level BPE, SentencePiece's unigram with bytes for the rest, words (teaching presets; rare words are
    unknown), the characters of the training text, or the 256 bytes. Nothing is unknown to bpe, unigram and bytes."""
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
    formality: bool = False
    """Whether pairs whose target says tu or vous (fr), du or Sie (de), sen or siz (tr) are trained on once more, with a
    mark in front of their source by which `--formality` then chooses."""
    max_length: int = Field(256, gt=0)
    """Pairs with more tokens than this on a side are left out of training."""
    max_ratio: float = Field(4.0, gt=1.0)
    """Pairs whose sides differ in length by more than this factor are left out: characters, of Han each as three."""
    validation_pairs: int = Field(1000, gt=0)
    """Most pairs held out for validation when no validation file is given."""
    test_pairs: int = Field(1000, ge=0)
    """Most pairs held out for the final test when data comes without files of its own for it."""
    typing_errors: float = Field(0.1, ge=0.0, le=1.0)
    """Share of the pairs that are trained on once more with typing errors in the source."""
    no_final_mark: float = Field(0.03, ge=0.0, le=1.0)
    """Share of the pairs that are trained on once more with no full stop, or an exclamation mark, on both sides."""


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
    members: int = Field(1, gt=0, le=64)
    """Translators that are trained one after another, each from a seed of its own and in the same time; translations
    are written with the mean of their probabilities."""
    student: bool = False
    """Whether one more translator, members/student, learns from what all of them write together."""
    micro_batches: int = Field(1, gt=0)
    """Parts that each micro-batch is cut into, with dropout of their own; as many processes may share it, or fewer."""
    max_epochs: float = Field(30.0, gt=0.0)
    """Passes over the data when no time limit is given."""
    max_updates: int | None = Field(None, gt=0)
    """Updates when no time limit is given; left out, as many as max_epochs takes."""
    minutes: float | None = Field(None, gt=0.0)
    """Plan the whole run, data preparation and last validation included, to end after this long."""
    low_rank: int = Field(0, ge=0)
    """Rank of the updates of the matrices of the blocks in a run that starts from another one (LoRA, Hu et al. 2022):
    these are trained in place of all weights. 0 trains all."""
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
    guided_weight: float = Field(0.0, ge=0.0)
    """Weight of the loss of a guided head next to that of the text: in sentences whose words are linked, as pronouns
    with their nouns, minus the logarithm of what the head attends to the linked word. 0 guides no head."""
    guided_layer: int | None = Field(None, gt=0)
    """Layer of the encoder, from 1, whose self-attention has the guided head; left out, the last."""
    guided_head: int = Field(1, gt=0)
    """The guided head of that layer, from 1."""
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
