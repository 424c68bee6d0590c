"""Continue the start of a text with a language model, by any engine."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Literal, Self

import numpy as np

from dikkat_runtime.engine.choose import EngineRequest
from dikkat_runtime.engine.contract import WritingEngine
from dikkat_runtime.engine.options import GenerationOptions
from dikkat_runtime.engine.text_writer import TextWriter
from dikkat_runtime.errors import DataError, SettingError, UsageError, msg
from dikkat_runtime.run.config import section
from dikkat_runtime.run.manifest import checked
from dikkat_runtime.run.parts import CONFIG, TOKENIZER
from dikkat_runtime.special_tokens import SpecialTokens
from dikkat_runtime.tasks.opening import OpenedModel, native_language_model, open_engine, vocabulary_sizes
from dikkat_runtime.text.foreign_tokenizer import AnyTokenizer, load_tokenizer, special_tokens_of
from dikkat_runtime.text.text_stream import TextStream
from dikkat_runtime.text.tokenizer import Tokenizer

OPTIONS = GenerationOptions()
SamplingOptions = GenerationOptions
"""The options of a language model."""
Prompt = str | Sequence[tuple[str, str]]
"""A text to continue, or role and content of messages to answer."""
Ending = Literal["end", "stop", "length"]
"""The end of a text: the model's end mark, a stop string, or the limit of tokens."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """The text that a model wrote after a prompt."""

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
        """Return the text that is certain after one more token, and all the rest at the last token."""
        text = ""
        if token == end:
            self.ended = "end"
        else:
            self.num_tokens += 1
            text = self.stream.feed(token)
            self.ended = "stop" if self.stream.stopped else "length" if self.num_tokens == most else None
        if self.ended is not None:
            text += self.stream.end()
            # the rest that was held back may complete a stop string
            self.ended = "stop" if self.stream.stopped else self.ended
        self.text += text
        return text


