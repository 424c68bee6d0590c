"""Small translators of other toolkits, written by these toolkits themselves, with words of the phrasebook."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from dikkat.lessons.phrasebook import phrasebook

PIECES = 300
ENDS = 6.0
"""Bias of the end mark, with which most outputs of random weights end within some ten tokens."""


def phrases(count: int = 600) -> tuple[list[str], list[str]]:
    """English sentences and their French translations."""
    pairs = phrasebook("en-fr", count)
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def sentencepiece_model(texts: Sequence[str], size: int = PIECES, **options: Any) -> bytes:
    """A SentencePiece model of these texts with the marks of Marian."""
    sentencepiece = pytest.importorskip("sentencepiece", reason="needs sentencepiece, which the extra [test] brings")
    written = io.BytesIO()
    marks = {"eos_id": 0, "unk_id": 1, "bos_id": -1, "pad_id": -1}
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=written, vocab_size=size, minloglevel=2, **marks, **options
    )
    return written.getvalue()


def pieces_of(model: Path) -> list[str]:
    """The pieces of a model by their ids."""
    sentencepiece = pytest.importorskip("sentencepiece")
    processor = sentencepiece.SentencePieceProcessor(model_file=str(model))
    return [str(processor.id_to_piece(number)) for number in range(len(processor))]


def marian_folder(folder: Path, *, separate: bool = False, spread: float = 0.8, seed: int = 2, **changes: Any) -> Path:
    """A MarianMT of Hugging Face with random weights of that standard deviation, which decides how much it varies.

    `seed` is that of its embeddings.
    """
    transformers = pytest.importorskip("transformers")
    folder.mkdir(parents=True)
    sources, targets = phrases()
    for side, texts in (("source", sources), ("target", targets)):
        (folder / f"{side}.spm").write_bytes(sentencepiece_model(texts))
    own = {side: pieces_of(folder / f"{side}.spm")[2:] for side in ("source", "target")}
    names = {"vocab": own["source"], "target_vocab": own["target"]}
    if not separate:
        names = {"vocab": [*own["source"], *own["target"], ">>fra<<"]}
    length = max(len(dict.fromkeys(pieces)) for pieces in names.values())
    for name, pieces in names.items():
        entries = ["</s>", "<unk>", *dict.fromkeys(pieces)]
        # one number means padding in both vocabularies
        entries += [f"<unused{number}>" for number in range(length + 2 - len(entries))] + ["<pad>"]
        (folder / f"{name}.json").write_text(json.dumps({entry: number for number, entry in enumerate(entries)}))
    padding = length + 2
    settings = {
        "vocab_size": padding + 1, "decoder_vocab_size": padding + 1, "d_model": 32, "encoder_layers": 2,
        "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48, "pad_token_id": padding, "decoder_start_token_id": padding,
        "activation_function": "swish", "scale_embedding": True, "max_position_embeddings": 128,
        "share_encoder_decoder_embeddings": not separate, "forced_eos_token_id": None, "init_std": 0.3,
    }  # fmt: skip
    # a fixture of a module begins before the seed of a test
    torch.manual_seed(seed)
    model = transformers.MarianMTModel(transformers.MarianConfig(**{**settings, **changes}))
    tokenizer = transformers.MarianTokenizer(
        str(folder / "source.spm"), str(folder / "target.spm"), str(folder / "vocab.json"),
        target_vocab_file=str(folder / "target_vocab.json") if separate else None, separate_vocabs=separate,
        source_lang="en", target_lang="fr",
    )  # fmt: skip
    _shake(model, spread)
    with torch.no_grad():
        for part in (model.model.encoder, model.model.decoder):
            part.embed_tokens.weight[padding] = 0
        # what a real one learns from text without unknown pieces
        model.final_logits_bias[0, 1] = -30
    model.generation_config.bad_words_ids = [[padding]]
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _shake(model: Any, spread: float) -> None:
    """Random weights with which each output depends on all that was read and written, and ends soon."""
    torch.manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "layer_norm" in name:
                parameter.add_(torch.randn_like(parameter) * 0.1)
            elif "embed" not in name and "shared" not in name:
                parameter.copy_(torch.randn_like(parameter) * (spread if parameter.dim() > 1 else 0.1))
        # as it is, the token written last would be the most probable one, since the output matrix is the embedding
        model.model.decoder.layers[-1].final_layer_norm.weight.neg_()
        model.final_logits_bias.copy_(torch.randn_like(model.final_logits_bias) * 0.2)
        model.final_logits_bias[0, 0] += ENDS
    model.eval()
