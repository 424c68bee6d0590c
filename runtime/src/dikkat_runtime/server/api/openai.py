"""The interface of OpenAI: the list of models, embeddings, and texts that are written."""

import base64
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from dikkat_runtime.server.api.tei import cut_vectors, embedding_model, input_texts
from dikkat_runtime.server.call import Call
from dikkat_runtime.server.dialects import OPENAI, json_response
from dikkat_runtime.server.endpoint import GET, POST, Endpoint, as_request_error
from dikkat_runtime.server.models import ServedModel
from dikkat_runtime.server.request_error import RequestError
from dikkat_runtime.server.schemas import FLAG, NUMBER, TEXT, TEXTS, WHOLE, either, fields, list_of, required, words
from dikkat_runtime.server.segment_queue import Finish, Piece
from dikkat_runtime.server.writing import Written, begin, read_writing
from dikkat_runtime.tasks.generator import Prompt

EVENTS = "text/event-stream"
_NO_NAME = ("dummy", "tgi")
"""Names that huggingface_hub sends where its caller named no model."""
_ONE = ("n", "best_of")
_NONE = ("tools", "functions", "logprobs", "top_logprobs", "suffix", "logit_bias", "audio")
_MAX_PROMPTS = 16
_DEFAULT_TOKENS = {"chat": 256, "text": 16}

Choice = Callable[[int, str, Finish | None], dict[str, Any]]