class Generator(OpenedModel):
    """A trained language model with its tokenizer."""

    kind = "lm"

    def __init__(
        self, engine: WritingEngine, tokenizer: AnyTokenizer, context: int, *, objective: str = "causal",
        special_tokens: SpecialTokens | None = None, chat: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """`context` is the number of tokens that the model read together in training.

        Without `special_tokens` they are our own. `chat` has the texts between messages by their roles, as "user
        assistant", where no role is the beginning, or the answer.
        """
        self.engine: WritingEngine = engine
        self.tokenizer = tokenizer
        self.context, self.objective = context, objective
        self.special_tokens, self.chat = special_tokens or SpecialTokens(), chat or {}

    @classmethod
    def of_request(cls, request: EngineRequest) -> Self:
        """Return the language model that is asked for; raises as `load`."""
        run, config = request.run, request.config
        computing: WritingEngine = open_engine(request, native_language_model)
        head_config = section(config, "language_model", run)
        context, objective = head_config.get("context", 256), str(head_config.get("objective", "causal"))
        if type(context) is not int or context < 2:
            raise DataError(
                "{run}: damaged: language_model.context is {context}; restore the file", run / CONFIG, repr(context)
            )
        # an imported model has none
        data = section(config, "data", run) if "data" in config else {}
        language = str(data.get("source_language") or "")
        tokenizer = load_tokenizer(checked(run, TOKENIZER), vocabulary_sizes(run, config)[0], language)
        chat = section(head_config, "chat", run) if "chat" in head_config else {}
        marks = special_tokens_of(tokenizer, chat)
        generator = cls(computing, tokenizer, context, objective=objective, special_tokens=marks, chat=chat)
        generator.request = request
        return generator

    def generate(
        self, prompts: Sequence[Prompt], *, samples: int = 1, options: GenerationOptions = OPTIONS,
        stop: Sequence[str] = (),
    ) -> list[list[Continuation]]:  # fmt: skip
        """Return `samples` continuations of each prompt; an empty prompt begins a new text.

        Neighbours change nothing: sample i of a prompt is the same alone and among others. Raises `DataError` for a
        prompt longer than the context, `SettingError` for `samples` below 1, and `UsageError` for a masked model, which
        cannot continue a text.
        """
        if samples < 1:
            raise SettingError(msg("{name} must be at least 1, not {limit}", "samples", samples), "samples")
        ids = [self.encode(prompt, options) for prompt in prompts]
        continuations: list[list[Continuation]] = [[] for _ in prompts]
        # prompts of one length go side by side, so that nothing is padded
        for length in sorted({len(prompt_ids) for prompt_ids in ids}):
            indices = [index for index, own in enumerate(ids) if len(own) == length for _ in range(samples)]
            streams = [TextStream(self.tokenizer, ids[index], stop) for index in indices]
            rows = [_Row(number % samples, stream) for number, stream in enumerate(streams)]
            for _ in self._write(rows, [ids[index] for index in indices], options):
                pass
            for row, index in zip(rows, indices, strict=True):
                continuations[index].append(Continuation(row.text, row.num_tokens, row.ended or "length"))
        return continuations

    def stream(
        self, prompt: Prompt = "", options: GenerationOptions = OPTIONS, *, stop: Sequence[str] = ()
    ) -> Iterator[str]:
        """Yield the first continuation of `generate` in pieces of whole characters, each as soon as it is certain."""
        ids = self.encode(prompt, options)
        return (text for text, _ in self.pieces(ids, options, stop) if text)

    def pieces(
        self, ids: list[int], options: GenerationOptions, stop: Sequence[str] = ()
    ) -> Iterator[tuple[str, Ending | None]]:
        """Yield after each token the text that has become certain, and at the last one how the text ends."""
        row = _Row(0, TextStream(self.tokenizer, ids, stop))
        return ((text, row.ended) for text in self._write([row], [ids], options))

    def encode(self, prompt: Prompt, options: GenerationOptions = OPTIONS, *, only_end: bool = False) -> list[int]:
        """Return ids of a prompt, or with `only_end` of its end that the model reads; those that begin a text for "".

        Raises as `generate`.
        """
        if self.objective == "masked":
            raise UsageError(
                "this model was trained to fill in hidden tokens (objective masked); it cannot continue a text"
            )
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else self._conversation(prompt)
        longest = options.context or self.context
        if len(ids) > longest and not only_end:
            raise DataError(
                "the prompt has {count:,} tokens, but the model sees at most {longest:,} (its context); give only the "
                "end of it"
            ).fill(len(ids), longest)
        if ids:
            return ids[-longest:]
        if self.special_tokens.begin is None:
            raise DataError("the prompt is empty, but this model has no token to begin a text with; give a few words")
        return [self.special_tokens.begin]

    def _conversation(self, messages: Sequence[tuple[str, str]]) -> list[int]:
        """Return ids of messages and the beginning of an answer."""
        roles, contents = zip(*messages, strict=True)
        pairs = [" ".join(pair) for pair in pairwise(("", *roles, ""))]
        if isinstance(self.tokenizer, Tokenizer) or not self.chat.keys() >= set(pairs):
            raise DataError("this model has no chat template for messages of {roles}", ", ".join(roles))
        parts = [(self.chat[pair], content) for pair, content in zip(pairs, (*contents, ""), strict=True)]
        return self.tokenizer.encode_marked(list(chain.from_iterable(parts)))

    def unknown(self, text: str) -> list[str]:
        """Return the pieces of `text` without a token, each once; the model reads `<unk>` instead."""
        return self.tokenizer.unknown(text) if isinstance(self.tokenizer, Tokenizer) else []

    def _write(self, rows: list[_Row], prompts: list[list[int]], options: GenerationOptions) -> Iterator[str]:
        """Continue the rows to their ends; yield the certain text after each token, row by row."""
        context, never = options.context or self.context, self.special_tokens.never_written
        writer = TextWriter(self.engine, np.array(prompts), context, options, never, [row.number for row in rows])
        while rows:
            for row, token in zip(rows, writer.step(), strict=True):
                yield row.feed(token, self.special_tokens.end, options.max_tokens)
            going = [index for index, row in enumerate(rows) if row.ended is None]
            if 0 < len(going) < len(rows):
                writer.keep(going)
            rows = [rows[index] for index in going]
