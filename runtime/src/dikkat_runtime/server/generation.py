"""Generate the text of a language model for one request: until a stop string, the end mark or the token limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.streams import Piece
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
