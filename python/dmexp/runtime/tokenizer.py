"""Text to token ids and back: the file's own tokenizer, or bytes for a vocabulary of 256."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ..errors import FormatError, InvalidArgumentError, LimitExceededError, MissingDependencyError

LARGEST_JSON_BYTES = 1 << 28
"""A tokenizer.json of a vocabulary of 256 Ki entries has about 35 MB."""

BYTE_VOCABULARY = 256


@dataclass(frozen=True, slots=True)
class TokenizerFacts:
    """What comes with a tokenizer beside its vocabulary."""

    bos_id: int | None = None
    eos_ids: tuple[int, ...] = ()
    add_bos: bool | None = None
    """Whether a text starts with ``bos_id``; None where the tokenizer itself decides."""
    chat_template: str | None = None
    special: Mapping[str, str] = field(default_factory=dict)
    """``bos_token``, ``eos_token`` … as text, for the chat template."""


class Tokenizer(Protocol):
    """What `generate` needs of a tokenizer."""

    @property
    def facts(self) -> TokenizerFacts: ...

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Token ids of ``text``; with ``special`` the ones that a text starts or ends with too."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ``ids`` without special tokens. A cut character becomes U+FFFD."""
        ...


class ByteTokenizer:
    """Token ids are the bytes of UTF-8. There are no special tokens."""

    facts = TokenizerFacts()

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        return list(_utf8(text))

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(token for token in ids if token < BYTE_VOCABULARY).decode("utf-8", "replace")


class JsonTokenizer:
    """A ``tokenizer.json``, read by the ``tokenizers`` package.

    Parameters
    ----------
    text
        The JSON document.
    facts
        What came with it.
    origin
        Where it came from, for messages.

    Raises
    ------
    MissingDependencyError
        The ``tokenizers`` package is not installed.
    FormatError
        The package does not read the document.
    """

    def __init__(self, text: str, facts: TokenizerFacts, origin: str) -> None:
        if len(text) > LARGEST_JSON_BYTES:
            raise LimitExceededError(
                f"the tokenizer ({origin}) has {len(text)} characters; no real one has more than "
                f"{LARGEST_JSON_BYTES}.",
                limit=LARGEST_JSON_BYTES,
                found=len(text),
            )
        try:
            from tokenizers import Tokenizer as Rust
        except ImportError:
            raise MissingDependencyError(
                "the model's tokenizer needs the tokenizers package: pip install 'dmexp[text]'.",
                package="tokenizers",
                extra="text",
            ) from None
        try:
            self._rust = Rust.from_str(text)
        # The package raises bare Exception, and for some documents a panic, which is none.
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
                raise
            raise FormatError(
                f"the tokenizer ({origin}) is not one that the tokenizers package reads: {error}",
                key="tokenizer",
            ) from None
        self._rust.no_truncation()
        self._rust.no_padding()
        self.facts = facts

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        clean = _utf8(text).decode("utf-8", "replace")
        ids: list[int] = self._rust.encode(clean, add_special_tokens=special).ids
        bos = self.facts.bos_id
        if special and self.facts.add_bos and bos is not None and ids[:1] != [bos]:
            ids.insert(0, bos)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._rust.decode(list(ids), skip_special_tokens=True)
        return text


def from_metadata(table: Mapping[str, Any]) -> JsonTokenizer:
    """The tokenizer in a header's ``[metadata.tokenizer]``."""
    text = table.get("json")
    if not isinstance(text, str):
        raise FormatError(
            "metadata.tokenizer has no text under 'json', so there is no tokenizer to read. "
            "Name one with --tokenizer.",
            key="metadata.tokenizer.json",
        )
    return JsonTokenizer(text, read_facts(table), "the file's metadata")


def from_path(path: Path) -> JsonTokenizer:
    """A ``tokenizer.json``, or the directory that holds one, with its neighbours' facts."""
    if path.is_dir():
        path = path / "tokenizer.json"
    text = _read(path)
    table: dict[str, Any] = {}
    for name in ("generation_config.json", "tokenizer_config.json"):
        table |= _object(path.with_name(name))
    template = path.with_name("chat_template.jinja")
    if template.is_file():
        table["chat_template"] = _read(template)
    return JsonTokenizer(text, read_facts(table), str(path))


def read_facts(table: Mapping[str, Any]) -> TokenizerFacts:
    """Facts from the keys that Hugging Face files and our metadata share; others are ignored."""
    special = {}
    for key, value in table.items():
        if key.endswith("_token"):
            # An added token is a table around its text.
            content = value.get("content") if isinstance(value, Mapping) else value
            if isinstance(content, str):
                special[key] = content
    bos = _ids(table.get("bos_token_id"))
    add_bos = table.get("add_bos_token")
    return TokenizerFacts(
        bos_id=bos[0] if bos else None,
        eos_ids=_ids(table.get("eos_token_id")) + _ids(table.get("stop_token_ids")),
        add_bos=add_bos if isinstance(add_bos, bool) else None,
        chat_template=_template(table.get("chat_template")),
        special=special,
    )


def _utf8(text: str) -> bytes:
    """The bytes of a text that may hold surrogates.

    Those that stand for bytes of a command line or a file become these bytes again; any others,
    which JSON can spell, become U+FFFD.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _template(value: Any) -> str | None:
    """One template, or the one named "default" of several."""
    if isinstance(value, str):
        return value
    if isinstance(value, Sequence):
        for entry in value:
            if isinstance(entry, Mapping) and entry.get("name") == "default":
                return _template(entry.get("template"))
    return None


def _ids(value: Any) -> tuple[int, ...]:
    items: Iterable[Any] = value if isinstance(value, list | tuple) else (value,)
    return tuple(
        item for item in items if isinstance(item, int) and not isinstance(item, bool) and item >= 0
    )


def _read(path: Path) -> str:
    size = path.stat().st_size
    if size > LARGEST_JSON_BYTES:
        raise LimitExceededError(
            f"{size} bytes; no real tokenizer has more than {LARGEST_JSON_BYTES}.",
            path=str(path),
            limit=LARGEST_JSON_BYTES,
            found=size,
        )
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(
            f"byte {error.start} is not UTF-8: this is no tokenizer.json.", path=str(path)
        ) from None


def _object(path: Path) -> dict[str, Any]:
    """A JSON object, or an empty one where there is no such file."""
    if not path.is_file():
        return {}
    try:
        value = json.loads(_read(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise FormatError(f"this is not JSON: {error}", path=str(path)) from None
    if not isinstance(value, dict):
        raise InvalidArgumentError("expected a JSON object.", path=str(path), argument="tokenizer")
    return value
