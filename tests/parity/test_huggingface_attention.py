"""Our attention against that of Hugging Face's BERT, GPT-2 and Marian, with their weights and under their masks.

Small models with random weights run as their users run them, on token ids and padding masks; every attention layer is
watched, and ours gets the same inputs. Nothing is downloaded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from tests.parity.weights import shake
from torch import Tensor, nn

from dikkat.nn.masks import causal_mask, key_mask
from dikkat.nn.multi_head_attention import MultiHeadAttention
from dikkat.nn.recorder import record_attention

transformers = pytest.importorskip(
    "transformers", reason="needs Hugging Face transformers, which the extra [test] brings"
)
pytestmark = pytest.mark.peer

D, H, S, T, VOCABULARY = 24, 3, 7, 5, 30
SOURCE_REAL = torch.tensor([[True] * 7, [True, True, True, False, False, False, False], [True] + [False] * 6])
TARGET_REAL = torch.tensor([[True] * 5, [True, True, False, False, False], [True] * 5])
MARIAN_STACK = {"layers": 2, "attention_heads": H, "ffn_dim": 2 * D}
Weights = dict[str, Tensor]


@dataclass
class Seen:
    """What went into one attention layer of theirs and what came out of it."""

    module: nn.Module
    query: Tensor
    memory: Tensor | None
    """Of cross-attention, what keys and values come from."""
    output: Tensor
    weights: Tensor | None
    """Under "eager" only."""


def linear(*layers: nn.Linear) -> tuple[Tensor, Tensor]:
    """Weight and bias of layers stacked one above the other."""
    return torch.cat([layer.weight for layer in layers]), torch.cat([layer.bias for layer in layers])


def transposed(*layers: Any) -> tuple[Tensor, Tensor]:
    """The same of GPT-2's `Conv1D`, which keeps its weight as (inputs, outputs)."""
    return torch.cat([layer.weight.T for layer in layers]), torch.cat([layer.bias for layer in layers])


def named(inner: tuple[Tensor, Tensor], outer: tuple[Tensor, Tensor]) -> Weights:
    names = ("in_projection.weight", "in_projection.bias", "out_projection.weight", "out_projection.bias")
    return dict(zip(names, (*inner, *outer), strict=True))


def of_bert(attention: Any) -> Weights:
    inner = attention.self
    return named(linear(inner.query, inner.key, inner.value), linear(attention.output.dense))


def of_gpt2(attention: Any) -> Weights:
    layers = (attention.q_attn, attention.c_attn) if attention.is_cross_attention else (attention.c_attn,)
    return named(transposed(*layers), transposed(attention.c_proj))


def of_marian(attention: Any) -> Weights:
    return named(linear(attention.q_proj, attention.k_proj, attention.v_proj), linear(attention.out_proj))


def shaken(model: nn.Module) -> nn.Module:
    shake(model)
    return model.eval()


def tokens(real: Tensor) -> dict[str, Tensor]:
    ids = torch.randint(3, VOCABULARY, real.shape)
    return {"input_ids": ids, "attention_mask": real.long()}


def bert_encoder(kind: str) -> list[Seen]:
    model = shaken(transformers.BertModel(bert_config(kind)))
    return watched(model, "BertAttention", lambda: model(**tokens(SOURCE_REAL)))


def bert_decoder(kind: str) -> list[Seen]:
    model = shaken(transformers.BertModel(bert_config(kind, is_decoder=True, add_cross_attention=True)))
    return watched(model, "BertAttention", lambda: model(**tokens(TARGET_REAL), **memory()))


def bert_config(kind: str, **choices: bool) -> Any:
    return transformers.BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=D,
        num_attention_heads=H,
        num_hidden_layers=2,
        intermediate_size=2 * D,
        attn_implementation=kind,
        **choices,
    )


def gpt2(kind: str) -> list[Seen]:
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=D,
        n_head=H,
        n_layer=2,
        bos_token_id=1,
        eos_token_id=2,
        add_cross_attention=True,
        attn_implementation=kind,
    )
    model = shaken(transformers.GPT2Model(config))
    return watched(model, "GPT2Attention", lambda: model(**tokens(TARGET_REAL), **memory()))


