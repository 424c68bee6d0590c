"""Write text after a prompt: a language model continues it, a translator translates it."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence

from dikkat_runtime.errors import DataError
from dikkat_runtime.server.call import Call
from dikkat_runtime.server.fields import Fields, TextOptions
from dikkat_runtime.server.models import ServedModel
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.segment_queue import AnswerStream, Piece
from dikkat_runtime.server.translation import translate_texts
from dikkat_runtime.tasks.generator import Generator, Prompt, SamplingOptions


def write(generator: Generator, ids: list[int], options: SamplingOptions, stop: Sequence[str]) -> Iterator[Piece]:
    """Yield pieces of text as they become certain; the last one has the reason of the end."""
    for text, ending in generator.pieces(ids, options, stop):
        # an empty piece lets the engine serve others
        yield Piece(text, int(ending != "end"), "stop" if ending == "end" else ending)


MAX_STOPS = 16
_SEEDS = 1 << 31


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
        pieces = [piece async for piece in self.pieces(watch=True)]
        tokens = sum(piece.tokens for piece in pieces)
        return Piece("".join(piece.text for piece in pieces), tokens, pieces[-1].finish)

    def cancel(self) -> None:
        if self._stream is not None:
            self._stream.is_cancelled = True


async def begin(
    call: Call, model: ServedModel, prompt: Prompt, options: SamplingOptions, stop: Sequence[str]
) -> Written:
    """Begin to write after a prompt. Raises `RequestError`."""
    if model.kind == "translator" and isinstance(prompt, str):
        (translated,) = await translate_texts(call, model, [prompt], TextOptions())
        before, after = model.count_tokens([prompt, translated.text])
        return Written(call, None, Piece(translated.text, after - 1, "stop"), before - 1)
    if model.kind != "lm":
        raise RequestError("invalid", f"{model.name} is a {model.kind}, which writes no text", param="model")
    generator = model.model
    try:
        ids = generator.encode(prompt)
    except DataError as error:
        raise RequestError("invalid", str(error), param="prompt" if isinstance(prompt, str) else "messages") from None
    stream = AnswerStream(lambda: write(generator, ids, options, stop), options.max_tokens)
    call.services.engine.write(stream)
    return Written(call, stream, None, len(ids))


def read_writing(call: Call, fields: Fields, most: str, default_tokens: int) -> tuple[SamplingOptions, tuple[str, ...]]:
    """Return options and stop strings of a text, with `most` the field of its token limit. Raises `RequestError`."""
    options = SamplingOptions(
        max_tokens=fields.whole(most, default_tokens, 1, call.services.settings.limits.new_tokens),
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
    return options, stop
