"""Child of attention_cost.py: processor seconds of training steps and of greedy decoding, watched and not, in turn."""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from dikkat.config import ModelConfig
from dikkat.kernels.library import library
from dikkat.models.encoder_decoder import EncoderDecoder
from dikkat.models.factory import build_model
from dikkat.nn.functional import attention_scores, attention_weights
from dikkat.nn.masks import key_mask
from dikkat.nn.recorder import MapName, record_attention
from dikkat.torch_engine.strategies import greedy
from dikkat_runtime.engine.options import DecodingOptions

SEED = 5
Timed = Callable[[], object]
Maps = dict[MapName, list[Tensor]]


def main(job: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(job["threads"])
    config = ModelConfig(**job["model"])
    torch.manual_seed(SEED)
    source, target = (torch.randint(4, config.vocab_size, (job["batch"], job["length"])) for _ in range(2))
    mask = torch.ones_like(source, dtype=torch.bool)
    # the same weights three times: one model is never watched, one was once, one is all the time
    plain, before, watched = (build_model(config, SEED) for _ in range(3))
    with record_attention(before), torch.no_grad():
        before(source, target, mask)
    models = {"never watched": plain, "watched before": before, "one layer asked for": watched}
    steps = decoded_length(plain, source, mask, job["length"])
    rounds = []
    with one_layer(watched, config) as maps:
        cases = {
            "training": training_cases(models, maps, source, target, mask, config),
            "decoding": decoding_cases(models, maps, source, mask, config, job["length"], steps),
        }
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
    models: dict[str, EncoderDecoder], maps: Maps, source: Tensor, target: Tensor, mask: Tensor, config: ModelConfig
) -> dict[str, Timed]:
    def step(model: EncoderDecoder) -> None:
        model.train()
        torch.manual_seed(SEED)
        logits = model(source, target[:, :-1], mask)
        F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten()).backward()
        model.zero_grad(set_to_none=True)
        forget(maps)

    rows = target.shape[1] - 1
    cases: dict[str, Timed] = {name: partial(step, model) for name, model in models.items()}
    return {**cases, "its scores alone": scores(source.shape[0], rows, source.shape[1], config, mask, 1)}


def decoding_cases(
    models: dict[str, EncoderDecoder],
    maps: Maps,
    source: Tensor,
    mask: Tensor,
    config: ModelConfig,
    length: int,
    steps: int,
) -> dict[str, Timed]:
    def decode(model: EncoderDecoder) -> None:
        model.eval()
        with torch.inference_mode():
            greedy(model, source, mask, options(length))
        forget(maps)

    cases: dict[str, Timed] = {name: partial(decode, model) for name, model in models.items()}
    return {**cases, "its scores alone": scores(source.shape[0], 1, source.shape[1], config, mask, steps)}


def forget(maps: Maps) -> None:
    for calls in maps.values():
        calls.clear()


def one_layer(model: EncoderDecoder, config: ModelConfig) -> AbstractContextManager[Maps]:
    """The cross-attention of the last layer: the map that is read most."""
    name = MapName("decoder", config.decoder_layers - 1, "cross")
    return record_attention(model, lambda each: each == name)


def scores(batch: int, rows: int, columns: int, config: ModelConfig, mask: Tensor, times: int) -> Timed:
    """Time the reference: scores and softmax of that layer, once for all rows or once for each step.

    Its tensors lie in memory as projections leave them, and keys that many steps read by head.
    """
    width = config.model_dim // config.num_heads
    # (B, T, H, K) -> (B, H, T, K)
    query, key = (torch.randn(batch, length, config.num_heads, width).transpose(1, 2) for length in (rows, columns))
    key = key.contiguous() if times > 1 else key

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
            started, calls, taken = time.process_time(), 0, 0.0
            # a case may be shorter than a tick of the clock
            while taken == 0.0:
                cases[name]()
                calls, taken = calls + 1, time.process_time() - started
            seconds[name].append(taken / calls)
    return {name: statistics.median(each) for name, each in seconds.items()}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