def marian(kind: str) -> list[Seen]:
    sizes = {f"{stack}_{name}": size for stack in ("encoder", "decoder") for name, size in MARIAN_STACK.items()}
    config = transformers.MarianConfig(
        vocab_size=VOCABULARY, d_model=D, pad_token_id=0, decoder_start_token_id=0, attn_implementation=kind, **sizes
    )
    model = shaken(transformers.MarianModel(config))
    target = {f"decoder_{name}": inputs for name, inputs in tokens(TARGET_REAL).items()}
    return watched(model, "MarianAttention", lambda: model(**tokens(SOURCE_REAL), **target))


def memory() -> dict[str, Tensor]:
    """What stands in for an encoder's output."""
    return {"encoder_hidden_states": torch.randn(3, S, D), "encoder_attention_mask": SOURCE_REAL.long()}


def watched(model: nn.Module, name: str, run: Callable[[], object]) -> list[Seen]:
    """Every call of a module of that class while `run` runs."""
    calls: list[Seen] = []

    def note(module: nn.Module, args: tuple[Any, ...], options: dict[str, Any], result: tuple[Any, ...]) -> None:
        inputs = inspect.signature(module.forward).bind(*args, **options).arguments
        memory = inputs.get("encoder_hidden_states", inputs.get("key_value_states"))
        calls.append(Seen(module, inputs["hidden_states"], memory, result[0], result[1]))

    for part in model.modules():
        if type(part).__name__ == name:
            part.register_forward_hook(note, with_kwargs=True)
    with torch.no_grad():
        run()
    return calls


@dataclass(frozen=True)
class Peer:
    run: Callable[[str], list[Seen]]
    weights: Callable[[Any], Weights]
    layers: list[str]
    """What each call is: self-attention of an "encoder", or of a "decoder", or "cross"."""


PEERS = {
    "BERT": Peer(bert_encoder, of_bert, ["encoder"] * 2),
    "BERT decoder": Peer(bert_decoder, of_bert, ["decoder", "cross"] * 2),
    "GPT-2": Peer(gpt2, of_gpt2, ["decoder", "cross"] * 2),
    "Marian": Peer(marian, of_marian, ["encoder"] * 2 + ["decoder", "cross"] * 2),
}
MASKS = {
    "encoder": key_mask(SOURCE_REAL),
    "decoder": causal_mask(T) & key_mask(TARGET_REAL),
    "cross": key_mask(SOURCE_REAL),
}


def finished(seen: Seen, output: Tensor) -> Tensor:
    """Our output; in BERT an attention layer goes on to the residual sum and its norm."""
    norm = getattr(getattr(seen.module, "output", None), "LayerNorm", None)
    return output if norm is None else norm(output + seen.query)


@pytest.mark.parametrize("kind", ["eager", "sdpa"])
@pytest.mark.parametrize("name", PEERS)
def test_outputs_and_weights_are_those_of_hugging_face(name: str, kind: str) -> None:
    peer = PEERS[name]
    calls = peer.run(kind)
    assert [seen.memory is not None for seen in calls] == [layer == "cross" for layer in peer.layers]
    for seen, layer in zip(calls, peer.layers, strict=True):
        ours = MultiHeadAttention(D, H).eval()
        ours.load_state_dict(peer.weights(seen.module))
        with torch.no_grad(), record_attention(ours) as maps:
            output = finished(seen, ours(seen.query, seen.memory, mask=MASKS[layer]))
        torch.testing.assert_close(output, seen.output, rtol=0, atol=1e-5)
        assert (seen.weights is None) == (kind == "sdpa")
        if seen.weights is not None:
            ((recorded,),) = maps.values()
            torch.testing.assert_close(recorded, seen.weights, rtol=0, atol=1e-5)
            assert recorded.amax() > 0.5, "weights that are nearly equal would agree under any scale"
