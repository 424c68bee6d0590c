"""Small foreign checkpoints, written with the library's own tables; tests/parity has those of Hugging Face itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import safetensors.torch
import tokenizers
import torch
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor, nn

from dikkat.config import EncoderConfig, ModelConfig
from dikkat.interop.checkpoint_folder import ForeignSettings
from dikkat.interop.family import families, table
from dikkat.models.factory import Factory
from dikkat.models.key_table import to_theirs

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "dog", "cat", "sees", "runs", "a", "b", "and", "."]
BERT = {
    "model_type": "bert", "vocab_size": len(WORDS), "hidden_size": 24, "num_attention_heads": 3,
    "num_hidden_layers": 2, "intermediate_size": 40, "max_position_embeddings": 16, "type_vocab_size": 2,
    "hidden_act": "gelu", "layer_norm_eps": 1e-12, "pad_token_id": 0,
}  # fmt: skip
GPT2 = {
    "model_type": "gpt2", "vocab_size": 257, "n_embd": 24, "n_head": 3, "n_layer": 2, "n_positions": 32,
    "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "n_inner": None,
}  # fmt: skip


def bert_tokenizer() -> tokenizers.Tokenizer:
    """Whole words between [CLS] and [SEP]; cut and padded, as published files often are."""
    inner = tokenizers.Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, "[UNK]"))
    inner.add_special_tokens(WORDS[:4])
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    inner.enable_truncation(5)
    inner.enable_padding(length=12)
    return inner


def word_piece_tokenizer(texts: Sequence[str], vocab_size: int = 200) -> tokenizers.Tokenizer:
    """Pieces of words as BERT reads them, learned from `texts`."""
    inner = tokenizers.Tokenizer(models.WordPiece(unk_token=WORDS[1]))
    inner.normalizer = normalizers.BertNormalizer(lowercase=True)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(vocab_size=vocab_size, special_tokens=WORDS[:4], show_progress=False)
    inner.train_from_iterator(texts, trainer)
    inner.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return inner


def gpt2_tokenizer() -> tokenizers.Tokenizer:
    """The 256 bytes and <|endoftext|>."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = tokenizers.Tokenizer(models.BPE({character: place for place, character in enumerate(alphabet)}, []))
    inner.add_special_tokens(["<|endoftext|>"])
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return inner


def bert_folder(folder: Path, **changes: Any) -> Path:
    """A BERT with a pooler."""
    model, around = ModelConfig(**_bert_sizes()), EncoderConfig(pooler=True)
    weights = shaken(Factory(model).sentence_encoder(around))
    return _write(folder, {**BERT, **changes}, theirs_of(BERT, model, weights), bert_tokenizer())


def gpt2_folder(folder: Path, **changes: Any) -> Path:
    model = ModelConfig(**_gpt2_sizes())
    weights = shaken(Factory(model).language_model("causal"))
    return _write(folder, {**GPT2, **changes}, theirs_of(GPT2, model, weights), gpt2_tokenizer())


def theirs_of(config: dict[str, Any], model: ModelConfig, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    keys = families()[config["model_type"]].keys(model, ForeignSettings(Path("config.json"), config))
    return to_theirs(table(keys, weights, model), weights)


def shaken(model: nn.Module) -> dict[str, Tensor]:
    """Its parameters by name, with noise on each, so that none is left at a value that hides a swap."""
    return {name: value.detach() + 0.2 * torch.randn(value.shape) for name, value in model.named_parameters()}


def change_weights(folder: Path, **changes: Tensor | None) -> None:
    """Add, replace or (None) remove weights; two underscores in a name stand for a dot."""
    path = folder / "model.safetensors"
    weights = safetensors.torch.load_file(path)
    for name, value in changes.items():
        weights.pop(name.replace("__", "."), None)
        if value is not None:
            weights[name.replace("__", ".")] = value
    safetensors.torch.save_file(weights, path)


def _bert_sizes() -> dict[str, Any]:
    return {
        "vocab_size": BERT["vocab_size"], "model_dim": 24, "num_heads": 3, "encoder_layers": 2, "feed_forward_dim": 40,
        "max_positions": 16, "positions": "learned", "norm_placement": "post", "embedding_norm": True,
    }  # fmt: skip


def _gpt2_sizes() -> dict[str, Any]:
    return {
        "vocab_size": 257, "model_dim": 24, "num_heads": 3, "decoder_layers": 2, "feed_forward_dim": 96,
        "max_positions": 32, "positions": "learned",
    }  # fmt: skip


def _write(folder: Path, config: Any, weights: dict[str, Tensor], tokenizer: tokenizers.Tokenizer) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    safetensors.torch.save_file(weights, folder / "model.safetensors")
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder
