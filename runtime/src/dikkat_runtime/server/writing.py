"""Write text after a prompt: a language model continues it, a translator translates it."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

from dikkat_runtime.server.call import Call
from dikkat_runtime.server.fields import Fields, TextOptions
from dikkat_runtime.server.models import ServedModel
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.segment_queue import AnswerStream, Piece
from dikkat_runtime.server.translation import translate_texts
from dikkat_runtime.special_tokens import BOS_ID
from dikkat_runtime.tasks.generator import Generator, SamplingOptions
from dikkat_runtime.text.text_stream import TextStream


def prompt_ids(generator: Generator, prompt: str) -> list[int]:
    """Return the tokens of a prompt. Raises `RequestError` for one longer than the context of the model."""
    ids = generator.tokenizer.encode_batch([prompt])[0] or [BOS_ID]
    if len(ids) > generator.context:
        raise RequestError(
            "invalid",
            f"the prompt has {len(ids):,} tokens, but the model sees at most {generator.context:,} (its context)",
            param="prompt",
        )
    return ids


def write(generator: Generator, ids: list[int], options: SamplingOptions, stop: Sequence[str]) -> Iterator[Piece]:
    """Yield pieces of text as they become certain; the last one has the reason of the end."""
    stream, written, fresh = TextStream(generator.tokenizer, ids, stop), 0, 0
    for token in generator.tokens(ids, options):
        written, fresh = written + 1, fresh + 1
        text = stream.feed(token)
        if stream.stopped:
            yield Piece(text, fresh, "stop")
            return
        # an empty piece lets the engine serve others
        yield Piece(text, fresh)
        fresh = 0
    text = stream.end()
    yield Piece(text, fresh, "length" if written >= options.max_tokens and not stream.stopped else "stop")


MAX_STOPS = 16
_SEEDS = 1 << 31


@dataclass(frozen=True, slots=True)
class Writing:
    """The options of a generated text."""

    options: SamplingOptions
    stop: tuple[str, ...] = ()


class Written:
    """A text in generation: its pieces come in order, the last one with the reason of the end."""

    def __init__(self, call: Call, stream: AnswerStream | None, ready: Piece | None, prompt_tokens: int) -> None:
        """`stream` yields the pieces, or `ready` is the only piece."""
        self._call, self._stream, self._ready = call, stream, ready
        self.prompt_tokens = prompt_tokens

    async def pieces(self, *, watch: bool) -> AsyncIterator[Piece]:
        """Yield all pieces. Raises `RequestError` when the time is up, and with `watch` `ClientGone`."""
        if self._stream is None:
            assert self._ready is not None
            yield self._ready
            return
        try:
            is_over = False
            while not is_over:
                coming = asyncio.ensure_future(self._stream.next_piece())
                piece: Piece = await self._call.wait_for(coming, watch=watch)
                is_over = piece.finish is not None
                yield piece
        finally:
            self.cancel()

    async def whole(self) -> Piece:
        """Return all pieces together."""
        pieces = [piece async for piece in self.pieces(watch=True)]
        tokens = sum(piece.tokens for piece in pieces)
        return Piece("".join(piece.text for piece in pieces), tokens, pieces[-1].finish)

    def cancel(self) -> None:
        """Stop the generation."""
        if self._stream is not None:
            self._stream.is_cancelled = True


async def begin(call: Call, model: ServedModel, prompt: str, writing: Writing) -> Written:
    """Begin to write after a prompt. Raises `RequestError`."""
    if model.kind == "translator":
        (translated,) = await translate_texts(call, model, [prompt], TextOptions())
        before, after = model.count_tokens([prompt, translated.text])
        return Written(call, None, Piece(translated.text, after - 1, "stop"), before - 1)
    if model.kind != "lm":
        raise RequestError("invalid", f"{model.name} is a {model.kind}, which writes no text", param="model")
    generator = model.model
    ids = prompt_ids(generator, prompt)
    stream = AnswerStream(lambda: write(generator, ids, writing.options, writing.stop), writing.options.max_tokens)
    call.services.engine.write(stream)
    return Written(call, stream, None, len(ids))


def read_writing(call: Call, fields: Fields, most: str, default_tokens: int) -> Writing:
    """Read the options of a generated text, with `most` the field of its token limit. Raises `RequestError`."""
    limit = call.services.settings.limits.new_tokens
    options = SamplingOptions(
        max_tokens=fields.whole(most, default_tokens, 1, limit),
        temperature=fields.number("temperature", 1.0, 0.0, 100.0),
        top_k=fields.whole("top_k", 0, 0, 1 << 24),
        top_p=fields.number("top_p", 1.0, 1e-6, 1.0),
        min_p=fields.number("min_p", 0.0, 0.0, 1.0),
        repetition_penalty=fields.number("repetition_penalty", 1.0, 0.01, 100.0),
        seed=fields.whole("seed", secrets.randbelow(_SEEDS), -(1 << 63), (1 << 64) - 1) % (1 << 63),
    )
    stop = tuple(fields.texts("stop")) if fields.raw("stop") else ()
    if len(stop) > MAX_STOPS or max(map(len, stop), default=0) > 1000:
        raise RequestError("invalid", f"stop must be at most {MAX_STOPS} short texts", param="stop")
    return Writing(options, stop)
