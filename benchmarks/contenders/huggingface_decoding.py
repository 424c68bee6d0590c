"""Child of decode_speed.py: MarianMT of Hugging Face's transformers and its `generate`.

With the run's weights it computes what dikkat computes. Marian has post-norm blocks only: for any other model it is one
of the same sizes with random weights, and a batch takes as many steps as the longest of dikkat's translations in it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from benchmarks.contenders.decoding_clock import against_the_clock
from benchmarks.contenders.huggingface_marian import EOS_ID, PAD_ID, build
from benchmarks.contenders.peer_tokenizer import PeerTokenizer
from torch import Tensor

PARTS = {
    "self_attn.out_proj": "self_attention.out_projection",
    "self_attn_layer_norm": "self_residual.norm",
    "encoder_attn.out_proj": "cross_attention.out_projection",
    "encoder_attn_layer_norm": "cross_residual.norm",
    "fc1": "feed_forward.inner",
    "fc2": "feed_forward.outer",
    "final_layer_norm": "feed_forward_residual.norm",
}
"""Layers of a block, theirs to ours."""
PACKED = {"self_attn": "self_attention", "encoder_attn": "cross_attention"}
"""Attentions whose query, key and value ours holds in one matrix."""


class Marian:
    def __init__(self, job: dict[str, Any]) -> None:
        self.tokenizer = PeerTokenizer(job["run"])
        self.length_penalty = job["length_penalty"]
        torch.manual_seed(1)
        self.model = build(job["model"], job["attention"]).eval()
        if job["weights"]:
            with np.load(job["weights"]) as arrays:
                fill(self.model, {name: torch.from_numpy(array) for name, array in arrays.items()})
        self.model.to(getattr(torch, job["dtype"]))
        self.steps = {} if job["weights"] else lengths(self.tokenizer, job)

    @torch.inference_mode()
    def translate(self, lines: Sequence[str], beam_size: int, batch_size: int) -> list[str]:
        ids = [[*row, EOS_ID] for row in self.tokenizer.encode(lines)]
        order = sorted(range(len(ids)), key=lambda place: -len(ids[place]))
        written: list[list[int]] = [[] for _ in ids]
        for start in range(0, len(order), batch_size):
            places = order[start : start + batch_size]
            rows = self.generate([ids[place] for place in places], [lines[place] for place in places], beam_size)
            for place, row in zip(places, rows.tolist(), strict=True):
                written[place] = row
        return self.tokenizer.decode(written)

    def generate(self, ids: list[list[int]], lines: list[str], beam_size: int) -> Tensor:
        width = max(map(len, ids))
        source = torch.tensor([row + [PAD_ID] * (width - len(row)) for row in ids])
        steps = {"max_new_tokens": 2 * width + 10}
        if self.steps:
            longest = max(self.steps[beam_size][line] for line in lines)
            steps = {"max_new_tokens": longest, "min_new_tokens": longest}
        found: Tensor = self.model.generate(
            input_ids=source,
            attention_mask=(source != PAD_ID).long(),
            do_sample=False,
            num_beams=beam_size,
            # with one beam there is nothing to penalise, and transformers would say so at every call
            **({"length_penalty": self.length_penalty, "early_stopping": True} if beam_size > 1 else {}),
            **steps,
        )
        return found

    def turn_around(self, lines: Sequence[str]) -> list[str]:
        return self.tokenizer.turn_around(lines)


def lengths(tokenizer: PeerTokenizer, job: dict[str, Any]) -> dict[int, dict[str, int]]:
    """By beam size and line, the tokens of dikkat's translation, its end mark included."""
    lines = json.loads(Path(job["lines"]).read_text(encoding="utf-8"))["sources"]
    translations = json.loads(Path(job["reference_texts"]).read_text(encoding="utf-8"))
    found = {}
    for name, search in job["searches"].items():
        counts = [len(row) + 1 for row in tokenizer.encode(translations[name])]
        found[search["beam_size"]] = dict(zip(lines, counts, strict=True))
    return found


def fill(model: Any, ours: Mapping[str, Tensor]) -> None:
    """Copy our weights into theirs, all of them."""
    state = {name: tensor for name, tensor in model.state_dict().items() if name == "final_logits_bias"}
    for name in ("model.shared", "model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head"):
        state[f"{name}.weight"] = ours["output_weight"]
    for stack in ("encoder", "decoder"):
        state[f"model.{stack}.embed_positions.weight"] = ours["positions"]
        for number in range(len(getattr(model.model, stack).layers)):
            theirs, block = f"model.{stack}.layers.{number}", f"{stack}.blocks.{number}"
            state.update({f"{theirs}.{name}": tensor for name, tensor in block_weights(ours, block).items()})
    model.load_state_dict(state)


def block_weights(ours: Mapping[str, Tensor], block: str) -> dict[str, Tensor]:
    found = {}
    for kind in ("weight", "bias"):
        for theirs, name in PARTS.items():
            if f"{block}.{name}.{kind}" in ours:
                found[f"{theirs}.{kind}"] = ours[f"{block}.{name}.{kind}"]
        for theirs, name in PACKED.items():
            if f"{block}.{name}.in_projection.{kind}" in ours:
                parts = ours[f"{block}.{name}.in_projection.{kind}"].chunk(3)
                found.update({f"{theirs}.{part}_proj.{kind}": row for part, row in zip("qkv", parts, strict=True)})
    return found


def main(job: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(job["threads"])
    transformers.logging.set_verbosity_error()
    found = against_the_clock(Marian(job), job)
    return {**found, "versions": {"torch": torch.__version__, "transformers": transformers.__version__}}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