class _Events(StreamingResponse):
    """Events that stop the generation when their reader leaves, even if none was ever read."""

    def __init__(self, events: AsyncIterator[str], written: Sequence[Written]) -> None:
        super().__init__(events, media_type=EVENTS, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self._written = written

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            for text in self._written:
                text.cancel()


async def chat(call: Call) -> Response:
    """Continue the messages with a language model, or translate the last one of the user."""
    model = _model(call)
    prompt = _chat_prompt(call, model)
    name = "max_completion_tokens" if "max_completion_tokens" in call.fields else "max_tokens"
    options, stop = read_writing(call, call.fields, name, _DEFAULT_TOKENS["chat"])
    written = [await begin(call, model, prompt, options, stop)]
    if call.fields.flag("stream", False):
        return _stream(call, model, written, "chatcmpl", "chat.completion.chunk", _chat_delta)
    return await _whole(model, written, "chatcmpl", "chat.completion", _chat_choice)


async def completions(call: Call) -> Response:
    """Continue each prompt with a language model, or translate it."""
    model = _model(call)
    prompts = call.fields.texts("prompt") if "prompt" in call.fields else [""]
    if len(prompts) > _MAX_PROMPTS:
        raise RequestError("invalid", f"prompt must be at most {_MAX_PROMPTS} texts", param="prompt")
    options, stop = read_writing(call, call.fields, "max_tokens", _DEFAULT_TOKENS["text"])
    call.count_characters(prompts)
    written = list[Written]()
    try:
        for prompt in prompts:
            written.append(await begin(call, model, prompt, options, stop))
    except RequestError:
        for started in written:
            started.cancel()
        raise
    if call.fields.flag("stream", False):
        return _stream(call, model, written, "cmpl", "text_completion", _text_choice)
    echoed = prompts if call.fields.flag("echo", False) else [""] * len(prompts)
    choice: Choice = lambda index, text, finish: _text_choice(index, echoed[index] + text, finish)  # noqa: E731
    return await _whole(model, written, "cmpl", "text_completion", choice)


def _model(call: Call) -> ServedModel:
    """Return the requested model. Raises `RequestError` for options that it lacks."""
    fields = call.fields
    name = fields.text("model")
    for field in _ONE:
        fields.whole(field, 1, 1, 1)
    for field in _NONE:
        if fields.raw(field):
            raise RequestError("invalid", f"{field} is not supported here", param=field)
    if fields.section("response_format").choice("type", "text", ("text",)) != "text":
        raise RequestError("invalid", "response_format must be text", param="response_format")
    if name in _NO_NAME and all(model.name != name for model in call.catalog.models):
        return call.catalog.chosen(None, "lm" if call.catalog.of_kind("lm") else "translator")
    return call.catalog.named(name)


def _chat_prompt(call: Call, model: ServedModel) -> Prompt:
    """Return the messages, line by line where a model has no chat template; for a translator the last of the user."""
    messages = call.fields.raw("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(entry, dict) for entry in messages):
        raise call.fields.wrong("messages", "must be a list of messages")
    texts = [(str(message.get("role")), _content(call, message.get("content"))) for message in messages]
    if model.kind == "translator":
        own = [text for role, text in texts if role == "user"]
        if not own:
            raise call.fields.wrong("messages", "must hold a message of the user")
        prompts = own[-1:]
    else:
        prompts = ["\n".join(text for _, text in texts)]
    call.fields.within_limits("messages", prompts)
    call.count_characters(prompts)
    if model.kind == "lm" and model.model.chat:
        return [("system" if role == "developer" else role, text) for role, text in texts]
    return prompts[0]


def _content(call: Call, content: Any) -> str:
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
    if not isinstance(parts, list):
        raise call.fields.wrong("messages", "must have content that is a text or a list of parts")
    texts = [part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise call.fields.wrong("messages", "must have content of text only")
    return "".join(texts)  # type: ignore[arg-type]


async def _whole(model: ServedModel, written: Sequence[Written], prefix: str, kind: str, choice: Choice) -> Response:
    choices, tokens = [], 0
    try:
        for index, text in enumerate(written):
            piece = await text.whole()
            choices.append(choice(index, piece.text, piece.finish))
            tokens += piece.tokens
    finally:
        for text in written:
            text.cancel()
    return json_response(_head(model, prefix, kind) | {"choices": choices, "usage": _usage(written, tokens)})


def _stream(
    call: Call, model: ServedModel, written: Sequence[Written], prefix: str, kind: str, choice: Choice
) -> Response:
    head = _head(model, prefix, kind)
    with_usage = call.fields.section("stream_options").flag("include_usage", False)

    async def events() -> AsyncIterator[str]:
        tokens = 0
        try:
            for index, text in enumerate(written):
                if kind == "chat.completion.chunk":
                    start = {"role": "assistant", "content": ""}
                    row = {"index": index, "delta": start, "logprobs": None, "finish_reason": None}
                    yield _event(head | {"choices": [row]})
                async for piece in text.pieces(watch=False):
                    tokens += piece.tokens
                    for row in _choices(choice, index, piece):
                        yield _event(head | {"choices": [row]})
            if with_usage:
                yield _event(head | {"choices": [], "usage": _usage(written, tokens)})
        except Exception as error:
            problem = as_request_error(error)
            yield _event(OPENAI.shape(problem, OPENAI.status(problem)))
        yield "data: [DONE]\n\n"

    return _Events(events(), written)


def _choices(choice: Choice, index: int, piece: Piece) -> list[dict[str, Any]]:
    """Return the text of a piece, and after the last one why it ended."""
    rows = [choice(index, piece.text, None)] if piece.text else []
    return [*rows, choice(index, "", piece.finish)] if piece.finish else rows


def _chat_delta(index: int, text: str, finish: Finish | None) -> dict[str, Any]:
    return {"index": index, "delta": {"content": text} if text else {}, "logprobs": None, "finish_reason": finish}


def _chat_choice(index: int, text: str, finish: Finish | None) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "refusal": None}
    return {"index": index, "message": message, "logprobs": None, "finish_reason": finish}


def _text_choice(index: int, text: str, finish: Finish | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish}


def _head(model: ServedModel, prefix: str, kind: str) -> dict[str, Any]:
    identity = f"{prefix}-{secrets.token_hex(12)}"
    return {"id": identity, "object": kind, "created": int(time.time()), "model": model.name}


def _usage(written: Sequence[Written], tokens: int) -> dict[str, int]:
    prompt = sum(text.prompt_tokens for text in written)
    return {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}


def _event(content: object) -> str:
    return f"data: {json.dumps(content, ensure_ascii=False)}\n\n"


_COMMON = {"max_tokens": WHOLE, "temperature": NUMBER, "top_p": NUMBER, "seed": WHOLE, "stop": TEXTS, "stream": FLAG}
_PART = required(type=TEXT, text=TEXT)
_MESSAGE = required(role=TEXT, content=either(TEXT, list_of(_PART)))
_MESSAGES = {"type": "array", "items": dict(_MESSAGE), "minItems": 1}
_CHAT = fields({"model": TEXT, "messages": _MESSAGES}, **_COMMON)
_TEXT = fields({"model": TEXT}, prompt=TEXTS, echo=FLAG, **_COMMON)
_ANSWER = required(id=TEXT, object=TEXT, created=WHOLE, model=TEXT, choices=list_of(required(index=WHOLE)))

_TEXT_ENDPOINTS = [
    Endpoint(POST, "/v1/chat/completions", chat, OPENAI, "Answer messages.", _ANSWER, _CHAT, also={200: EVENTS}),
    Endpoint(POST, "/v1/completions", completions, OPENAI, "Go on after a prompt.", _ANSWER, _TEXT, also={200: EVENTS}),
]
"""The routes of texts that are written."""


async def models(call: Call) -> Response:
    return json_response({"object": "list", "data": [_shown(model) for model in call.catalog.models]})


async def model(call: Call) -> Response:
    return json_response(_shown(call.catalog.named(call.request.path_params["model"])))


async def embeddings(call: Call) -> Response:
    """Return a vector of length 1 for each text."""
    fields = call.fields
    served = embedding_model(call, fields.text("model"))
    texts = input_texts(call, "input")
    if not all(text for text in texts):
        raise RequestError("invalid", "input holds an empty text", param="input")
    as_base64 = fields.choice("encoding_format", "float", ("float", "base64")) == "base64"
    vectors = await cut_vectors(call, served, texts, normalize=True)
    shown = [
        base64.b64encode(vector.astype("<f4").data).decode() if as_base64 else vector.tolist() for vector in vectors
    ]
    rows = [{"object": "embedding", "index": index, "embedding": vector} for index, vector in enumerate(shown)]
    tokens = sum(served.count_tokens(texts))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return json_response({"object": "list", "data": rows, "model": served.name, "usage": usage})


def _shown(model: ServedModel) -> dict[str, Any]:
    return {"id": model.name, "object": "model", "created": model.created, "owned_by": "dikkat"}


_MODEL = required(id=TEXT, object=TEXT, created=WHOLE, owned_by=TEXT)
_VECTOR = required(object=TEXT, index=WHOLE, embedding=either(TEXT, list_of(NUMBER)))
_VECTORS = required(object=TEXT, data=list_of(_VECTOR), model=TEXT)
_BODY = fields({"input": TEXTS, "model": TEXT}, encoding_format=words("float", "base64"), dimensions=WHOLE)

ENDPOINTS = [
    Endpoint(GET, "/v1/models", models, OPENAI, "List models.", required(data=list_of(_MODEL))),
    Endpoint(GET, "/v1/models/{model}", model, OPENAI, "Show a model.", _MODEL),
    Endpoint(POST, "/v1/embeddings", embeddings, OPENAI, "Turn texts into vectors.", _VECTORS, _BODY),
    *_TEXT_ENDPOINTS,
]
"""The routes of OpenAI."""
