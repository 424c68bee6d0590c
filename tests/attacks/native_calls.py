"""Calls of every native kernel with random shapes, numbers and indices, hostile ones among them.

`python -m tests.attacks.native_calls LIBRARY COUNT SEED` makes COUNT of them with the kernels of LIBRARY, which a test
compiles with sanitizers. A hostile index must be refused; sanitizers end the process at the first access out of bounds
and at the first undefined operation.
"""

from __future__ import annotations

import ctypes
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dikkat_runtime.errors import DataError

SIZES = (0, 1, 2, 3, 5, 7, 15, 16, 17, 31, 33, 64, 65, 100, 130, 257)
WRONG = (-(2**63), -(2**31) - 1, -65537, -1, 2**31, 2**62, 2**63 - 1)
"""Indices that are outside of everything; the size itself comes on top."""


class NotRefusedError(Exception):
    """A hostile index was taken."""


class Calls:
    """One method for each kernel, or for those that go together."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        torch.manual_seed(seed)

    def size(self, smallest: int = 0, largest: int = 300) -> int:
        return self._random.choice([size for size in SIZES if smallest <= size <= largest])

    def either(self) -> bool:
        return self._random.random() < 0.5

    def dtype(self) -> torch.dtype:
        return self._random.choice([torch.float32, torch.bfloat16])

    def numbers(self, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        """Of any magnitude, with some that are none now and then; at times not dense."""
        whole = torch.randn(*shape[:-1], shape[-1] + 3 * self.either()) * 10.0 ** self._random.randint(-3, 3)
        if whole.numel() and self._random.random() < 0.2:
            values = [float("nan"), float("inf"), -float("inf"), 3e38, 1e-40]
            whole.view(-1)[self._random.randrange(whole.numel())] = self._random.choice(values)
        return whole.to(dtype)[..., : shape[-1]]

    def indices(self, size: int, *shape: int) -> Tensor:
        return torch.randint(size, shape) if size else torch.zeros(*shape, dtype=torch.int64)

    def spoiled(self, indices: Tensor, size: int) -> Tensor:
        """A copy with one index that is outside."""
        spoiled = indices.clone()
        if indices.dtype == torch.int32:
            wrong = self._random.choice([-(2**31), -1, size, 2**31 - 1])
        else:
            wrong = self._random.choice([*WRONG, size])
        spoiled.view(-1)[self._random.randrange(spoiled.numel())] = wrong
        return spoiled

    def refuses(self, call: Callable[[], object]) -> None:
        try:
            call()
        except (IndexError, ValueError, DataError):
            return
        raise NotRefusedError

    def softmax(self) -> None:
        from dikkat.kernels.cross_entropy import smoothed_softmax

        rows, vocab = self.size(1), self.size(1)
        logits, targets = self.numbers(rows, vocab, dtype=self.dtype()).contiguous(), self.indices(vocab, rows)
        smoothed_softmax(logits.clone(), targets, 0.1)
        self.refuses(lambda: smoothed_softmax(logits, self.spoiled(targets, vocab), 0.1))
        self.refuses(lambda: smoothed_softmax(logits, targets.int(), 0.1))
        self.refuses(lambda: smoothed_softmax(logits, targets[1:], 0.1))

    def sampled(self) -> None:
        from dikkat.kernels.cross_entropy import SampledGradient, sampled_softmax

        rows, vocab, width = self.size(1, 100), self.size(1), self.size()
        logits, targets = self.numbers(rows, vocab, dtype=self.dtype()).contiguous(), self.indices(vocab, rows)
        offsets, weight = torch.rand(rows), self.numbers(vocab, width, dtype=logits.dtype)
        *_, sampled = sampled_softmax(logits, targets, 0.1, offsets)
        assert isinstance(sampled, SampledGradient)
        begin, hidden, to = torch.randn(width), self.numbers(rows, width, dtype=logits.dtype), torch.zeros(vocab, width)
        self.refuses(lambda: sampled_softmax(logits, self.spoiled(targets, vocab), 0.1, offsets))
        entries = sampled.entries.clone()
        entries[self._random.randrange(rows), 0] = self._random.choice([-1, vocab, 2**31 - 1, -(2**31)])
        hostile = [replace(sampled, entries=entries), replace(sampled, counts=self.spoiled(sampled.counts, 2000))]
        for item in hostile:
            self.refuses(lambda item=item: item.times(weight, begin))  # type: ignore[misc]
            self.refuses(lambda item=item: item.add_transposed_times(hidden, to))  # type: ignore[misc]
        sampled.times(weight, begin)
        sampled.add_transposed_times(hidden, to)

    def attention(self) -> None:
        from dikkat.kernels.attention import AttentionInputs, attention_backward, attention_forward

        batch, heads, queries, width = self.size(0, 3), self.size(1, 3), self.size(0, 130), 2 * self.size(1, 65)
        dtype, turns = self.dtype(), self.either()
        keys, value_width = queries if turns else self.size(0, 130), self.size(1, 130)
        shapes = ((queries, width), (keys, width), (keys, value_width))
        query, key, value = (self.numbers(batch, heads, *shape, dtype=dtype) for shape in shapes)
        mask = torch.rand(batch, 1, self._random.choice([1, queries]), keys) < 0.7 if self.either() else None
        bits = torch.randint(-(2**15), 2**15, (batch, heads, queries, keys)).to(torch.int16) if self.either() else None
        table = torch.randn(2, queries + 2, width // 2) if turns else None
        position_ids = self.indices(queries + 2, batch, queries) if turns and self.either() else None
        rest = mask, 0.3, bits, 6554, table

        def forward(position_ids: Tensor | None) -> tuple[Tensor, Tensor | None]:
            return attention_forward(
                AttentionInputs(query, key, value, *rest, position_ids), keep_weights=self.either()
            )

        output, weights = forward(position_ids)
        gradient = self.numbers(*output.shape, dtype=dtype)
        attention_backward(gradient, AttentionInputs(query, key, value, mask, *rest[1:], position_ids), weights)
        if position_ids is not None and position_ids.numel():
            spoiled = self.spoiled(position_ids, queries + 2)
            self.refuses(lambda: forward(spoiled))
            self.refuses(
                lambda: attention_backward(
                    gradient, AttentionInputs(query, key, value, mask, *rest[1:], spoiled), weights
                )
            )

    def rotation(self) -> None:
        from dikkat.kernels.rotary import rotate

        batch, heads, length, width = self.size(1, 3), self.size(1, 3), self.size(1, 65), 2 * self.size(1, 65)
        x, table = self.numbers(batch, heads, length, width, dtype=self.dtype()), torch.randn(2, length, width // 2)
        position_ids = self.indices(length, batch, length)
        rotate(x, table, None, back=self.either())
        rotate(x, table, position_ids, back=self.either())
        self.refuses(lambda: rotate(x, table, self.spoiled(position_ids, length), back=False))
        self.refuses(lambda: rotate(x, table[:, :-1].contiguous(), None, back=False))
        self.refuses(lambda: rotate(x, table, position_ids[:, :-1], back=False))

    def dropout(self) -> None:
        from dikkat.kernels.dropout import add_dropped
        from dikkat.kernels.random_bits import bits_of_seed

        entries = self.size()
        x, seed = self.numbers(entries, dtype=self.dtype()), self._random.getrandbits(63)
        add_dropped(x.clone() if self.either() else None, x, seed, 6554)
        bits_of_seed(seed, torch.empty(entries))

    def ranking(self) -> None:
        from dikkat_runtime.engine.options import log_normalizers, token_scores, top
        from dikkat_runtime.native.arrays import aligned

        rows, width = self.size(), self.size(1)
        values = aligned(self.numbers(rows, width).numpy())
        top(values, self._random.randint(1, width), 1 + self.either())
        log_normalizers(values, 1 + self.either())
        token_scores(values, np.array([self._random.randrange(width) for _ in range(rows)]), 1 + self.either())

    def engine(self) -> None:
        """Encoder and decoder with all their ways of decoding, over a model of random sizes."""
        from dikkat_runtime.engine.ensemble import EnsembleEngine
        from dikkat_runtime.engine.options import BeamOptions, SamplingOptions

        engine, vocabulary = self._engine()
        lengths = [self.size(1, 65) for _ in range(self._random.randint(1, 5))]
        sources = [self.indices(vocabulary, length).tolist() for length in lengths]
        memory = engine.encode(sources)
        for _ in range(2):
            wrong = [*sources, self.spoiled(torch.tensor(sources[0]), vocabulary).tolist()]
            self.refuses(lambda wrong=wrong: engine.encode(wrong))  # type: ignore[misc]
        beam_size = self._random.randint(1, 5)
        cap: dict[str, Any] = {"max_length_factor": 0.0, "max_length_offset": self._random.choice([1, 5, 40])}
        n_best = self._random.randint(1, beam_size)
        engine.search(memory, BeamOptions(beam_size=beam_size, n_best=n_best, **cap))
        engine.search(memory, BeamOptions(beam_size=beam_size, n_best=n_best, no_repeat_ngram=2, **cap))
        engine.search(memory, SamplingOptions(seed=1, repetition_penalty=1.2, **cap))
        together = EnsembleEngine([engine] * self._random.randint(1, 3))
        together.search(together.encode(sources), BeamOptions(beam_size=beam_size, n_best=n_best, **cap))

    def steps(self) -> None:
        from dikkat_runtime.engine.native import StepDecoder

        engine, vocabulary = self._engine()
        memory = engine.encode([self.indices(vocabulary, self.size(1, 33)).tolist() for _ in range(3)])
        rows = self._random.randint(1, 4)
        steps = StepDecoder(engine._decoder, memory, rows, 1 + self.either())
        owners = [0, 1, 2]
        for _ in range(self._random.choice([1, 3, 35])):
            tokens = self.indices(vocabulary, len(owners) * rows)
            self.refuses(lambda: steps.step(self.spoiled(tokens, vocabulary).tolist()))  # noqa: B023
            steps.step(tokens.tolist())
            staying = [index for index in range(len(owners)) if index == 0 or self._random.random() < 0.95]
            parents = [index * rows + self._random.randrange(rows) for index in staying for _ in range(rows)]
            owners = [owners[index] for index in staying]
            steps.continue_from(parents, [owner for owner in owners for _ in range(rows)])

    def bytes(self) -> None:
        from dikkat.kernels.int8_products import gradients, pack, packed_product, product

        rows, inputs, outputs, dtype = self.size(), self.size(1), self.size(1), self.dtype()
        x, weight = self.numbers(rows, inputs, dtype=dtype), self.numbers(outputs, inputs, dtype=dtype)
        product(x, weight, torch.randn(outputs).to(dtype) if self.either() else None)
        packed, out = pack(weight), torch.empty(rows, outputs, dtype=dtype)
        packed_product(x, packed, out)
        self.refuses(lambda: packed_product(x, packed, torch.empty(rows, outputs + 64, dtype=dtype)))
        self.refuses(lambda: packed_product(x, packed, torch.empty(rows + 1, outputs, dtype=dtype)))
        gradients(self.numbers(rows, outputs, dtype=dtype), x, weight, with_bias=self.either())

    def orthogonal(self) -> None:
        from dikkat.training import optimizer as newton_schulz

        vars(newton_schulz)["has_fast_int8"] = lambda: True
        newton_schulz.orthogonalize(self.numbers(self.size(1, 3), self.size(1, 130), self.size(1, 130)))

    def rows(self) -> None:
        from dikkat.kernels import adamw, layer_norm, linear

        rows, inputs, outputs = self.size(1), 16 * self.size(1, 5), 16 * self.size(1, 5)
        x, weight, gradient = (torch.randn(size) for size in ((rows, inputs), (outputs, inputs), (rows, outputs)))
        linear.forward(x, weight, torch.randn(outputs) if self.either() else None, relu=self.either())
        linear.backward(gradient, x, weight, gradient if self.either() else None, (True, True, True))
        halves = self.numbers(rows, inputs, dtype=torch.bfloat16).contiguous()
        _, statistics = layer_norm.forward(halves, halves[0], halves[0], 1e-5)
        layer_norm.backward(halves, halves, halves[0], halves[0], statistics, 1e-5, halves)
        entries = 40 * self.size()
        master, first, second, average = (torch.rand(entries) for _ in range(4))
        step = adamw.Step(3, 1e-3, 0.9, 0.98, 0.01, 0.1)
        adamw.adamw(
            adamw.Weights(master, average, master.bfloat16()), first, second, master * 2, torch.tensor(2.0), step
        )
        adamw.norm(master)

    def _engine(self):  # type: ignore[no-untyped-def]
        from dikkat.config import ModelConfig
        from dikkat.models.factory import build_model
        from dikkat_runtime.engine.native import NativeEngine
        from dikkat_runtime.engine.settings import NATIVE, model_settings
        from dikkat_runtime.engine.weights import Weights

        heads = self._random.choice([1, 2, 3])
        config = ModelConfig(
            vocab_size=self._random.choice([5, 23, 64, 130]),
            model_dim=heads * self._random.choice([1, 5, 16, 20, 33]),
            num_heads=heads,
            head_dim=self._random.choice([1, 6, 16, 40]),
            feed_forward_dim=self._random.choice([1, 15, 32, 70]),
            encoder_layers=self._random.choice([1, 2]),
            decoder_layers=self._random.choice([1, 2]),
            norm_placement=self._random.choice(["pre", "post"]),
            activation=self._random.choice(["relu", "gelu", "silu"]),
            attention_bias=self.either(),
        )
        model = build_model(config, seed=self._random.getrandbits(30))
        arrays = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
        settings = model_settings({"model": config.model_dump()}, "here", NATIVE)
        weights = Weights(arrays, "here", in_bytes=self.either(), threads=1 + self.either())
        return NativeEngine(settings, weights, shortlist=self._shortlist(config.vocab_size)), config.vocab_size

    def _shortlist(self, size: int):  # type: ignore[no-untyped-def]
        from dikkat_runtime.engine.shortlist import Shortlist
        from dikkat_runtime.special_tokens import EOS_ID

        if self.either():
            return None
        counts = [self._random.choice([0, 1, 7]) for _ in range(size)]
        words = [self._random.randrange(EOS_ID, size) for _ in range(sum(counts))]
        starts = np.cumsum([0, *counts]).astype(np.int32)
        return Shortlist(np.array([EOS_ID], np.int32), starts, np.array(words, np.int32))


def main(path: str, count: int, seed: int) -> None:
    from dikkat.kernels import library
    from dikkat_runtime.native import library as kernels

    loaded = ctypes.CDLL(path)
    library._load = lambda: (loaded, "")  # type: ignore[assignment]
    # another object of the same library, since it has types of arguments
    vars(kernels)["_loaded"] = lambda _: ctypes.CDLL(path)
    vars(kernels)["_compiled"] = lambda _: ctypes.CDLL(path)
    calls = Calls(seed)
    names = [name for name in vars(Calls) if not name.startswith("_") and name not in HELPERS]
    for number in range(count):
        torch.set_num_threads(1 + number % 2)
        name = names[number % len(names)]
        # the last line says which one it was
        print(number, name, flush=True)
        getattr(calls, name)()
    print("done", len(names), flush=True)


HELPERS = ("size", "either", "dtype", "numbers", "indices", "spoiled", "refuses")

if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
