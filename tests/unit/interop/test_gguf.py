"""GGUF files: each kind of blocks as the package `gguf` reads it, Llama's reordered rows, tokenizers, bad files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dikkat.interop.gguf import GgufFile, gguf_tokenizer
from dikkat.interop.importing import Imported, read_foreign
from dikkat.models.factory import Factory
from dikkat_runtime.errors import DataError

gguf = pytest.importorskip("gguf", reason="needs the package gguf, which the extra [test] brings")
pytestmark = pytest.mark.peer

KINDS = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K")
ALPHABET = [*(chr(code) for code in range(33, 127)), "Ġ", "Ċ"]


def write(path: Path, architecture: str, tensors: dict[str, Any], **values: Any) -> Path:
    """A file of the package's own writer; tensors are arrays, or pairs of raw blocks and their kind."""
    writer = gguf.GGUFWriter(path, architecture)
    for name, value in values.items():
        name = name.replace("__", ".")
        if isinstance(value, list):
            writer.add_array(name, value)
        elif isinstance(value, str):
            writer.add_string(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        else:
            writer.add_uint32(name, value)
    for name, tensor in tensors.items():
        raw, kind = tensor if isinstance(tensor, tuple) else (tensor, None)
        writer.add_tensor(name, raw, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_the_page_tells_of_every_kind_of_blocks_what_it_is() -> None:
    page = (Path(__file__).parents[3] / "docs" / "import.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \| ([\d.]+) \|", page, re.MULTILINE)
    kinds = {name: gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[name]] for name in KINDS}
    assert rows == [
        (name, str(numbers), str(size), f"{8 * size / numbers:g}") for name, (numbers, size) in kinds.items()
    ]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", KINDS)
def test_blocks_are_read_as_the_package_reads_them(name: str, seed: int, tmp_path: Path) -> None:
    kind = gguf.GGMLQuantizationType[name]
    numbers, size = gguf.GGML_QUANT_SIZES[kind]
    generator = np.random.default_rng(seed)
    raw = generator.integers(0, 256, (6, 512 // numbers * size), dtype=np.uint8)
    if numbers == 1:
        raw = gguf.quants.quantize(generator.standard_normal((6, 512)).astype(np.float32), kind)
    else:
        # scales are halves, of which some bytes are not finite
        blocks = raw.reshape(-1, size)
        places = {"Q6_K": (208,), "Q4_K": (0, 2), "Q4_1": (0, 2)}.get(name, (0,))
        for place in places:
            scales = generator.standard_normal(len(blocks)).astype(np.float16)
            blocks[:, place : place + 2] = scales[:, None].view(np.uint8)
    path = write(tmp_path / "model.gguf", "llama", {"x.weight": (raw, kind)})
    expected = gguf.quants.dequantize(raw, kind)
    np.testing.assert_array_equal(GgufFile(path).tensor("x.weight").numpy(), expected.astype(np.float32))


def llama(path: Path, architecture: str = "llama", **changes: Any) -> tuple[Path, dict[str, np.ndarray]]:
    """A Llama of one layer, with the rows of queries and keys as the converter of llama.cpp puts them."""
    generator = np.random.default_rng(1)
    shapes = {
        "token_embd": (98, 16), "output_norm": (16,), "blk.0.attn_norm": (16,), "blk.0.ffn_norm": (16,),
        "blk.0.attn_q": (16, 16), "blk.0.attn_k": (8, 16), "blk.0.attn_v": (8, 16), "blk.0.attn_output": (16, 16),
        "blk.0.ffn_gate": (20, 16), "blk.0.ffn_up": (20, 16), "blk.0.ffn_down": (16, 20),
    }  # fmt: skip
    plain = {f"{name}.weight": generator.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    stored = dict(plain)
    for name, heads in (("blk.0.attn_q.weight", 2), ("blk.0.attn_k.weight", 1)):
        # convert_hf_to_gguf: (heads, 2, K / 2) -> (heads, K / 2, 2)
        rows = plain[name].reshape(heads, 2, -1, 16).swapaxes(1, 2).reshape(plain[name].shape)
        stored[name] = rows if architecture == "llama" else plain[name]
    sizes = {
        "embedding_length": 16, "block_count": 1, "feed_forward_length": 20, "attention__head_count": 2,
        "attention__head_count_kv": 1, "attention__layer_norm_rms_epsilon": 1e-5, "rope__freq_base": 5e3,
        "context_length": 64,
    }  # fmt: skip
    values = {
        **{f"{architecture}__{name}": value for name, value in sizes.items()},
        "tokenizer__ggml__model": "gpt2",
        "tokenizer__ggml__pre": "smollm",
        "tokenizer__ggml__tokens": ["<|endoftext|>", *ALPHABET, "ab"],
        "tokenizer__ggml__token_type": [3, *[1] * (len(ALPHABET) + 1)],
        "tokenizer__ggml__merges": ["a b"],
    }
    return write(path, architecture, stored, **{**values, **changes}), plain


@torch.no_grad()
def test_a_llama_computes_what_transformers_does(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    path, plain = llama(tmp_path / "model.gguf")
    theirs = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=98, hidden_size=16, num_hidden_layers=1, intermediate_size=20, num_attention_heads=2,
            num_key_value_heads=1, rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 5e3},
            tie_word_embeddings=True,
        )
    ).eval()  # fmt: skip
    layer = theirs.model.layers[0]
    for name, parameter in (
        ("token_embd", theirs.model.embed_tokens), ("output_norm", theirs.model.norm),
        ("blk.0.attn_norm", layer.input_layernorm), ("blk.0.ffn_norm", layer.post_attention_layernorm),
        *((f"blk.0.attn_{part}", getattr(layer.self_attn, f"{part}_proj")) for part in "qkv"),
        ("blk.0.attn_output", layer.self_attn.o_proj),
        *((f"blk.0.ffn_{part}", getattr(layer.mlp, f"{part}_proj")) for part in ("gate", "up", "down")),
    ):  # fmt: skip
        parameter.weight.copy_(torch.from_numpy(plain[f"{name}.weight"]))
    found = read_foreign(path)
    assert isinstance(found, Imported)
    ours = Factory(found.model).language_model("causal").eval()
    ours.load_state_dict(dict(found.weights), strict=False)
    tokens = torch.randint(0, 98, (2, 20))
    torch.testing.assert_close(ours(tokens), theirs(input_ids=tokens).logits, rtol=0, atol=1e-4)


def test_a_byte_level_tokenizer_has_the_ids_of_the_file(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    path, _ = llama(tmp_path / "model.gguf")
    inner = tokenizers.Tokenizer.from_str(gguf_tokenizer(GgufFile(path)).decode())
    names = ["<|endoftext|>", *ALPHABET, "ab"]
    assert inner.encode("ab 12c").ids == [names.index(one) for one in ("ab", "Ġ", "1", "2", "c")]
    assert inner.decode(inner.encode("ab 12c").ids) == "ab 12c"


def test_a_sentencepiece_tokenizer_merges_by_scores(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    tokens = ["<unk>", "<s>", "</s>", "<0x0A>", "▁", "a", "b", "c", "ab", "bc", "▁a"]
    values = {
        "tokenizer__ggml__model": "llama",
        "tokenizer__ggml__tokens": tokens,
        "tokenizer__ggml__scores": [0.0] * 4 + [-9.0, -9.0, -9.0, -9.0, -2.0, -1.0, -3.0],
        "tokenizer__ggml__token_type": [2, 3, 3, 6, *[1] * 7],
    }
    path = write(tmp_path / "model.gguf", "llama", {"x": np.zeros((2, 2), np.float32)}, **values)
    inner = tokenizers.Tokenizer.from_str(gguf_tokenizer(GgufFile(path)).decode())
    # "bc" scores best, so that "ab" is never made
    assert inner.encode("abc", add_special_tokens=False).tokens == ["▁a", "bc"]
    assert inner.decode(inner.encode("abc\n").ids) == "abc\n"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"general__alignment": 0}, "not a readable GGUF file"),
        ({"tokenizer__ggml__model": "bert"}, "the tokenizer 'bert' of GGUF is not supported"),
        ({"tokenizer__ggml__pre": "tekken"}, "the pre-tokenizer 'tekken' of GGUF is not supported"),
        ({"llama__block_count": 2}, "the weight layers.1."),
        ({"tokenizer__ggml__tokens": ["a", "b", "c", "d"]}, "does not fit its config.json"),
    ],
)
def test_what_does_not_fit_is_named(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path, _ = llama(tmp_path / "model.gguf", **changes)
    with pytest.raises(DataError, match=message.replace(".", r"\.")):
        read_foreign(path)


def test_damaged_and_unknown_files_are_named(tmp_path: Path) -> None:
    path, _ = llama(tmp_path / "model.gguf")
    whole = path.read_bytes()
    for size in (3, 20, 400, len(whole) - 500):
        path.write_bytes(whole[:size])
        with pytest.raises(DataError, match=r"not a readable GGUF file|reaches beyond the file"):
            read_foreign(path)
    other = write(tmp_path / "other.gguf", "mamba", {"x": np.zeros(4, np.float32)})
    with pytest.raises(
        DataError, match="the architecture 'mamba' of GGUF is not supported; known: llama, qwen2, qwen3"
    ):
        read_foreign(other)
    raw = np.zeros((1, gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType.Q5_K][1]), np.uint8)
    odd = write(tmp_path / "odd.gguf", "llama", {"x": (raw, gguf.GGMLQuantizationType.Q5_K)})
    with pytest.raises(DataError, match="x is quantised in a way that is not supported"):
        GgufFile(odd).tensor("x")
