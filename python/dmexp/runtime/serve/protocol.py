"""OpenAI's requests and answers, as far as one model at a time can honour them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from secrets import token_hex
from typing import Any, Literal

from ..generate import Options, Result
from ..sampling import Sampling
from .arguments import Body, mistyped
from .errors import RequestError

Kind = Literal["completion", "chat"]

DEFAULT_MAX_TOKENS = 256
MOST_TOKENS = 1 << 24
MOST_MESSAGES = 1000
MOST_STOPS = 16
LONGEST_STOP = 1000

_COMMON = {
    "max_tokens",
    "model",
    "seed",
    "stop",
    "stream",
    "stream_options",
    "temperature",
    "top_k",
    "top_p",
}
_KNOWN: dict[Kind, frozenset[str]] = {
    "completion": frozenset(_COMMON | {"prompt"}),
    "chat": frozenset(_COMMON | {"messages", "max_completion_tokens"}),
}
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "audio": (),
    "best_of": (1,),
    "echo": (False,),
    "frequency_penalty": (0, 0.0),
    "function_call": ("none",),
    "functions": ([],),
    "logit_bias": ({},),
    "logprobs": (False,),
    "modalities": (["text"],),
    "n": (1,),
    "parallel_tool_calls": (True, False),
    "prediction": (),
    "presence_penalty": (0, 0.0),
    "reasoning_effort": ("none",),
    "response_format": ({"type": "text"},),
    "suffix": ("",),
    "tool_choice": ("none", "auto"),
    "tools": ([],),
    "top_logprobs": (0,),
    "verbosity": (),
    "web_search_options": (),
}
"""Arguments of OpenAI's that this server does not have, and the values that ask for nothing."""

_ROLES = {"assistant": "assistant", "developer": "system", "system": "system", "user": "user"}


@dataclass(frozen=True, slots=True)
class Request:
    """A completion or chat request, checked."""

    kind: Kind
    prompt: str | list[int]
    """Text or token ids; empty for a chat."""
    messages: list[dict[str, str]]
    """Empty for a completion."""
    options: Options
    stream: bool
    include_usage: bool


def read_request(kind: Kind, data: bytes, models: frozenset[str]) -> Request:
    """Check a body.

    Raises
    ------
    RequestError
        400 naming the argument, or 404 for a model that is not served here.
    """
    body = Body(data)
    body.allow(_KNOWN[kind], _NEUTRAL)
    require_model(body.get("model"), models)
    sampling = Sampling(
        temperature=body.number("temperature", 0.8, 0, 100),
        top_p=body.number("top_p", 1.0, 1e-9, 1),
        top_k=body.integer("top_k", 0, MOST_TOKENS) or 0,
        seed=_seed(body),
    )
    limit = body.integer("max_completion_tokens", 1, MOST_TOKENS)
    limit = limit or body.integer("max_tokens", 1, MOST_TOKENS) or DEFAULT_MAX_TOKENS
    stop = body.strings("stop", most=MOST_STOPS, longest=LONGEST_STOP)
    stream = body.flag("stream")
    extras = body.table("stream_options")
    if extras and not stream:
        raise RequestError(400, "'stream_options' needs 'stream': true.", param="stream_options")
    usage = extras.get("include_usage")
    if usage not in (None, True, False):
        raise mistyped("stream_options.include_usage", usage, "true or false")
    return Request(
        kind,
        _prompt(body) if kind == "completion" else "",
        _messages(body) if kind == "chat" else [],
        Options(limit, sampling, stop),
        stream,
        bool(usage),
    )


def require_model(name: Any, models: frozenset[str]) -> None:
    """A request may leave the model out, since there is one; another name is a mistake."""
    if name is None:
        return
    if not isinstance(name, str):
        raise mistyped("model", name, "a string")
    if name not in models:
        raise RequestError(
            404,
            f"the model '{name}' is not served here; this server has "
            f"{' and '.join(repr(known) for known in sorted(models))}.",
            param="model",
            code="model_not_found",
        )


def _seed(body: Body) -> int | None:
    seed = body.integer("seed", -(2**63), 2**64 - 1)
    return None if seed is None else seed % 2**64


