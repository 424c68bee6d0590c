"""Build a model from its configuration: one short method a part, to be read as a table of contents."""

from collections import OrderedDict
from dataclasses import fields, replace
from typing import TypeVar

import torch
from torch import nn

from dikkat.config import ClassifierConfig, EncoderConfig, ModelConfig
from dikkat.models.classifier import EncoderClassifier, SentenceEncoder, transform
from dikkat.models.encoder_decoder import Decoder, Encoder, EncoderDecoder
from dikkat.models.language_model import LanguageModel, Objective
from dikkat.nn.blocks import (
    BlockSettings,
    CrossAttendingBlock,
    DecoderBlock,
    EncoderBlock,
    PositionedDecoderBlock,
    PositionedEncoderBlock,
    RecurrentDecoderBlock,
)
from dikkat.nn.layers import Linear, TokenEmbedding, named_norm
from dikkat.nn.named_positions import Positions, embedding_positions
from dikkat.nn.pooling import named_pooling
from dikkat_runtime.errors import UsageError
from dikkat_runtime.special_tokens import BOS_ID

Block = TypeVar("Block", bound=nn.Module)


class Factory:
    """Build the parts of the model that a `ModelConfig` describes."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config

    def encoder_decoder(self) -> EncoderDecoder:
        """Build the encoder-decoder."""
        joint = self.config.tie_embeddings and self.config.target_vocab_size is None
        start = BOS_ID if self.config.start_from_zero else None
        source = self.embedding(zero_row=start if joint else None)
        target = source if joint else self.embedding(self._target_vocab_size(), zero_row=start)
        return EncoderDecoder(
            source,
            target,
            self.positions(),
            self.embedding_norm(),
            self.encoder(),
            self.decoder(),
            self.output(target),
            self.config.dropout,
            self.output_bias(),
            self.config.add_source_eos,
            self.config.target_prefix,
            None if self.config.shared_positions else self.positions(),
            None if self.config.shared_positions else self.embedding_norm(),
        )

    def sentence_encoder(self, head_config: EncoderConfig) -> SentenceEncoder:
        """Build the sentence encoder; `head_config` describes what is around its blocks."""
        dim, dense = self.config.model_dim, list[nn.Module]()
        inputs = dim
        for width, activation in head_config.dense:
            dense.append(transform(inputs, width, activation))
            inputs = width
        return SentenceEncoder(
            self.embedding(),
            head_config.segments,
            self.positions(),
            self.embedding_norm(),
            self.encoder(),
            transform(dim, dim, "tanh") if head_config.pooler else nn.Identity(),
            self.config.dropout,
            nn.Sequential(*dense),
        )

    def language_model(self, objective: Objective) -> LanguageModel:
        """Build the language model."""
        embedding = self.embedding()
        blocks = [
            _initialized(self.encoder_block(layer, causal=objective == "causal"))
            for layer in range(self.config.decoder_layers)
        ]
        return LanguageModel(
            embedding,
            self.embedding_norm(),
            self.positions(),
            Encoder(blocks, self.final_norm()),
            self.output(embedding),
            self.config.dropout,
            objective,
            self.output_bias(),
            self.output_transform(),
            self.config.logit_softcap,
        )

    def classifier(
        self, head_config: ClassifierConfig, num_classes: int, *, per_token: bool = False
    ) -> EncoderClassifier:
        """Build the classifier, of texts or `per_token`; `head_config` describes its pooling and output."""
        is_binary = head_config.objective == "binary"
        output = nn.Linear(self.config.model_dim, 1 if is_binary else num_classes)
        # at zero no class is likelier than another before anything is learned
        nn.init.zeros_(output.weight)
        nn.init.zeros_(output.bias)
        return EncoderClassifier(
            self.embedding(),
            self.positions(),
            self.embedding_norm(),
            self.encoder(),
            named_pooling(head_config.pooling, self.config.model_dim),
            output,
            self.config.dropout,
            head_config.word_dropout,
            self.pooled_transform(head_config),
            is_binary=is_binary,
            per_token=per_token,
            seen_tokens=head_config.seen_tokens,
        )

    def pooled_transform(self, head_config: ClassifierConfig) -> nn.Module:
        """Build the layer between pooling and output of a classifier, or `Identity`."""
        if head_config.transform is None:
            return nn.Identity()
        dim = self.config.model_dim
        return transform(dim, dim, head_config.transform, self.norm() if head_config.transform_norm else None)

    def embedding(self, vocab_size: int | None = None, zero_row: int | None = None) -> TokenEmbedding:
        """Build a token embedding, of which a row may stay zero."""
        vocab_size = self.config.vocab_size if vocab_size is None else vocab_size
        width = self.config.embedding_dim or self.config.model_dim
        return TokenEmbedding(vocab_size, width, scaled=self.config.scale_embeddings, zero_row=zero_row)

    def positions(self) -> Positions:
        """Build the position encoding of the embeddings."""
        width = self.config.embedding_dim or self.config.model_dim
        return embedding_positions(self.config.positions, width, self.config.max_positions)

    def embedding_norm(self) -> nn.Module:
        """Build the norm of the embeddings, or `Identity`, and the layer that widens them to the model, if any."""
        config, width = self.config, self.config.embedding_dim
        if width is None:
            return self.norm() if config.embedding_norm else nn.Identity()
        norm = named_norm(config.norm, width, config.norm_eps) if config.embedding_norm else nn.Identity()
        return nn.Sequential(OrderedDict(norm=norm, projection=Linear(width, config.model_dim)))

    def encoder(self) -> Encoder:
        blocks = [_initialized(self.encoder_block(layer)) for layer in range(self.config.encoder_layers)]
        return Encoder(blocks, self.final_norm())

    def decoder(self) -> Decoder:
        blocks = [_initialized(self.decoder_block(layer)) for layer in range(self.config.decoder_layers)]
        return Decoder(blocks, self.final_norm())

    def encoder_block(self, layer: int, *, causal: bool = False) -> EncoderBlock:
        if self._adds_positions(layer):
            return PositionedEncoderBlock(self.positions(), *self._sizes(), self.block_settings(layer), causal=causal)
        block = EncoderBlock(*self._sizes(), self.block_settings(layer), causal=causal)
        if layer == 0 and not self.config.first_norm:
            block.self_residual.norm = nn.Identity()  # type: ignore[assignment]
        return block

    def decoder_block(self, layer: int) -> CrossAttendingBlock:
        if self.config.decoder_memory == "ssru":
            return RecurrentDecoderBlock(*self._sizes(), self.block_settings(layer))
        if self._adds_positions(layer):
            return PositionedDecoderBlock(self.positions(), *self._sizes(), self.block_settings(layer))
        return DecoderBlock(*self._sizes(), self.block_settings(layer))

    def block_settings(self, layer: int = 0) -> BlockSettings:
        # a choice has one name, from the configuration to the part
        config = self.config
        settings = BlockSettings(**{field.name: getattr(config, field.name) for field in fields(BlockSettings)})
        if config.layer_kinds is None:
            return settings
        if (kind := config.layer_kinds[layer % len(config.layer_kinds)]) == "window":
            own = config.window_rotary_frequencies
            return settings if own is None else replace(settings, rotary_frequencies=own)
        return replace(settings, attention_window=None, positions="none" if kind == "unrotated" else settings.positions)

    def final_norm(self) -> nn.Module:
        """Build the norm after the last block: a norm for pre-norm blocks, `Identity` for post-norm ones."""
        return nn.Identity() if self.config.norm_placement == "post" else self.norm()

    def norm(self) -> nn.Module:
        return named_norm(self.config.norm, self.config.model_dim, self.config.norm_eps)

    def output_transform(self) -> nn.Module:
        """Build the layer, non-linearity and norm before the output matrix, or `Identity`."""
        config, width = self.config, self.config.embedding_dim or self.config.model_dim
        if config.output_transform is None:
            return nn.Identity()
        norm = named_norm(config.norm, width, config.norm_eps)
        return transform(config.model_dim, width, config.output_transform, norm)

    def output(self, target: TokenEmbedding) -> nn.Parameter:
        """Return the output matrix (V, D), which may be that of the embedding."""
        if self.config.tie_embeddings:
            return target.weight
        weight = torch.empty(self._target_vocab_size(), target.weight.shape[1])
        return nn.Parameter(nn.init.xavier_uniform_(weight))

    def output_bias(self) -> nn.Parameter | None:
        """Return the bias (V,) of the logits, or None."""
        return nn.Parameter(torch.zeros(self._target_vocab_size())) if self.config.output_bias else None

    def _target_vocab_size(self) -> int:
        return self.config.target_vocab_size or self.config.vocab_size

    def _adds_positions(self, layer: int) -> bool:
        # the first layer reads embeddings, which have theirs
        return self.config.positions_in_every_layer and layer > 0

    def _sizes(self) -> tuple[int, int, int]:
        return self.config.model_dim, self.config.num_heads, self.config.feed_forward_dim


def check_layers(config: ModelConfig, most: int) -> None:
    """Refuse a model of more layers than `most` parameters can be of. Raises `UsageError` naming the setting."""
    for name in ("encoder_layers", "decoder_layers"):
        layers = getattr(config, name)
        # a model has one of the two stacks or both; the other setting is then as good as not there
        if layers > max(most, ModelConfig.model_fields[name].default):
            raise UsageError(
                "model.{name} is {layers:,}, but there are only {parameters:,} parameters", name, layers, most
            )


def most_parameters(config: ModelConfig) -> int:
    """Return an upper bound of the number of parameters of any model of `config`, without building it."""
    dim, heads, hidden = config.model_dim, config.num_heads, config.feed_forward_dim
    head_dim = config.head_dim or dim // heads
    inner = heads * head_dim
    # attention twice, with its scores and positions; the feed-forward network with its gate; norms and biases
    relative = max(1024, 4 * (config.relative_span or 0))
    block = 8 * dim * inner + 4 * inner * head_dim + 3 * dim * hidden + 24 * (dim + hidden + inner) + relative * inner
    tables = config.encoder_layers + config.decoder_layers if config.positions_in_every_layer else 1
    tables *= 1 if config.shared_positions else 2
    positions = config.max_positions * dim * tables if config.positions == "learned" else 0
    positions += 4 * dim * (dim + (config.embedding_dim or dim))
    vocabulary = config.vocab_size * (3 * dim + 1) + (config.target_vocab_size or 0) * (2 * dim + 1)
    return (config.encoder_layers + config.decoder_layers) * block + vocabulary + positions


def build_model(config: ModelConfig, seed: int) -> EncoderDecoder:
    """Build the encoder-decoder of `config` with initial weights drawn from `seed`."""
    torch.manual_seed(seed)
    return Factory(config).encoder_decoder()


def build_language_model(config: ModelConfig, objective: Objective, seed: int) -> LanguageModel:
    """Build the language model of `config` with initial weights drawn from `seed`."""
    torch.manual_seed(seed)
    return Factory(config).language_model(objective)


def build_classifier(
    config: ModelConfig, head_config: ClassifierConfig, num_classes: int, seed: int
) -> EncoderClassifier:
    """Build the classifier of `config` and `head_config` with initial weights drawn from `seed`."""
    torch.manual_seed(seed)
    return Factory(config).classifier(head_config, num_classes)


def _initialized(block: Block) -> Block:
    """Glorot-uniform matrices and zero biases (Glorot and Bengio 2010); scores and positions keep their own start."""
    for part in block.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
    return block
