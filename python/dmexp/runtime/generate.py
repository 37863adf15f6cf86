"""Continue a prompt, token by token."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..errors import InvalidArgumentError
from .detokenize import StopFilter, TextStream
from .model import PREFILL_POSITIONS, Cache, Model
from .sampling import Sampler, Sampling
from .tokenizer import Tokenizer

FinishReason = Literal["stop", "length", "cancelled"]


@dataclass(frozen=True, slots=True)
class Options:
    """When to end, and how tokens are chosen. ``stop`` strings are not part of the text."""

    max_tokens: int = 64
    sampling: Sampling = field(default_factory=Sampling)
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        if self.max_tokens < 1:
            raise InvalidArgumentError(
                f"max_tokens is {self.max_tokens}, expected 1 or more.",
                argument="max_tokens",
                found=self.max_tokens,
            )


@dataclass(slots=True)
class Result:
    """What came out.

    ``tokens`` are all new ids, the end-of-text token that ended them included; ``text`` is their
    text without special tokens, cut before a stop string.
    """

    prompt_tokens: int
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    finish_reason: FinishReason = "length"
    tokens_per_second: float = 0.0
    """New tokens after the first over the time that they took, so that the prompt is not in it.
    Where there is only one, over the time of both."""


class Generation:
    """One continuation. Iterate over it for pieces of text; ``result`` is complete afterwards.

    Parameters
    ----------
    prompt
        Token ids, at least one. `prompt_ids` makes them from text.
    cancelled
        Asked before every token; true ends the continuation with ``"cancelled"``.

    Raises
    ------
    InvalidArgumentError
        A prompt that leaves no room for one token, or with ids outside the vocabulary.
    """

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer,
        prompt: Sequence[int],
        options: Options,
        *,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._room = model.config.max_positions - len(prompt)
        if self._room < 1:
            raise InvalidArgumentError(
                f"the prompt has {len(prompt)} tokens and the model {model.config.max_positions} "
                "positions: there is no room for an answer. Give it a shorter prompt.",
                argument="prompt",
                found=len(prompt),
                limit=model.config.max_positions,
            )
        model.check(prompt)
        self._model = model
        self._tokenizer = tokenizer
        self._prompt = list(prompt)
        self._options = options
        self._cancelled = cancelled
        self.result = Result(prompt_tokens=len(prompt))

    def __iter__(self) -> Iterator[str]:
        result = self.result
        stream = TextStream(self._tokenizer, self._prompt)
        stops = StopFilter(self._options.stop)
        ends = () if self._options.ignore_eos else end_ids(self._model, self._tokenizer)
        for token in self._tokens():
            result.tokens.append(token)
            if token in ends:
                result.finish_reason = "stop"
                break
            if piece := stops.push(stream.push(token)):
                result.text += piece
                yield piece
            if stops.stopped:
                result.finish_reason = "stop"
                return
        last = stops.push(stream.finish())
        if stops.stopped:
            result.finish_reason = "stop"
        last += stops.finish()
        if last:
            result.text += last
            yield last

    def _tokens(self) -> Iterator[int]:
        """New tokens as long as there is room; keeps time."""
        result, model = self.result, self._model
        sampler = Sampler(self._options.sampling)
        cache = Cache(model.config)
        began = time.perf_counter()
        feed: Sequence[int] = self._prompt
        # In pieces, so that a long prompt can be cancelled too.
        while len(feed) > PREFILL_POSITIONS and not self._cancelled():
            model.remember(feed[:PREFILL_POSITIONS], cache)
            feed = feed[PREFILL_POSITIONS:]
        for count in range(min(self._options.max_tokens, self._room)):
            if self._cancelled():
                result.finish_reason = "cancelled"
                return
            token = sampler.pick(model.logits(feed, cache))
            now = time.perf_counter()
            result.tokens_per_second = max(count, 1) / max(now - began, 1e-9)
            if count == 0:
                began = now
            yield token
            feed = (token,)


def end_ids(model: Model, tokenizer: Tokenizer) -> frozenset[int]:
    """The tokens that end a text, by the config and by the tokenizer."""
    return frozenset(model.config.eos_ids) | frozenset(tokenizer.facts.eos_ids)


def prompt_ids(model: Model, tokenizer: Tokenizer, text: str) -> list[int]:
    """Token ids of a prompt. An empty one starts with the beginning-of-text token.

    Raises
    ------
    InvalidArgumentError
        An empty prompt for a model that has no such token.
    """
    ids = tokenizer.encode(text)
    if ids:
        return ids
    bos = tokenizer.facts.bos_id if tokenizer.facts.bos_id is not None else model.config.bos_id
    if bos is None or not 0 <= bos < model.config.vocab_size:
        raise InvalidArgumentError(
            "the prompt is empty, and this model has no token that begins a text: "
            "give it a prompt of one character or more.",
            argument="prompt",
        )
    return [bos]
