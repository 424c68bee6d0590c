"""The language model: a text is written on, token by token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dikkat_runtime.engine.options import GenerationOptions
from dikkat_runtime.engine.repetition import completing_tokens, penalize
from dikkat_runtime.engine.run_directory import read_config, section
from dikkat_runtime.engine.sampling import draw
from dikkat_runtime.engine.stack import KeyValueCache, Stack, causal_mask
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.native.arrays import Array
from dikkat_runtime.special_tokens import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from dikkat_runtime.tasks.loading import load_stack_weights, load_tokenizer
from dikkat_runtime.text.text_stream import TextStream
from dikkat_runtime.text.tokenizer import Tokenizer

OPTIONS = GenerationOptions()
SamplingOptions = GenerationOptions
"""What a language model is asked for."""


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

    def stream(self, prompt: str = "", options: GenerationOptions = OPTIONS) -> Iterator[str]:
        """What the model writes after `prompt`, in pieces of whole characters, each as soon as it is sure.

        Raises `DataError` for a prompt longer than the context.
        """
        ids = self.tokenizer.encode_batch([prompt])[0] or [BOS_ID]
        context = options.context or self.context
        if len(ids) > context:
            raise DataError(
                f"the prompt has {len(ids):,} tokens, but the model sees at most {context:,} (its context);"
                " give only the end of it"
            )
        return self._pieces(ids, options)

    def _pieces(self, ids: list[int], options: GenerationOptions) -> Iterator[str]:
        stream = TextStream(self.tokenizer, ids)
        for token in self._tokens(ids, options):
            if piece := stream.feed(token):
                yield piece
        if rest := stream.end():
            yield rest

    def _tokens(self, ids: list[int], options: GenerationOptions) -> Iterator[int]:
        """Tokens up to the end mark; when the context is full, the older half is forgotten and the newer read anew."""
        context = options.context or self.context
        random, cache = np.random.default_rng((options.seed, 0)), KeyValueCache()
        in_sight, unread = list(ids), list(ids)
        for _ in range(options.max_tokens):
            if cache.length + len(unread) > context:
                in_sight = unread = in_sight[-(context // 2) :]
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


def _chosen(logits: Array, in_sight: list[int], options: GenerationOptions, random: np.random.Generator) -> int:
    """One token, drawn as the options say; padding, begin mark and unknown are never written."""
    if options.repetition_penalty != 1.0:
        penalize(logits, in_sight, options.repetition_penalty)
    if size := options.no_repeat_ngram:
        logits[completing_tokens(in_sight, size)] = -np.inf
    logits[[PAD_ID, BOS_ID, UNK_ID]] = -np.inf
    return draw(logits, options, np.float32(random.random(dtype=np.float32)))
