"""The language model: the start of a text in, its continuation out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch

from dikkat.config import RunConfig
from dikkat.decoding.generation import Generation
from dikkat.models import language_model
from dikkat.models.factory import build_language_model
from dikkat.run_directory import RunDirectory
from dikkat.tasks.common.settings import run_config
from dikkat.tasks.common.weights import build_checked, load_weights
from dikkat.text.foreign_tokenizer import AnyTokenizer, load_tokenizer
from dikkat_runtime.engine.options import GenerationOptions
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.text.text_stream import TextStream
from dikkat_runtime.text.tokenizer import Tokenizer

TASK = "lm"
"""Of config.json."""
OPTIONS = GenerationOptions()


@dataclass(frozen=True, slots=True)
class Continuation:
    """What a model wrote after a prompt."""

    text: str
    """Without the prompt."""
    num_tokens: int
    """Tokens written, an end mark not counted."""
    ended: Literal["end", "stop", "length"]
    """By the model's own end mark, a stop string, or the most tokens that were asked for."""


@dataclass(slots=True)
class _Row:
    """One continuation as it grows."""

    number: int
    stream: TextStream
    text: str = ""
    num_tokens: int = 0
    ended: Literal["end", "stop", "length"] | None = None

    def feed(self, token: int, eos_id: int | None, most: int) -> str:
        """What one more token makes sure of, the rest of the text if it is the last."""
        text = ""
        if token == eos_id:
            self.ended = "end"
        else:
            self.num_tokens += 1
            text = self.stream.feed(token)
            self.ended = "stop" if self.stream.stopped else "length" if self.num_tokens == most else None
        if self.ended is not None:
            text += self.stream.end()
            # the held-back rest may be what completes a stop string
            self.ended = "stop" if self.stream.stopped else self.ended
        self.text += text
        return text


class LanguageModel:
    """A trained language model with its tokenizer."""

    def __init__(self, model: language_model.LanguageModel, tokenizer: AnyTokenizer, config: RunConfig) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.config = config

    @classmethod
    def load(cls, path: str | Path) -> LanguageModel:
        """The language model of a run directory, trained or imported, in float32.

        Raises `UsageError` for a model of another kind, and `MissingInputError` or `DataError` naming the file that is
        missing or damaged.
        """
        run = RunDirectory.open(Path(path))
        settings = run.read_config()
        if settings.get("task") != TASK:
            raise UsageError(f'{path}: holds a "{settings.get("task")}", not a language model')
        config = run_config(settings, str(run.config))
        build = partial(build_language_model, config.model, config.language_model.objective, 0)
        model = build_checked(run, config.model, build)
        load_weights(model, run)
        return cls(model, load_tokenizer(run.tokenizer, config.model.vocab_size), config)

    @property
    def context(self) -> int:
        """Most tokens that the model saw at once in training."""
        return self.config.language_model.context

    def generate(
        self,
        prompts: Sequence[str],
        *,
        samples: int = 1,
        options: GenerationOptions = OPTIONS,
        stop: Sequence[str] = (),
    ) -> list[list[Continuation]]:
        """`samples` continuations of each prompt; an empty prompt begins a new text.

        Neighbours change nothing: sample i of a prompt is the same alone and among others. Raises `DataError` for a
        prompt longer than the context, `UsageError` for `samples` below 1 and for a model that fills in instead of
        writing on.
        """
        if samples < 1:
            raise UsageError(f"samples must be at least 1, not {samples}")
        ids = [self.encode(prompt, options) for prompt in prompts]
        found: list[list[Continuation]] = [[] for _ in prompts]
        # prompts of one length go side by side, so that nothing is padded
        for length in sorted({len(each) for each in ids}):
            places = [place for place, each in enumerate(ids) if len(each) == length]
            rows = [
                _Row(number, TextStream(self.tokenizer, ids[place], stop))
                for place in places
                for number in range(samples)
            ]
            for _ in self._write(rows, [ids[place] for place in places for _ in range(samples)], options):
                pass
            for row, place in zip(rows, [place for place in places for _ in range(samples)], strict=True):
                found[place].append(Continuation(row.text, row.num_tokens, row.ended or "length"))
        return found

    def stream(
        self, prompt: str = "", *, options: GenerationOptions = OPTIONS, stop: Sequence[str] = ()
    ) -> Iterator[str]:
        """The first continuation of `generate`, in pieces of whole characters, each as soon as it is sure."""
        ids = self.encode(prompt, options)
        row = _Row(0, TextStream(self.tokenizer, ids, stop))
        return (piece for piece in self._write([row], [ids], options) if piece)

    def encode(self, prompt: str, options: GenerationOptions = OPTIONS) -> list[int]:
        """Ids of a prompt, those that begin a text for an empty one. Raises as `generate`."""
        if self.model.objective == "masked":
            raise UsageError("this model was trained to fill in hidden tokens (objective masked); it cannot write on")
        ids = self.read(prompt, options.context)
        if ids:
            return ids
        if self.tokenizer.bos_id is None:
            raise DataError("the prompt is empty, but this model has no mark to begin a text with; give a few words")
        return [self.tokenizer.bos_id]

    def read(self, text: str, context: int | None = None) -> list[int]:
        """Ids of a text; raises `DataError` for more than the `context`, left out that of training."""
        ids = self.tokenizer.encode(text)
        longest = context or self.context
        if len(ids) > longest:
            raise DataError(
                f"the prompt has {len(ids):,} tokens, but the model sees at most {longest:,} (its context);"
                " give only the end of it"
            )
        return ids

    def unknown(self, text: str) -> list[str]:
        """What of `text` the model has no token for, each once; it reads `<unk>` in its place."""
        return self.tokenizer.unknown(text) if isinstance(self.tokenizer, Tokenizer) else []

    def _write(self, rows: list[_Row], prompts: list[list[int]], options: GenerationOptions) -> Iterator[str]:
        """Let the rows grow to their ends; yields what each token made sure of, row by row."""
        generation = Generation(
            self.model,
            torch.tensor(prompts, device=self.model.output_weight.device),
            options.context or self.context,
            options,
            forbidden=self._forbidden(),
            numbers=[row.number for row in rows],
        )
        while rows:
            tokens = generation.step()
            for row, token in zip(rows, tokens, strict=True):
                yield row.feed(token, self.tokenizer.eos_id, options.max_tokens)
            going = [place for place, row in enumerate(rows) if row.ended is None]
            if len(going) < len(rows):
                rows = [rows[place] for place in going]
                if rows:
                    generation.keep(going)

    def _forbidden(self) -> list[int]:
        tokenizer = self.tokenizer
        # of a foreign vocabulary every entry may be text
        return [tokenizer.pad_id, tokenizer.bos_id, tokenizer.unk_id] if isinstance(tokenizer, Tokenizer) else []
