"""``dmexp serve`` with the real ``openai`` client, and with requests that no client sends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from openai.types import Completion

from dmexp.cli import main
from dmexp.runtime import open_model
from dmexp.runtime.generate import Generation
from dmexp.runtime.serve.app import Service
from dmexp.runtime.serve.engine import Engine
from dmexp.runtime.serve.server import bind, serve
from serve_util import Running, events, running, write_byte_model, write_chat_model

GREEDY: dict[str, Any] = {"temperature": 0, "max_tokens": 12}


@pytest.fixture(scope="module")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_chat_model(tmp_path_factory.mktemp("serve") / "tiny.f32.dmexp")


@pytest.fixture(scope="module")
def server(model_file: Path) -> Iterator[Running]:
    with running(model_file) as started:
        yield started


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture(scope="module")
def http(server: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60) as made:
        yield made


def post(http: httpx.Client, path: str, body: Any) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return http.post(path, content=content, headers={"content-type": "application/json"})


# The client


def test_models_are_listed_and_found(client: openai.OpenAI) -> None:
    listed = client.models.list().data
    assert [(model.id, model.object, model.owned_by) for model in listed] == [
        ("tiny.f32", "model", "dmexp")
    ]
    assert client.models.retrieve("tiny.f32").id == "tiny.f32"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-4")


def test_a_completion_is_what_generate_prints(
    client: openai.OpenAI, model_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = client.completions.create(model="tiny.f32", prompt="hello", **GREEDY)
    arguments = ["generate", str(model_file), "--prompt", "hello", "--max-tokens", "12"]
    assert main([*arguments, "--temperature", "0", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert answer.object == "text_completion"
    assert answer.model == "tiny.f32"
    assert answer.choices[0].text == printed["text"]
    assert answer.choices[0].finish_reason == printed["finish_reason"] == "length"
    assert answer.usage is not None
    assert answer.usage.model_dump(exclude_none=True) == {
        "prompt_tokens": 5,
        "completion_tokens": 12,
        "total_tokens": 17,
    }


def test_a_streamed_completion_joins_to_the_whole_one(client: openai.OpenAI) -> None:
    whole = client.completions.create(model="alias", prompt="hello", **GREEDY)
    chunks = list(
        client.completions.create(
            model="alias",
            prompt="hello",
            stream=True,
            stream_options={"include_usage": True},
            **GREEDY,
        )
    )
    assert "".join(c.choices[0].text for c in chunks if c.choices) == whole.choices[0].text
    reasons = [c.choices[0].finish_reason for c in chunks if c.choices]
    assert reasons == [None] * (len(reasons) - 1) + ["length"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage == whole.usage
    assert len({c.id for c in chunks}) == 1


def test_a_chat_answers_and_streams_the_same(client: openai.OpenAI) -> None:
    messages: list[Any] = [
        {"role": "developer", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "h"}, {"type": "text", "text": "i"}]},
    ]
    arguments: dict[str, Any] = {
        "model": "tiny.f32",
        "messages": messages,
        "temperature": 0,
        "max_completion_tokens": 12,
    }
    whole = client.chat.completions.create(**arguments)
    assert whole.object == "chat.completion"
    assert whole.choices[0].message.role == "assistant"
    # The template wrote "s:be brief\nu:hi\na:".
    assert whole.usage is not None
    assert whole.usage.prompt_tokens == len("s:be brief\nu:hi\na:")
    chunks = list(client.chat.completions.create(stream=True, **arguments))
    assert {c.object for c in chunks} == {"chat.completion.chunk"}
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(c.choices[0].delta.content or "" for c in chunks)
    assert text == whole.choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == "length"


def test_a_seed_repeats_and_stop_ends(client: openai.OpenAI) -> None:
    def text(**arguments: Any) -> str:
        made = client.completions.create(
            model="tiny.f32", prompt="hello", max_tokens=30, **arguments
        )
        return made.choices[0].text

    first = text(seed=4, temperature=1.5)
    assert first == text(seed=4, temperature=1.5)
    assert first != text(seed=-4, temperature=1.5)
    whole = text(temperature=0)
    stop = whole[8:10]
    made = client.completions.create(
        model="tiny.f32", prompt="hello", max_tokens=30, temperature=0, stop=[stop, "\0\0"]
    )
    assert made.choices[0].text == whole[: whole.index(stop)]
    assert made.choices[0].finish_reason == "stop"


def test_token_ids_are_a_prompt(client: openai.OpenAI) -> None:
    by_text = client.completions.create(model="tiny.f32", prompt=["hi"], **GREEDY)
    ids = [73, 74]
    by_ids = client.completions.create(model="tiny.f32", prompt=ids, **GREEDY)
    assert by_ids.usage == by_text.usage


def test_fifty_at_once_all_get_an_answer_or_a_clean_429(model_file: Path) -> None:
    with running(model_file, waiting=4) as server:

        def ask(number: int) -> Completion | openai.RateLimitError:
            with openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0) as client:
                try:
                    return client.completions.create(
                        model="tiny.f32", prompt=f"{number} ", max_tokens=40, temperature=0
                    )
                except openai.RateLimitError as error:
                    return error

        with ThreadPoolExecutor(50) as pool:
            outcomes = list(pool.map(ask, range(50)))
        refused = [each.response for each in outcomes if isinstance(each, openai.RateLimitError)]
        answers = [each for each in outcomes if isinstance(each, Completion)]
        assert len(answers) >= 5
        assert len(answers) + len(refused) == 50
        for answer in answers:
            assert answer.usage is not None
            assert answer.usage.completion_tokens == 40
        for response in refused:
            assert response.status_code == 429
            assert 1 <= int(response.headers["retry-after"]) <= 60
            assert response.json()["error"]["code"] == "rate_limit_exceeded"
        health = httpx.get(f"{server.url}/health").json()
        assert (health["running"], health["waiting"]) == (0, 0)


class Held:
    """Replaces the model's work by waiting, so that a test decides when an answer goes on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = threading.Semaphore(0)
        self.go = threading.Semaphore(0)
        self.cancelled = threading.Event()
        held = self

        def pieces(generation: Generation) -> Iterator[str]:
            held.begun.release()
            while not held.go.acquire(timeout=0.005):
                if generation._cancelled():
                    generation.result.finish_reason = "cancelled"
                    held.cancelled.set()
                    return
            generation.result.text = "held"
            yield "held"

        monkeypatch.setattr(Generation, "__iter__", pieces)


