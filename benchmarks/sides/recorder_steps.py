"""Child of attention_cost.py: processor seconds of training steps and of greedy decoding, watched and not, in turn."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dikkat.config import ModelConfig
from dikkat.decoding.greedy import greedy
from dikkat.decoding.options import DecodingOptions
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_model
from dikkat.native.library import library
from dikkat.nn.functional import attention_scores, attention_weights
from dikkat.nn.masks import key_mask
from dikkat.nn.recorder import MapName, record_attention

SEED = 5
Timed = Callable[[], object]


def main(job: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(job["threads"])
    config = ModelConfig(**job["model"])
    torch.manual_seed(SEED)
    source, target = (torch.randint(4, config.vocab_size, (job["batch"], job["length"])) for _ in range(2))
    mask = torch.ones_like(source, dtype=torch.bool)
    # the same weights twice: one model is never watched, the other was once
    plain, watched = (build_model(config, SEED) for _ in range(2))
    with record_attention(watched), torch.no_grad():
        watched(source, target, mask)
    steps = decoded_length(plain, source, mask, job["length"])
    cases = {
        "training": training_cases(plain, watched, source, target, mask, config),
        "decoding": decoding_cases(plain, watched, source, mask, config, job["length"], steps),
    }
    rounds = []
    for number in range(job["rounds"] + 1):
        # the first one only warms
        found = {work: in_turn(each, job["repeats"] if number else 1) for work, each in cases.items()}
        rounds.append(found)
    return {
        "rounds": rounds[1:],
        "native": library() is not None,
        "decoded_tokens": steps,
        "versions": {"torch": torch.__version__},
    }


def training_cases(
    plain: EncoderDecoder, watched: EncoderDecoder, source: Tensor, target: Tensor, mask: Tensor, config: ModelConfig
) -> dict[str, Timed]:
    def step(model: EncoderDecoder, watching: AbstractContextManager[object]) -> None:
        model.train()
        torch.manual_seed(SEED)
        with watching:
            logits = model(source, target[:, :-1], mask)
            F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten()).backward()
        model.zero_grad(set_to_none=True)

    rows = target.shape[1] - 1
    return {
        "never watched": lambda: step(plain, nullcontext()),
        "watched before": lambda: step(watched, nullcontext()),
        "one layer asked for": lambda: step(watched, one_layer(watched, config)),
        "its scores alone": scores(source.shape[0], rows, source.shape[1], config, mask, 1),
    }


def decoding_cases(
    plain: EncoderDecoder,
    watched: EncoderDecoder,
    source: Tensor,
    mask: Tensor,
    config: ModelConfig,
    length: int,
    steps: int,
) -> dict[str, Timed]:
    def decode(model: EncoderDecoder, watching: AbstractContextManager[object]) -> None:
        model.eval()
        with torch.inference_mode(), watching:
            greedy(model, source, mask, options(length))

    return {
        "never watched": lambda: decode(plain, nullcontext()),
        "watched before": lambda: decode(watched, nullcontext()),
        "one layer asked for": lambda: decode(watched, one_layer(watched, config)),
        "its scores alone": scores(source.shape[0], 1, source.shape[1], config, mask, steps),
    }


def one_layer(model: EncoderDecoder, config: ModelConfig) -> AbstractContextManager[object]:
    """The cross-attention of the last layer: the map that is read most."""
    name = MapName("decoder", config.decoder_layers - 1, "cross")
    return record_attention(model, lambda each: each == name)


def scores(batch: int, rows: int, columns: int, config: ModelConfig, mask: Tensor, times: int) -> Timed:
    """The roof: scores and softmax of that layer, once for all rows or once for each step."""
    width = config.model_dim // config.num_heads
    query, key = (torch.randn(batch, config.num_heads, length, width) for length in (rows, columns))

    @torch.no_grad()
    def compute() -> None:
        for _ in range(times):
            attention_weights(attention_scores(query, key), key_mask(mask), beta=width**-0.5)

    return compute


def options(length: int) -> DecodingOptions:
    return DecodingOptions(max_length_factor=0.0, max_length_offset=length)


def decoded_length(model: EncoderDecoder, source: Tensor, mask: Tensor, length: int) -> int:
    with torch.inference_mode():
        return max(len(each.tokens) + each.finished for each in greedy(model.eval(), source, mask, options(length)))


def in_turn(cases: dict[str, Timed], repeats: int) -> dict[str, float]:
    """Median processor seconds of each case; all take their turn, and every repeat begins with another one."""
    names = list(cases)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for repeat in range(repeats):
        turn = repeat % len(names)
        for name in names[turn:] + names[:turn]:
            started = time.process_time()
            cases[name]()
            seconds[name].append(time.process_time() - started)
    return {name: statistics.median(each) for name, each in seconds.items()}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
