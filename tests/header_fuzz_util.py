"""Random headers, canonical and mutated, and the two readers side by side."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

from dmexp import _native
from dmexp._emit import HeaderFacts, TensorLine, Totals, header_text, metadata_text
from dmexp._header import Header, _quick, check_arithmetic
from dmexp._header_toml import parse_header
from dmexp.errors import DmexpError, InvalidArgumentError

_PLAIN = "abcxyz019._-/"
_NASTY = [
    '"',
    "'",
    "\\",
    "\n",
    "\t",
    " ",
    "é",
    "#",
    "=",
    "[",
    "]",
    "{",
    ".",
    "🙂",
    "\x85",
    "'''",
    '"""',
    "\r",
    "\0",
]
_FRAGMENTS = [
    b'"', b"'", b"\\", b"\n", b"\r\n", b"\r", b" ", b"\t", b"#", b'"""', b"'''", b"_", b"+", b"-",
    b"e", b".", b"0", b"1", b",", b", ", b"]", b"[", b"=", b" = ", b"\\n", b'\\"', b"\\u0041",
    b"\\U0001F600", b"\\e", b"\xc3\xa9", b"\xef\xbb\xbf", b"\x00", b"\x7f", b"\xff", b"\xc2\x85",
    b"inf", b"nan", b"true", b"9223372036854775807", b"9223372036854775808", b"0x1", b"1_0", b"1e5",
    b"[metadata]\n", b"\n[metadata]\n", b"\n[metadata.a]\n", b"\n[[metadata]]\n", b"\n[other]\n",
    b"a = 1\n", b"# c\n", b'# header-crc32 = "00000000"\n', b'# header-crc32 = "00000000"\r\n',
    b"\n[[tensors]]\n", b'\n[[tensors]]\nname = "q"\ndims = [0]\noverflowed = 0\n', b"[[tensors]]\n",
    b"subnormal = 1\n", b'writer = "w"\n', b'crc32 = "00000000"\n', b"tensors = []\n", b"tensors = [\n]\n",
]  # fmt: skip


class Fuzz:
    """A source of headers: the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def text(self, nasty: bool) -> str:
        pick = self._random
        letters = _NASTY if nasty else list(_PLAIN)
        return "".join(pick.choice(letters) for _ in range(pick.randint(0, 8)))

    def header(self) -> tuple[bytes, int]:
        """A header as one of our two writers prints it, and its payload's length."""
        pick = self._random
        compat = pick.random() < 0.4
        nasty = pick.random() < 0.3
        names: list[str] = []
        for nth in range(pick.randint(0, 4)):
            name = "".join(c for c in self.text(nasty) if c.isprintable()) or "n"
            names.append(name if name not in names else f"{name}{nth}")
        dims = [tuple(pick.randint(0, 3) for _ in range(pick.randint(0, 3))) for _ in names]
        count = sum(_product(each) for each in dims)
        dtype = pick.choice(["f32", "f16", "bf16"])
        facts = HeaderFacts(
            dtype=dtype,
            source=self.text(nasty),
            step=pick.choice([0, 7, 20, 2**63 - 1]),
            config=pick.choice(
                ["", "a = 1\n", 'x = "\\\\"\n', "s = '''\na\n'''\n", 's = """a"""\n']
            ),
            metadata="" if compat or pick.random() < 0.5 else self._metadata(nasty),
            compat=compat,
        )
        lines = [
            TensorLine(name, each, pick.getrandbits(32))
            for name, each in zip(names, dims, strict=True)
        ]
        totals = Totals(pick.randint(0, count), 0, pick.choice([0.0, 1.5, 3e38]), 0.0)
        text = header_text(facts, lines, count, totals)
        if not compat:
            text += b"\n" * pick.randint(0, 5)
        return text, count * (4 if dtype == "f32" else 2)

    def _metadata(self, nasty: bool) -> str:
        pick = self._random
        values = [
            1,
            True,
            1.5,
            self.text(nasty),
            [1, 2],
            {"a": 1},
            [{"b": 2}],
            [[], [self.text(nasty)]],
        ]
        table = {self.text(nasty): pick.choice(values) for _ in range(pick.randint(1, 3))}
        try:
            return metadata_text(table)
        except InvalidArgumentError:
            return ""

    def mutated(self, text: bytes) -> bytes:
        """The same with a few bytes or lines changed, moved, doubled or lost."""
        pick = self._random
        found = bytearray(text)
        for _ in range(pick.choice([1, 1, 1, 2, 3])):
            at = pick.randrange(len(found) + 1)
            kind = pick.randrange(11)
            if kind <= 1 and at < len(found):
                found[at] ^= 1 << pick.randrange(8)
            elif kind == 2 and at < len(found):
                del found[at]
            elif kind <= 4:
                found[at:at] = pick.choice(_FRAGMENTS)
            elif kind == 5 and at < len(found):
                found[at] = pick.choice(b"0123456789abcdef \"'\\\n#.=[]")
            else:
                lines = bytes(found).split(b"\n")
                one, two = pick.randrange(len(lines)), pick.randrange(len(lines))
                if kind == 6:
                    lines[one], lines[two] = lines[two], lines[one]
                elif kind == 7:
                    lines.insert(two, lines[one])
                elif kind == 8:
                    del lines[one]
                elif kind == 9:
                    lines[one] += pick.choice(_FRAGMENTS)
                else:
                    lines[one] = pick.choice(_FRAGMENTS) + lines[one]
                found = bytearray(b"\n".join(lines))
        return bytes(found)

    def cases(self, count: int) -> Iterator[tuple[bytes, int, bool]]:
        """Header, payload length, and whether it is as it was written."""
        for nth in range(count):
            text, payload = self.header()
            yield (text, payload, True) if nth % 10 == 0 else (self.mutated(text), payload, False)


