"""A run as the files that Bergamot loads: weights in the eight bits of intgemm, and a SentencePiece vocabulary.

Formulas and names are those of src/models/transformer.h in marian-dev, the file that of src/common/binary.cpp there.
The model must be as Marian computes one: post-norm, sines before cosines, an output bias, a joint vocabulary of bytes.
"""

from __future__ import annotations

import json
import struct
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dikkat.config import ModelConfig
from dikkat.interop.marian import rows
from dikkat.models.key_table import to_theirs
from dikkat.run_directory import RunDirectory
from dikkat.run_directory.tensor_files import read_metadata
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID

TAKES: dict[str, tuple[Any, ...]] = {
    "norm_placement": ("post",), "positions": ("sinusoidal_concatenated",), "norm": ("layer",),
    "activation": ("relu", "swish"), "score": ("scaled_dot",), "selection": ("soft",), "output_bias": (True,),
    "tie_embeddings": (True,), "target_vocab_size": (None,), "num_kv_heads": (None,), "scale_embeddings": (True,),
    "attention_bias": (True,), "embedding_norm": (False,), "inverse_temperature": (None,), "head_dim": (None,),
    "decoder_memory": ("attention",), "attention_window": (None,),
}  # fmt: skip
"""Settings that Marian computes too, and their values."""
_FLOAT32, _INTGEMM8, _TEXT = 0x404, 0x4101, 0x101
_NEVER = -1e4
"""Bias of the entries that dikkat never writes."""


def unlike(model: dict[str, Any]) -> str:
    """The settings that Marian does not compute; empty where there is none."""
    return ", ".join(f"{name} = {model[name]}" for name, values in TAKES.items() if model[name] not in values)


def without_begin_mark(run: RunDirectory) -> None:
    """Make the embedding of the begin mark zero, since Marian's decoder begins with a vector of zeros."""
    weights = run.load_weights()
    weights["output_weight"][BOS_ID] = 0
    run.save_weights(weights, read_metadata(run.weights))


def write_bergamot(run: RunDirectory, folder: Path) -> None:
    """Write model.bin and vocab.spm into `folder`."""
    folder.mkdir()
    model = ModelConfig(**run.read_config()["model"])
    weights = {name: tensor.numpy() for name, tensor in to_theirs(rows(model), run.load_weights()).items()}
    bias = weights["decoder_ff_logit_out_b"].reshape(1, -1)
    bias[0, [PAD_ID, BOS_ID]] = _NEVER
    (folder / "model.bin").write_bytes(_binary(_options(model), weights))
    (folder / "vocab.spm").write_bytes(sentencepiece_bpe(json.loads(run.tokenizer.read_text(encoding="utf-8"))))


def _options(model: ModelConfig) -> bytes:
    options = {
        "dec-cell": "gru", "dec-depth": model.decoder_layers, "dim-emb": model.model_dim,
        "dim-vocabs": f"\n  - {model.vocab_size}\n  - {model.vocab_size}", "enc-depth": model.encoder_layers,
        "input-types": "[]", "layer-normalization": "false", "lemma-dim-emb": 0, "output-omit-bias": "false",
        "right-left": "false", "skip": "false", "tied-embeddings": "false", "tied-embeddings-all": "true",
        "tied-embeddings-src": "false", "transformer-decoder-autoreg": "self-attention",
        "transformer-dim-ffn": model.feed_forward_dim, "transformer-ffn-activation": model.activation,
        "transformer-ffn-depth": 2, "transformer-heads": model.num_heads, "transformer-no-projection": "false",
        "transformer-postprocess": "dan", "transformer-postprocess-emb": "d", "transformer-postprocess-top": '""',
        "transformer-preprocess": '""', "transformer-tied-layers": "[]",
        "transformer-train-position-embeddings": "false",
        "type": "transformer", "ulr": "false", "version": "v1.9.56",
    }  # fmt: skip
    return "".join(f"{name}: {value}\n" for name, value in options.items()).encode() + b"\0"


def _binary(options: bytes, weights: dict[str, NDArray[np.float32]]) -> bytes:
    """The file: version, sizes of all tensors, names, shapes, a gap, and the data."""
    entries: list[tuple[bytes, int, tuple[int, ...], bytes]] = []
    for name, array in sorted(weights.items()):
        matrix = array.reshape(1, -1) if array.ndim == 1 else array
        if "_W" in name or name == "Wemb":
            multiplier = np.float32(127 / np.abs(matrix).max())
            # outputs before inputs, but for embeddings; the sizes are kept
            stored = matrix if name == "Wemb" else matrix.T
            is_matrix = not name.endswith(("_scale", "_bias"))
            if is_matrix:
                data = np.round(stored * multiplier).astype(np.int8).tobytes() + multiplier.tobytes()
                entries.append((name.encode() + b"\0", _INTGEMM8, matrix.shape, data + bytes(-len(data) % 256)))
                continue
        data = matrix.astype("<f4").tobytes()
        entries.append((name.encode() + b"\0", _FLOAT32, matrix.shape, data + bytes(-len(data) % 256)))
    text = options + bytes(-len(options) % 256)
    entries.append((b"special:model.yml\0", _TEXT, (len(options),), text))
    header = struct.pack("<QQ", 1, len(entries))
    header += b"".join(
        struct.pack("<QQQQ", len(name), kind, len(shape), len(data)) for name, kind, shape, data in entries
    )
    header += b"".join(name for name, *_ in entries)
    header += b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in entries)
    gap = -(len(header) + 8) % 256
    return header + struct.pack("<Q", gap) + bytes(gap) + b"".join(data for *_, data in entries)


def sentencepiece_bpe(settings: dict[str, Any]) -> bytes:
    """The SentencePiece model of the kind BPE that cuts words as this vocabulary of bytes does, with its ids."""
    from tokenizers.decoders import ByteLevel

    model = settings["model"]
    # made by the compiler of Protocol Buffers, without types
    message: Any = import_module("sentencepiece.sentencepiece_model_pb2").ModelProto()
    names = {PAD_ID: "<pad>", BOS_ID: "<s>", EOS_ID: "</s>", UNK_ID: "<unk>"}
    ranks = {"".join(pair): rank for rank, pair in enumerate(model["merges"])}
    decoder, taken = ByteLevel(), set(names.values())
    for entry, number in sorted(model["vocab"].items(), key=lambda item: item[1]):
        piece = message.pieces.add(score=-float(ranks.get(entry, len(ranks))))
        text = names.get(number) or decoder.decode([entry]).replace(" ", "▁")
        if number in names:
            piece.piece, piece.type = text, piece.UNKNOWN if number == UNK_ID else piece.CONTROL
        elif not text.isprintable() or "\ufffd" in text or text in taken:
            # a byte that is no character, or one of control
            piece.piece, piece.type = f"<byte {number}>", piece.UNUSED
        else:
            piece.piece, piece.type = text, piece.NORMAL
        taken.add(piece.piece)
    trainer = message.trainer_spec
    trainer.model_type, trainer.vocab_size = trainer.BPE, len(message.pieces)
    trainer.pad_id, trainer.bos_id, trainer.eos_id, trainer.unk_id = PAD_ID, BOS_ID, EOS_ID, UNK_ID
    message.normalizer_spec.name = "identity"
    message.normalizer_spec.add_dummy_prefix = message.normalizer_spec.escape_whitespaces = True
    return bytes(message.SerializeToString())
