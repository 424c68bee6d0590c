"""Child of classifier_speed.py: BERT of Hugging Face's transformers in a plain training loop, on the same ids.

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
from benchmarks.contenders.memory import resident_bytes
from torch import Tensor
from torch.nn import functional as F

PAD_ID = 0


def main(job: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(job["threads"])
    torch.manual_seed(1)
    model = build(job)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0, fused=True)
    with np.load(job["ids"]) as arrays:
        count = job["warm"] + job["steps"]
        parts = ("tokens", "labels")
        batches = [tuple(torch.from_numpy(arrays[f"{part}_{place}"]) for part in parts) for place in range(count)]
    seconds, losses = [], []
    for tokens, labels in batches:
        started = time.perf_counter()
        losses.append(step(model, optimizer, tokens, labels.long(), job))
        seconds.append(time.perf_counter() - started)
    return {
        "seconds": seconds,
        "texts": [len(labels) for _, labels in batches],
        "losses": losses,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "peak_bytes": resident_bytes("VmHWM"),
        "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
    }


def build(job: dict[str, Any]) -> Any:
    """Of the same sizes; BERT reads its class off the first position, through a pooler."""
    shape = job["model"]
    settings: dict[str, Any] = {
        "vocab_size": shape["vocab_size"],
        "hidden_size": shape["model_dim"],
        "intermediate_size": shape["feed_forward_dim"],
        "num_attention_heads": shape["num_heads"],
        "num_hidden_layers": shape["encoder_layers"],
        "hidden_dropout_prob": shape["dropout"],
        "attention_probs_dropout_prob": 0.0,
        "max_position_embeddings": job["max_tokens"] + 8,
        "pad_token_id": PAD_ID,
        "num_labels": job["classes"],
        "attn_implementation": job["attention"],
    }
    return transformers.BertForSequenceClassification(transformers.BertConfig(**settings)).train()


def step(model: Any, optimizer: torch.optim.Optimizer, tokens: Tensor, labels: Tensor, job: dict[str, Any]) -> float:
    """One update; the mean loss a text, in nats."""
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.bfloat16, enabled=job["dtype"] == "bfloat16"):
        logits = model(input_ids=tokens, attention_mask=(tokens != PAD_ID).long()).logits
    loss = F.cross_entropy(logits.float(), labels, label_smoothing=job["label_smoothing"])
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), job["clip_norm"])
    optimizer.step()
    return float(loss.detach())


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
