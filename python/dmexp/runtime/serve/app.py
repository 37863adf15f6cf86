"""The HTTP side: routes, bodies, event streams, and clients that go away."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.requests import Request as HttpRequest
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ..chat import render_chat
from ..generate import Generation, prompt_ids
from ..loading import Loaded
from .engine import Engine, Job, Prepare
from .errors import RequestError, from_exception
from .protocol import Answer, Kind, Request, read_request, require_model

LARGEST_BODY = 1 << 22
BODY_SECONDS = 30


class Service:
    """What the routes share: one model, one engine.

    Parameters
    ----------
    created
        Seconds since 1970 for ``/v1/models``.
    aliases
        Names under which the model answers besides its own.
    """

    def __init__(
        self, loaded: Loaded, engine: Engine, *, created: int, aliases: frozenset[str]
    ) -> None:
        self.loaded = loaded
        self.engine = engine
        self.names = frozenset({loaded.name}) | aliases
        self._created = created

    def app(self) -> Starlette:
        """The ASGI application."""
        routes = [
            Route("/health", self.health),
            Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.model),
            Route("/v1/completions", self._answering("completion"), methods=["POST"]),
            Route("/v1/chat/completions", self._answering("chat"), methods=["POST"]),
        ]
        handlers: dict[Any, Any] = {HTTPException: _http_error, Exception: _any_error}
        return Starlette(routes=routes, exception_handlers=handlers)

    async def health(self, request: HttpRequest) -> Response:
        """Whether requests are taken, and how many there are."""
        status = "closing" if self.engine.closing else "ok"
        facts = {
            "status": status,
            "model": self.loaded.name,
            "running": self.engine.running,
            "waiting": self.engine.waiting,
        }
        return Document(facts, 200 if status == "ok" else 503)

    async def models(self, request: HttpRequest) -> Response:
        return Document({"object": "list", "data": [self._model()]})

    async def model(self, request: HttpRequest) -> Response:
        try:
            require_model(request.path_params["name"], self.names)
        except RequestError as error:
            return refused(error)
        return Document(self._model())

    def _model(self) -> dict[str, Any]:
        return {
            "id": self.loaded.name,
            "object": "model",
            "created": self._created,
            "owned_by": "dmexp",
        }

    def _answering(self, kind: Kind) -> Callable[[HttpRequest], Any]:
        async def answer(http: HttpRequest) -> Response:
            try:
                request = read_request(kind, await _body(http), self.names)
                job = self.engine.submit(self._prepare(request))
                try:
                    await _unless_gone(http, job.started())
                    document = Answer(request, self.loaded.name)
                    if request.stream:
                        return EventStream(job, document)
                    return Document(await _unless_gone(http, _whole(job, document)))
                except BaseException:
                    job.cancel()
                    raise
            except ClientDisconnect:
                # Nobody reads it; the number is the one that web servers log.
                return Response(status_code=499)
            except Exception as error:
                return refused(from_exception(error))

        return answer

    def _prepare(self, request: Request) -> Prepare:
        model, tokenizer = self.loaded.model, self.loaded.tokenizer

        def prepare(cancelled: Callable[[], bool]) -> Generation:
            if request.kind == "chat":
                # The template writes the special tokens itself.
                text = render_chat(tokenizer.facts, request.messages)
                ids = tokenizer.encode(text, special=False)
            elif isinstance(request.prompt, str):
                ids = prompt_ids(model, tokenizer, request.prompt)
            else:
                ids = request.prompt
            return Generation(model, tokenizer, ids, request.options, cancelled=cancelled)

        return prepare


class Document(JSONResponse):
    """JSON in ASCII: what a request said may come back, and it may hold lone surrogates."""

    def render(self, content: Any) -> bytes:
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode()


def refused(error: RequestError) -> Response:
    return Document(error.body(), error.status, error.headers())


async def _http_error(request: HttpRequest, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path, method = request.url.path, request.method
    what = {404: f"there is nothing at {path}", 405: f"{path} does not take {method}"}
    known = RequestError(error.status_code, f"{what.get(error.status_code, error.detail)}.")
    response = refused(known)
    response.headers.update(error.headers or {})
    return response


async def _any_error(request: HttpRequest, error: Exception) -> Response:
    return refused(from_exception(error))


async def _body(http: HttpRequest) -> bytes:
    """The body, if it is not too long and comes in time."""
    too_long = RequestError(
        413, f"the body is longer than {LARGEST_BODY} bytes.", code="request_too_large"
    )
    length = http.headers.get("content-length", "0")
    if length.isdigit() and int(length) > LARGEST_BODY:
        raise too_long
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in http.stream():
                body += chunk
                if len(body) > LARGEST_BODY:
                    raise too_long
    except TimeoutError:
        raise RequestError(408, f"the body did not come within {BODY_SECONDS} s.") from None
    return bytes(body)


async def _whole(job: Job, answer: Answer) -> dict[str, Any]:
    async for _ in job.pieces():
        pass
    assert job.result is not None
    return answer.whole(job.result)


async def _unless_gone(http: HttpRequest, work: Any) -> Any:
    """The result of ``work``, or `ClientDisconnect` as soon as the client is gone."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(http.receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientDisconnect
        return task.result()
    finally:
        for each in (task, gone):
            each.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await each


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """Server-sent events, one a chunk, until the text or the client's patience ends."""

    def __init__(self, job: Job, answer: Answer) -> None:
        super().__init__(
            media_type="text/event-stream",
            headers={"cache-control": "no-cache", "x-accel-buffering": "no"},
        )
        # The length is not known; the one of an empty body came with the line above.
        del self.headers["content-length"]
        self._job = job
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send(send))
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            self._job.cancel()
            for each in (sending, gone):
                each.cancel()
                with contextlib.suppress(asyncio.CancelledError, Exception):
                    await each

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for event in self._events():
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _events(self) -> AsyncIterator[bytes]:
        job, answer = self._job, self._answer
        try:
            if (first := answer.first()) is not None:
                yield _event(first)
            async for piece in job.pieces():
                yield _event(answer.piece(piece))
        except Exception as error:
            # The status is out already; the clients look for this document.
            yield _event(from_exception(error).body())
            return
        assert job.result is not None
        for chunk in answer.last(job.result):
            yield _event(chunk)
        yield b"data: [DONE]\n\n"


def _event(document: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"
