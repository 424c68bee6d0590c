"""Child of train_speed.py: MarianMT of Hugging Face's transformers in a plain training loop, on the same ids.

Runs in the environment of requirements.txt, where dikkat is not installed. The loop has what is usual and fast:
fused AdamW, autocast with float32 weights, the loss in float32; the batches are in memory before the clock starts.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
import torch
import transformers
from benchmarks.contenders.huggingface_marian import PAD_ID, build
from benchmarks.contenders.memory import resident_bytes
from torch import Tensor
from torch.nn import functional as F

Ids = dict[str, Tensor]


def main(job: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(job["threads"])
    torch.manual_seed(1)
    model = build(job["model"], job["attention"]).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    batches = read(job["ids"], job["warm"] + job["steps"])
    seconds, losses = [], []
    for batch in batches:
        started = time.perf_counter()
        losses.append(step(model, optimizer, batch, job))
        seconds.append(time.perf_counter() - started)
    return {
        "seconds": seconds,
        "target_tokens": [int((batch["target_output"] != PAD_ID).sum()) for batch in batches],
        "losses": losses,
        "dtype": job["dtype"],
        "attention": model.config._attn_implementation,
        "parameters": sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad),
        "peak_bytes": resident_bytes("VmHWM"),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }


def read(path: str, count: int) -> list[Ids]:
    parts = ("source", "target_input", "target_output")
    with np.load(path) as arrays:
        return [{part: torch.from_numpy(arrays[f"{part}_{place}"]) for part in parts} for place in range(count)]


def step(model: Any, optimizer: torch.optim.Optimizer, batch: Ids, job: dict[str, Any]) -> float:
    """One update; the mean loss a token, in nats."""
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=job["dtype"] == "bfloat16"):
        logits = model(
            input_ids=batch["source"],
            attention_mask=(batch["source"] != PAD_ID).long(),
            decoder_input_ids=batch["target_input"],
            use_cache=False,
        ).logits
    # (B, T, V) -> (B * T, V)
    rows, wanted = logits.flatten(0, 1).float(), batch["target_output"].flatten()
    loss = F.cross_entropy(rows, wanted, ignore_index=PAD_ID, label_smoothing=job["label_smoothing"])
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), job["clip_norm"])
    optimizer.step()
    return float(loss.detach())


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