BODY = json.dumps({"prompt": "x"}).encode()


def raw_request(server: Running, body: bytes) -> socket.socket:
    """Send a request and leave the connection to the test."""
    host, port = server.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)))
    head = f"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)
    return connection


def until(condition: Any) -> None:
    """Wait for what another thread is about to do."""
    for _ in range(2000):
        if condition():
            return
        threading.Event().wait(0.005)
    raise AssertionError("it never happened")


def test_the_queue_is_bounded_and_one_runs_at_a_time(
    model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    with running(model_file, waiting=1) as server, httpx.Client(base_url=server.url) as http:
        first = raw_request(server, BODY)
        held.begun.acquire()
        second = raw_request(server, BODY)
        until(lambda: server.service.engine.waiting == 1)
        third = post(http, "/v1/completions", {"prompt": "x"})
        assert third.status_code == 429
        assert third.json()["error"]["message"].startswith("1 requests are waiting")
        assert not held.begun.acquire(blocking=False)
        held.go.release(2)
        for connection in (first, second):
            assert b"200 OK" in connection.recv(1000)
            connection.close()


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_ends_its_generation(
    stream: bool, model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    with running(model_file) as server:
        connection = raw_request(server, json.dumps({"prompt": "x", "stream": stream}).encode())
        held.begun.acquire()
        connection.close()
        assert held.cancelled.wait(20)
        until(lambda: server.service.engine.running == 0)
        # The next request is answered as if nothing had been.
        held.go.release()
        assert httpx.post(f"{server.url}/v1/completions", content=BODY).status_code == 200


def test_a_client_that_leaves_the_queue_makes_room(
    model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    with running(model_file, waiting=1) as server:
        first = raw_request(server, BODY)
        held.begun.acquire()
        second = raw_request(server, BODY)
        until(lambda: server.service.engine.waiting == 1)
        second.close()
        until(lambda: server.service.engine.waiting == 0)
        held.go.release()
        assert b"200 OK" in first.recv(1000)
        first.close()


def test_a_reader_who_stalls_does_not_hold_up_others(
    model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pieces(generation: Generation) -> Iterator[str]:
        for _ in range(200):
            yield "x" * 100_000

    with running(model_file) as server:
        with monkeypatch.context() as patched:
            patched.setattr(Generation, "__iter__", pieces)
            stalled = raw_request(server, json.dumps({"prompt": "x", "stream": True}).encode())
            assert b"200 OK" in stalled.recv(100)
            until(lambda: server.service.engine.running == 0)
        with httpx.Client(base_url=server.url) as http:
            assert post(http, "/v1/completions", {"prompt": "x", **GREEDY}).status_code == 200
        stalled.close()


def test_an_error_in_a_stream_is_an_event_that_the_client_raises(
    client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pieces(generation: Generation) -> Iterator[str]:
        yield "so far"
        raise RuntimeError("no further")

    monkeypatch.setattr(Generation, "__iter__", pieces)
    stream = client.completions.create(model="alias", prompt="x", stream=True)
    with pytest.raises(openai.APIError, match="no further"):
        list(stream)


# Requests that no client sends

BAD = [
    (b"{", 400, None, "not JSON"),
    (b"\xff", 400, None, "not JSON"),
    (b"[1]", 400, None, "an array, expected a JSON object"),
    (b"[" * 100_000, 400, None, "not JSON"),
    ({}, 400, "prompt", "'prompt' is missing"),
    ({"prompt": None}, 400, "prompt", "'prompt' is missing"),
    ({"prompt": 5}, 400, "prompt", "an integer, expected"),
    ({"prompt": []}, 400, "prompt", "an array, expected"),
    ({"prompt": [True]}, 400, "prompt", "an array, expected"),
    ({"prompt": ["a", "b"]}, 400, "prompt", "holds 2 prompts"),
    ({"prompt": [5000]}, 400, "prompt", "outside the model's vocabulary"),
    ({"prompt": [10**30]}, 400, "prompt", "outside the model's vocabulary"),
    ({"prompt": [-1]}, 400, "prompt", "outside the model's vocabulary"),
    (b'{"prompt": "x", "model": "\\ud800"}', 404, "model", "'\ud800' is not served"),
    (b'{"prompt": "x", "\\udc80": 1}', 400, "\udc80", "unrecognized argument"),
    ({"prompt": ""}, 400, "prompt", "the prompt is empty"),
    ({"prompt": "x" * 128}, 400, "prompt", "128 tokens"),
    ({"prompt": "x", "model": "gpt-4"}, 404, "model", "'alias' and 'tiny.f32'"),
    ({"prompt": "x", "model": 4}, 400, "model", "an integer, expected a string"),
    ({"prompt": "x", "temperature": -1}, 400, "temperature", "expected 0 to 100"),
    ({"prompt": "x", "temperature": "hot"}, 400, "temperature", "a string, expected a number"),
    ({"prompt": "x", "temperature": True}, 400, "temperature", "a boolean, expected a number"),
    (b'{"prompt": "x", "temperature": NaN}', 400, "temperature", "is nan"),
    (b'{"prompt": "x", "temperature": Infinity}', 400, "temperature", "is inf"),
    (b'{"prompt": "x", "max_tokens": 1' + b"0" * 400 + b"}", 400, "max_tokens", "expected 1 to"),
    ({"prompt": "x", "max_tokens": 0}, 400, "max_tokens", "expected 1 to"),
    ({"prompt": "x", "max_tokens": 1.5}, 400, "max_tokens", "a number, expected an integer"),
    ({"prompt": "x", "top_p": 0}, 400, "top_p", "is 0"),
    ({"prompt": "x", "top_p": 2}, 400, "top_p", "is 2"),
    ({"prompt": "x", "top_k": -1}, 400, "top_k", "is -1"),
    ({"prompt": "x", "seed": "s"}, 400, "seed", "a string, expected an integer"),
    ({"prompt": "x", "stop": 4}, 400, "stop", "an integer, expected"),
    ({"prompt": "x", "stop": [""]}, 400, "stop", "1 to 1000 characters"),
    ({"prompt": "x", "stop": ["a"] * 17}, 400, "stop", "16 strings at most"),
    ({"prompt": "x", "stream": 1}, 400, "stream", "expected true or false"),
    ({"prompt": "x", "stream_options": {"include_usage": True}}, 400, "stream_options", "needs"),
    ({"prompt": "x", "n": 2}, 400, "n", "'n' is not supported"),
    ({"prompt": "x", "n": True}, 400, "n", "'n' is not supported"),
    ({"prompt": "x", "best_of": 2}, 400, "best_of", "not supported"),
    ({"prompt": "x", "echo": True}, 400, "echo", "not supported"),
    ({"prompt": "x", "logprobs": 5}, 400, "logprobs", "not supported"),
    ({"prompt": "x", "logit_bias": {"1": 5}}, 400, "logit_bias", "not supported"),
    ({"prompt": "x", "presence_penalty": 0.5}, 400, "presence_penalty", "not supported"),
    ({"prompt": "x", "temprature": 0}, 400, "temprature", "unrecognized argument"),
]
BAD_CHAT = [
    ({}, "messages", "'messages' is missing"),
    ({"messages": "hi"}, "messages", "a string, expected an array"),
    ({"messages": []}, "messages", "has 0 entries"),
    ({"messages": [5]}, "messages[0]", "an integer, expected an object"),
    ({"messages": [{"content": "x"}]}, "messages[0].role", "is None"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role", "'tool'"),
    ({"messages": [{"role": "user"}]}, "messages[0].content", "null, expected"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, None, "no text part"),
    ({"messages": [{"role": "user", "content": "x"}], "tools": [{}]}, "tools", "not supported"),
    ({"messages": [{"role": "user", "content": "x"}], "prompt": "x"}, "prompt", "unrecognized"),
    (
        {"messages": [{"role": "assistant", "content": "", "tool_calls": [{}]}]},
        "messages[0].tool_calls",
        "not supported",
    ),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("body", "status", "param", "message"), BAD)
def test_a_bad_completion_request_is_named_before_any_event(
    http: httpx.Client, body: Any, status: int, param: str | None, message: str, stream: bool
) -> None:
    if stream and isinstance(body, dict) and param != "stream_options":
        body = {"stream": True} | body
    answer = post(http, "/v1/completions", body)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert message in error["message"]


@pytest.mark.parametrize(("body", "param", "message"), BAD_CHAT)
def test_a_bad_chat_request_is_named(
    http: httpx.Client, body: Any, param: str | None, message: str
) -> None:
    answer = post(http, "/v1/chat/completions", body)
    assert answer.status_code == 400, answer.text
    error = answer.json()["error"]
    assert param is None or error["param"] == param
    assert message in error["message"]


def test_a_prompt_may_hold_lone_surrogates(http: httpx.Client) -> None:
    for path, body in (
        ("/v1/completions", b'{"prompt": "a\\ud800b\\udc80", "max_tokens": 2}'),
        (
            "/v1/chat/completions",
            b'{"messages": [{"role": "user", "content": "\\ud800"}], "max_tokens": 2}',
        ),
    ):
        answer = post(http, path, body)
        assert answer.status_code == 200, answer.text


def test_arguments_that_ask_for_nothing_are_accepted(http: httpx.Client) -> None:
    neutral = {"n": 1, "best_of": 1, "presence_penalty": 0.0, "user": "me", "logprobs": None}
    neutral |= {"echo": False, "suffix": None, "logit_bias": {}, "top_p": 1, "stop": None}
    answer = post(http, "/v1/completions", {"prompt": "x", **GREEDY, **neutral})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v1/nothing", 404),
        ("GET", "/v1/completions", 405),
        ("POST", "/v1/models", 405),
        ("DELETE", "/v1/chat/completions", 405),
    ],
)
def test_a_wrong_path_or_method_has_the_same_shape(
    http: httpx.Client, method: str, path: str, status: int
) -> None:
    answer = http.request(method, path)
    assert answer.status_code == status
    assert path in answer.json()["error"]["message"]
    if status == 405:
        assert "allow" in answer.headers


@pytest.mark.parametrize("announced", [True, False])
def test_a_body_that_is_too_long_is_refused(server: Running, announced: bool) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'{"prompt": "'
        for _ in range(5):
            yield b"x" * (1 << 20)

    content: Any = b"".join(chunks()) if announced else chunks()
    # A connection of its own: the server closes it rather than read the rest.
    answer = httpx.post(f"{server.url}/v1/completions", content=content)
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "request_too_large"


def test_a_stream_is_server_sent_events(http: httpx.Client) -> None:
    answer = post(http, "/v1/completions", {"prompt": "x", "stream": True, **GREEDY})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    found = events(answer.text)
    assert found[-1] == "[DONE]"
    assert all("usage" not in chunk for chunk in found[:-1])


def test_a_chat_without_a_template_is_refused_with_400(tmp_path: Path) -> None:
    with running(write_byte_model(tmp_path / "plain.dmexp")) as server:
        body = {"messages": [{"role": "user", "content": "x"}]}
        answer = httpx.post(f"{server.url}/v1/chat/completions", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "messages"
    assert "no chat template" in answer.json()["error"]["message"]


def test_health_says_what_goes_on(http: httpx.Client) -> None:
    assert http.get("/health").json() == {
        "status": "ok",
        "model": "tiny.f32",
        "running": 0,
        "waiting": 0,
    }


# The process


def test_the_address_is_announced_once_it_can_be_reached(model_file: Path) -> None:
    service = Service(open_model(model_file), Engine(1), created=0, aliases=frozenset())
    servers: list[Any] = []

    def listening() -> None:
        # The kernel completes the handshake for a socket that listens, and for no other.
        socket.create_connection(listener.getsockname(), timeout=5).close()
        servers[0].should_exit = True

    with bind("127.0.0.1", 0) as listener:
        serve(service, listener, started=servers.append, listening=listening)
    assert servers[0].should_exit


def start(path: Path, *more: str) -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "dmexp", "serve", str(path), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONWARNINGS": "error"},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("serving "), (line, process.stderr and process.stderr.read())
    # Connections are taken from here on: the tests below connect once, and do not try again.
    return process, line.split(" at ")[1].split("/v1")[0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_and_a_restart_takes_the_same_port(
    model_file: Path, number: signal.Signals
) -> None:
    process, url = start(model_file, "--port", "0")
    port = url.rsplit(":", 1)[1]
    assert url.startswith("http://127.0.0.1:")
    assert httpx.get(f"{url}/health").status_code == 200
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        stream = client.completions.create(
            model="tiny.f32", prompt="x", stream=True, max_tokens=100
        )
        next(iter(stream))
        process.send_signal(number)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
    again, second = start(model_file, "--port", port)
    try:
        assert second == url
        assert httpx.get(f"{url}/health").status_code == 200
    finally:
        again.terminate()
        again.communicate(timeout=30)
    assert again.returncode == 0


def test_kill_and_restart_loses_only_the_running_requests(model_file: Path) -> None:
    process, url = start(model_file, "--port", "0")
    assert httpx.get(f"{url}/health").status_code == 200
    process.kill()
    process.communicate(timeout=30)
    again, _ = start(model_file, "--port", url.rsplit(":", 1)[1])
    try:
        assert httpx.get(f"{url}/health").status_code == 200
        answer = httpx.post(f"{url}/v1/completions", json={"prompt": "x", **GREEDY})
        assert answer.status_code == 200
    finally:
        again.terminate()
        again.communicate(timeout=30)


def test_requests_that_run_or_wait_when_it_ends_are_told(
    model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    with ThreadPoolExecutor(2) as pool, running(model_file) as server:
        asked = [pool.submit(httpx.post, f"{server.url}/v1/completions", content=BODY)]
        held.begun.acquire()
        asked.append(pool.submit(httpx.post, f"{server.url}/v1/completions", content=BODY))
        until(lambda: server.service.engine.waiting == 1)
        server.service.engine.close()
        for answer in asked:
            assert answer.result().status_code == 503
            assert answer.result().json()["error"]["code"] == "shutting_down"
        assert httpx.get(f"{server.url}/health").status_code == 503


def test_what_is_no_export_is_said_even_where_the_port_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF" + bytes(60))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for source, says in ((path, "this is a GGUF file"), (tmp_path, "this is a directory")):
            assert main(["serve", str(source), "--port", port]) == 1
            assert says in capsys.readouterr().err


def test_a_port_that_is_taken_is_one_line(model_file: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "dmexp", "serve", str(model_file), "--port", port],
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert f"127.0.0.1, port {port}" in done.stderr


def test_the_event_loop_is_not_held_up_by_a_generation(server: Running) -> None:
    async def both() -> list[int]:
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:
            long = http.post("/v1/completions", json={"prompt": "x", "max_tokens": 120})
            answers = await asyncio.gather(long, *(http.get("/health") for _ in range(5)))
            return [answer.status_code for answer in answers]

    assert asyncio.run(both()) == [200] * 6
