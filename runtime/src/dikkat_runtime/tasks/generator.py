"""The language model: the start of a text in, its continuation out, by any engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import numpy as np

from dikkat_runtime.engine.contract import EngineInfo
from dikkat_runtime.engine.options import GenerationOptions
from dikkat_runtime.engine.precision import PrecisionName
from dikkat_runtime.engine.run_directory import read_config, section
from dikkat_runtime.engine.text_contract import WritingEngine
from dikkat_runtime.errors import DataError, UsageError
from dikkat_runtime.special_tokens import SpecialTokens
from dikkat_runtime.tasks.loading import load_tokenizer
from dikkat_runtime.tasks.opening import open_language_engine
from dikkat_runtime.text.text_stream import TextStream
from dikkat_runtime.text.tokenizer import Tokenizer

OPTIONS = GenerationOptions()
SamplingOptions = GenerationOptions
"""What a language model is asked for."""
Ending = Literal["end", "stop", "length"]
"""By the model's own end mark, a stop string, or the most tokens that were asked for."""


class TextTokenizer(Protocol):
    """What the start and the end of a text need of a vocabulary, our own or a foreign one."""

    def encode(self, text: str) -> list[int]:
        """Ids of `text`."""
        ...

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, in order."""
        ...

    def decode_batch(self, batch: Sequence[Sequence[int]]) -> list[str]:
        """Text of each row of ids, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Continuation:
    """What a model wrote after a prompt."""

    text: str
    """Without the prompt."""
    num_tokens: int
    """Tokens written, an end mark not counted."""
    ended: Ending


@dataclass(slots=True)
class _Row:
    """One continuation as it grows."""

    number: int
    stream: TextStream
    text: str = ""
    num_tokens: int = 0
    ended: Ending | None = None

    def feed(self, token: int, end: int | None, most: int) -> str:
        """What one more token makes sure of, the rest of the text if it is the last."""
        text = ""
        if token == end:
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


class Generator:
    """A trained language model with its tokenizer."""

    def __init__(
        self,
        engine: WritingEngine,
        tokenizer: TextTokenizer,
        context: int,
        *,
        objective: str = "causal",
        special_tokens: SpecialTokens | None = None,
    ) -> None:
        """`context` is how many tokens the model saw at once in training; without `special_tokens` they are our own."""
        self.engine, self.tokenizer = engine, tokenizer
        self.context, self.objective = context, objective
        self.special_tokens = special_tokens or SpecialTokens()

    @classmethod
    def load(cls, path: str | Path, *, precision: PrecisionName = "float32", threads: int | None = None) -> Generator:
        """The language model of a run directory, by the native engine.

        Raises `MissingInputError` or `DataError` naming the file that is missing or damaged, and `UsageError` for a
        model of another kind or a setting that needs PyTorch.
        """
        run = Path(path)
        config = read_config(run, "lm")
        around = section(config, "language_model", run)
        engine = open_language_engine(run, config, precision, threads)
        context = around.get("context", 256)
        if type(context) is not int or context < 2:
            raise DataError(f"{run / 'config.json'}: damaged: language_model.context is {context!r}; restore the file")
        tokenizer = load_tokenizer(run, config, engine.stack.settings.vocab_size)
        return Generator(engine, tokenizer, context, objective=engine.objective)

    @property
    def info(self) -> EngineInfo:
        """What computes, at what precision, with how many threads."""
        return self.engine.info

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
        continuations: list[list[Continuation]] = [[] for _ in prompts]
        # prompts of one length go side by side, so that nothing is padded
        for length in sorted({len(each) for each in ids}):
            indices = [index for index, each in enumerate(ids) if len(each) == length for _ in range(samples)]
            rows = [
                _Row(number % samples, TextStream(self.tokenizer, ids[index], stop))
                for number, index in enumerate(indices)
            ]
            for _ in self._write(rows, [ids[index] for index in indices], options):
                pass
            for row, index in zip(rows, indices, strict=True):
                continuations[index].append(Continuation(row.text, row.num_tokens, row.ended or "length"))
        return continuations

    def stream(
        self, prompt: str = "", options: GenerationOptions = OPTIONS, *, stop: Sequence[str] = ()
    ) -> Iterator[str]:
        """The first continuation of `generate`, in pieces of whole characters, each as soon as it is sure."""
        ids = self.encode(prompt, options)
        row = _Row(0, TextStream(self.tokenizer, ids, stop))
        return (piece for piece in self._write([row], [ids], options) if piece)

    def encode(self, prompt: str, options: GenerationOptions = OPTIONS) -> list[int]:
        """Ids of a prompt, those that begin a text for an empty one. Raises as `generate`."""
        if self.objective == "masked":
            raise UsageError("this model was trained to fill in hidden tokens (objective masked); it cannot write on")
        ids = self.read(prompt, options.context)
        if ids:
            return ids
        if self.special_tokens.begin is None:
            raise DataError("the prompt is empty, but this model has no mark to begin a text with; give a few words")
        return [self.special_tokens.begin]

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
        writer = self.engine.write(
            np.array(prompts),
            options.context or self.context,
            options,
            forbidden=self.special_tokens.never_written,
            numbers=[row.number for row in rows],
        )
        while rows:
            for row, token in zip(rows, writer.step(), strict=True):
                yield row.feed(token, self.special_tokens.end, options.max_tokens)
            going = [index for index, row in enumerate(rows) if row.ended is None]
            if len(going) < len(rows):
                rows = [rows[index] for index in going]
                if rows:
                    writer.keep(going)

    def tokens(self, ids: list[int], options: GenerationOptions) -> Iterator[int]:
        """Tokens after a prompt, up to the end mark or the most that are wanted."""
        context, forbidden = options.context or self.context, self.special_tokens.never_written
        writer = self.engine.write(np.array([ids]), context, options, forbidden=forbidden)
        for _ in range(options.max_tokens):
            (token,) = writer.step()
            if token == self.special_tokens.end:
                return
            yield token
