"""Messages to a prompt by a chat template, which is a program that came with the weights.

A template is never trusted: it is rendered by a child process in Jinja's sandbox, with a limit on
time, on memory and on the length of what it prints, and with nothing to reach from inside.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import InvalidArgumentError, LimitExceededError, MissingDependencyError
from .tokenizer import TokenizerFacts

Message = Mapping[str, Any]

LARGEST_TEMPLATE = 1 << 20
LARGEST_PROMPT = 1 << 24
SECONDS = 10

_WORKER = Path(__file__).with_name("_chat_worker.py")


def render_chat(
    facts: TokenizerFacts, messages: Sequence[Message], *, seconds: float = SECONDS
) -> str:
    """The prompt that asks for the next message of the assistant.

    Parameters
    ----------
    facts
        From the tokenizer; its ``chat_template`` is rendered.
    messages
        Each with ``role`` and ``content``, both text.

    Raises
    ------
    InvalidArgumentError
        There is no template, or the template refuses these messages.
    LimitExceededError
        The template takes too long, or prints too much.
    MissingDependencyError
        The ``jinja2`` package is not installed.
    """
    template = facts.chat_template
    if template is None:
        raise InvalidArgumentError(
            "the model's tokenizer has no chat template, so it is not known how a conversation is "
            "written for it. Give it plain text instead.",
            argument="chat",
        )
    if len(template) > LARGEST_TEMPLATE:
        raise _too_much("has", len(template), LARGEST_TEMPLATE)
    request = {
        "template": template,
        "variables": {
            **facts.special,
            "messages": [dict(message) for message in messages],
            "add_generation_prompt": True,
        },
        "largest": LARGEST_PROMPT,
        "seconds": seconds,
    }
    answer = _ask(request, seconds)
    if "prompt" in answer:
        return str(answer["prompt"])
    if answer["why"] == "missing":
        raise MissingDependencyError(
            "a chat template needs the jinja2 package: pip install 'dmexp[text]'.",
            package="jinja2",
            extra="text",
        )
    if answer["why"] == "long":
        raise _too_much("prints more than", LARGEST_PROMPT, LARGEST_PROMPT)
    raise InvalidArgumentError(
        f"the chat template refuses these messages: {answer['message']}",
        argument="messages",
    )


def _ask(request: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    try:
        # Isolated: neither the working directory nor the environment can put code into it.
        done = subprocess.run(
            [sys.executable, "-I", str(_WORKER)],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=seconds + 5,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _too_slow(seconds) from None
    if done.returncode < 0:
        # A signal: the kernel ended it for its processor time.
        raise _too_slow(seconds)
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        return {"why": "crash", "message": "".join(last) or f"exit status {done.returncode}"}
    if answer.get("why") == "memory":
        raise _too_slow(seconds)
    return answer


def _too_much(what: str, found: int, limit: int) -> LimitExceededError:
    return LimitExceededError(
        f"the chat template {what} {found} characters; {limit} are enough for any conversation.",
        limit=limit,
        found=found,
    )


def _too_slow(seconds: float) -> LimitExceededError:
    return LimitExceededError(
        f"the chat template needs more than {seconds:g} seconds or more memory than a conversation "
        "can: it was ended. Use another one with --tokenizer.",
        limit=seconds,
        found=None,
    )