def _product(dims: tuple[int, ...]) -> int:
    product = 1
    for dim in dims:
        product *= dim
    return product


def quick(text: bytes, payload: int) -> Header | DmexpError | None:
    """What the quick reader makes of a header; None where it leaves it alone."""
    try:
        header = _quick(b"\0" * 24 + text, len(text), payload, _place(payload))
        if header is not None:
            check_arithmetic(header)
    except DmexpError as error:
        return error
    return header


def general(text: bytes, payload: int) -> Header | DmexpError:
    """What the reader of any TOML makes of it."""
    try:
        fields, index, extra, tensor_extra = parse_header(text, payload)
        header = Header(fields, index, extra=extra, tensor_extra=tensor_extra, **_place(payload))
        check_arithmetic(header)
    except DmexpError as error:
        return error
    return header


def _place(payload: int) -> dict[str, Any]:
    return {"payload_offset": 0, "payload_bytes": payload, "payload_crc32": 0}


def summary(found: Header | DmexpError) -> Any:
    """Everything that a reader returns, in a form that tells 1 from 1.0 and NaN from nothing."""
    if isinstance(found, DmexpError):
        return found.code, found.message
    fields = {
        key: repr(getattr(found, key))
        for key in (
            "format", "dtype", "source", "step", "num_params", "num_tensors", "flushed", "max_abs",
            "min_nonzero_abs", "subnormal", "writer", "config", "metadata", "extra", "tensor_extra",
        )
    }  # fmt: skip
    return fields, entries(found.index)


def entries(index: _native.HeaderIndex) -> list[Any]:
    """Every line of a tensor table."""
    return [index.get(place) for place in range(len(index))]


def compare(seed: int, count: int) -> Counter[str]:
    """Hold the two readers to each other; how many headers took which way is returned."""
    ways: Counter[str] = Counter()
    for text, payload, canonical in Fuzz(seed).cases(count):
        slow = general(text, payload)
        ways["general reads" if isinstance(slow, Header) else "general refuses"] += 1
        fast = quick(text, payload)
        if fast is None:
            continue
        ways["quick, as written" if canonical else "quick, mutated"] += 1
        assert summary(fast) == summary(slow), text
    return ways