def _prompt(body: Body) -> str | list[int]:
    value = body.require("prompt")
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str | list):
        value = value[0]
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(type(item) is int for item in value):
        return value
    if isinstance(value, list) and any(isinstance(item, str | list) for item in value):
        raise RequestError(
            400,
            f"'prompt' holds {len(value)} prompts; this server takes one a request.",
            param="prompt",
            code="unsupported_value",
        )
    raise mistyped("prompt", value, "a string or an array of token ids")


def _messages(body: Body) -> list[dict[str, str]]:
    value = body.require("messages")
    if not isinstance(value, list):
        raise mistyped("messages", value, "an array")
    if not 0 < len(value) <= MOST_MESSAGES:
        raise RequestError(
            400,
            f"'messages' has {len(value)} entries, expected 1 to {MOST_MESSAGES}.",
            param="messages",
            code="invalid_value",
        )
    return [_message(f"messages[{index}]", item) for index, item in enumerate(value)]


def _message(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise mistyped(name, value, "an object")
    role = value.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise RequestError(
            400,
            f"'{name}.role' is {role!r}, expected one of {', '.join(sorted(_ROLES))}.",
            param=f"{name}.role",
            code="invalid_value",
        )
    for key in ("tool_calls", "function_call", "audio"):
        if value.get(key):
            raise RequestError(
                400,
                f"'{name}.{key}' is not supported by this server.",
                param=f"{name}.{key}",
                code="unsupported_parameter",
            )
    return {"role": _ROLES[role], "content": _content(f"{name}.content", value.get("content"))}


def _content(name: str, value: Any) -> str:
    """Text, or the parts of one."""
    if isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise mistyped(name, value, "a string or an array of text parts")
    texts = []
    for index, part in enumerate(value):
        text = part.get("text") if isinstance(part, dict) and part.get("type") == "text" else None
        if not isinstance(text, str):
            raise RequestError(
                400,
                f"'{name}[{index}]' is no text part, and this server's models read text only.",
                param=f"{name}[{index}]",
                code="unsupported_value",
            )
        texts.append(text)
    return "".join(texts)


class Answer:
    """Builds the documents of one answer: whole, or as chunks of a stream."""

    def __init__(self, request: Request, model: str) -> None:
        self._chat = request.kind == "chat"
        self._stream = request.stream
        self._usage = request.include_usage
        what = "chat.completion" if self._chat else "text_completion"
        self._head = {
            "id": f"{'chatcmpl' if self._chat else 'cmpl'}-{token_hex(12)}",
            "object": f"{what}.chunk" if self._chat and self._stream else what,
            "created": int(time.time()),
            "model": model,
        }

    def whole(self, result: Result) -> dict[str, Any]:
        """The document that is not streamed."""
        choice = self._choice(result.finish_reason)
        if self._chat:
            choice["message"] = {"role": "assistant", "content": result.text, "refusal": None}
        else:
            choice["text"] = result.text
        return {**self._head, "choices": [choice], "usage": usage(result)}

    def first(self) -> dict[str, Any] | None:
        """The chunk before any text: a chat names the speaker."""
        return self._chunk({"role": "assistant", "content": ""}) if self._chat else None

    def piece(self, text: str) -> dict[str, Any]:
        """A chunk of text."""
        return self._chunk({"content": text} if self._chat else text)

    def last(self, result: Result) -> list[dict[str, Any]]:
        """The chunks after the text: why it ended and, where asked for, what it took."""
        chunks = [self._chunk({} if self._chat else "", result.finish_reason)]
        if self._usage:
            chunks.append({**self._head, "choices": [], "usage": usage(result)})
        return chunks

    def _chunk(self, content: Any, reason: str | None = None) -> dict[str, Any]:
        choice = self._choice(reason)
        choice["delta" if self._chat else "text"] = content
        chunk = {**self._head, "choices": [choice]}
        return chunk | {"usage": None} if self._usage else chunk

    def _choice(self, reason: str | None) -> dict[str, Any]:
        return {"index": 0, "logprobs": None, "finish_reason": reason}


def usage(result: Result) -> dict[str, int]:
    """Counts of tokens."""
    return {
        "prompt_tokens": result.prompt_tokens,
        "completion_tokens": len(result.tokens),
        "total_tokens": result.prompt_tokens + len(result.tokens),
    }
