"""The language model: a text is written on, token by token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dikkat_runtime.engine.activations import softmax
from dikkat_runtime.engine.stack import KeyValueCache, Stack, causal_mask
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.run_directory import read_config, section
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from dikkat_runtime.tasks.loading import load_stack_weights, load_tokenizer
from dikkat_runtime.text.text_stream import TextStream
from dikkat_runtime.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """How the next token is drawn: temperature, then top-k, then top-p, then min-p. Raises `UsageError`."""

    max_tokens: int = 200
    temperature: float = 0.8
    """Logits are divided by this; 0 takes the most probable token."""
    top_k: int = 0
    """Draw among this many likeliest tokens; 0 keeps all."""
    top_p: float = 1.0
    """Draw among the fewest likeliest tokens that hold this share."""
    min_p: float = 0.0
    """Draw among tokens with at least this share of the likeliest one's probability."""
    repetition_penalty: float = 1.0
    """Positive logits of tokens in sight are divided by this, negative ones multiplied (Keskar et al. 2019, 4.1)."""
    seed: int = 1

    def __post_init__(self) -> None:
        for name, holds, limit in (
            ("max_tokens", self.max_tokens >= 1, "at least 1"),
            ("temperature", 0 <= self.temperature < float("inf"), "a finite number of at least 0"),
            ("top_k", self.top_k >= 0, "at least 0"),
            ("top_p", 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("min_p", 0 <= self.min_p <= 1, "between 0 and 1"),
            ("repetition_penalty", 0 < self.repetition_penalty < float("inf"), "a finite number above 0"),
            ("seed", self.seed >= 0, "at least 0"),
        ):
            if not holds:
                raise UsageError(f"{name} must be {limit}, not {getattr(self, name)}")


class Generator:
    """A trained language model with its tokenizer."""

    def __init__(self, stack: Stack, output: Array, tokenizer: Tokenizer, context: int) -> None:
        """`output` is (V, D); `context` is how many tokens the model saw at once in training."""
        self.stack, self.output, self.tokenizer, self.context = stack, output, tokenizer, context

    @classmethod
    def load(cls, path: str | Path) -> Generator:
        """The language model of a run directory, in float32.

        Raises `MissingInputError` or `DataError` naming the file that is missing or damaged, and `UsageError` for a
        model of another kind, one that fills in instead of writing on, or a setting that needs PyTorch.
        """
        run = Path(path)
        config = read_config(run, "lm")
        around = section(config, "language_model", run)
        if (objective := around.get("objective", "causal")) != "causal":
            raise UsageError(f"{run}: this runtime writes with causal language models, not with objective {objective}")
        settings, weights = load_stack_weights(run, config)
        embedding = "output_weight" if settings.tie_embeddings else "embedding.weight"
        stack = Stack(weights, settings, "decoder", settings.decoder_layers, embedding)
        output = weights.array("output_weight", settings.vocab_size, settings.model_dim)
        weights.check_all_used()
        context = around.get("context", 256)
        if type(context) is not int or context < 2:
            raise DataError(f"{run / 'config.json'}: damaged: language_model.context is {context!r}; restore the file")
        return cls(stack, output, load_tokenizer(run, config, settings.vocab_size), context)

    def stream(self, prompt: str = "", options: SamplingOptions = SamplingOptions()) -> Iterator[str]:
        """What the model writes after `prompt`, in pieces of whole characters, each as soon as it is sure.

        Raises `DataError` for a prompt longer than the context.
        """
        ids = self.tokenizer.encode_batch([prompt])[0] or [BOS_ID]
        if len(ids) > self.context:
            raise DataError(
                f"the prompt has {len(ids):,} tokens, but the model sees at most {self.context:,} (its context);"
                " give only the end of it"
            )
        return self._pieces(ids, options)

    def _pieces(self, ids: list[int], options: SamplingOptions) -> Iterator[str]:
        stream = TextStream(self.tokenizer, ids)
        for token in self._tokens(ids, options):
            if piece := stream.feed(token):
                yield piece
        if rest := stream.end():
            yield rest

    def _tokens(self, ids: list[int], options: SamplingOptions) -> Iterator[int]:
        """Tokens up to the end mark; when the context is full, the older half is forgotten and the newer read anew."""
        random, cache = np.random.default_rng((options.seed, 0)), KeyValueCache()
        in_sight, unread = list(ids), list(ids)
        for _ in range(options.max_tokens):
            if cache.length + len(unread) > self.context:
                in_sight = unread = in_sight[-(self.context // 2) :]
                cache = KeyValueCache()
            token = _chosen(self._logits(unread, cache), in_sight, options, random)
            if token == EOS_ID:
                return
            yield token
            unread = [token]
            in_sight = [*in_sight, token]

    def _logits(self, tokens: list[int], cache: KeyValueCache) -> Array:
        """(V,): of the token that follows."""
        mask = causal_mask(len(tokens), cache.length + len(tokens))
        states = self.stack(np.array([tokens]), mask, cache)
        return np.asarray(self.output @ states[0, -1])


def _chosen(logits: Array, in_sight: list[int], options: SamplingOptions, random: np.random.Generator) -> int:
    """One token, drawn as the options say; padding, begin mark and unknown are never written."""
    if options.repetition_penalty != 1.0:
        seen = np.unique(in_sight)
        penalty = np.float32(options.repetition_penalty)
        logits[seen] = np.where(logits[seen] > 0, logits[seen] / penalty, logits[seen] * penalty)
    logits[[PAD_ID, BOS_ID, UNK_ID]] = -np.inf
    if options.temperature == 0:
        return int(logits.argmax())
    # falling, the lowest id first among equals
    order = np.arange(len(logits))
    if options.top_k or options.top_p < 1:
        order = np.argsort(-logits, kind="stable")[: options.top_k or len(logits)]
    # the largest becomes 0 before the division, so that no temperature overflows
    shares = softmax((logits[order] - logits.max()) / np.float32(max(options.temperature, 1e-30)))
    if options.top_p < 1:
        # a token stays while those before it hold less than the share wanted
        shares = np.where(shares.cumsum() - shares >= options.top_p, 0, shares)
    shares = np.where(shares < options.min_p * shares.max(), 0, shares)
    ends = shares.cumsum()
    at = min(np.float32(random.random(dtype=np.float32)) * ends[-1], np.nextafter(ends[-1], np.float32(0)))
    return int(order[np.searchsorted(ends, at, side="right")])
