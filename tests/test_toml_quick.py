"""The quick TOML reader: it reads as tomli does, or leaves the text to it."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
import tomli

from dmexp import _native
from dmexp._header_toml import parse_toml


def shape(value: Any) -> Any:
    """A value in a form that tells 1 from 1.0 and from True, and one order of keys from another."""
    if isinstance(value, dict):
        return [(key, shape(below)) for key, below in value.items()]
    if isinstance(value, list):
        return [shape(below) for below in value]
    return type(value), repr(value)


READ = [
    "",
    "\n \t\n# c\n",
    "a = 1",
    "a=1#c\nb\t=\t2",
    "'a b' = 1\n\"c\\td\" = 2\n'' = 3\n1-2_3 = 4\n",
    "a = +1\nb = -0\nc = 1_000\nd = 9223372036854775807\ne = -9223372036854775808\n",
    "a = 0xDeadBeef\nb = 0o17\nc = 0b1_0\n",
    "a = 1.5\nb = -0.0\nc = 1e5\nd = 1_0.2_5E+0_1\ne = 6.02e-23\nf = 1e400\ng = 5e-324\n",
    "a = 0.1\nb = 3.4028234663852886e38\nc = 2.2250738585072011e-308\n",
    "a = true\nb = false\n",
    'a = ""\nb = "\\b\\t\\n\\f\\r\\"\\\\\\u00e9\\U0001F642"\nc = "é🙂\t"\n',
    "a = ''\nb = 'c\\d\"e'\n",
    'a = """\nb\n"c" ""d"" """""\ne = """"""\nf = """a"""\n',
    'a = """\nb \\\n\n   c\\  \t\n d\\ue000"""\n',
    "a = '''\nb\\\n'c' ''d'' '''''\ne = ''''''\n",
    "a = []\nb = [1, 2 ,3,]\nc = [ # c\n\n 1 # d\n , ]\nd = [[], [[1]], 'x', 1.0]\n",
    "a = {}\nb = { c = 1, d = { e = [ { f = 2 } ] } }\ng = {h.i = 1, h.j = 2}\n",
    "a.b = 1\na.c.d = 2\n\"e\".'f' . g = 3\n",
    '[a]\nb = 1\n[c.d]\n[ e . "f" ]\nx = 1\n[c]\ny = 2\n',
    "[[a]]\n[[a]]\nb = 1\n[[a.c]]\n[a.c.d]\n[[a]]\n[e]\n[[e.f]]\n",
    "a = 1\r\nb = '''\r\nc\r\n'''\r\n",
    "\n".join(f"k{n} = {n}" for n in range(100)),
    "".join(f"[t{n}]\nx = {n}\n" for n in range(100)),
    "a = " + "[" * 32 + "]" * 32,
]


@pytest.mark.parametrize("text", READ, ids=range(len(READ)))
def test_common_toml_is_read_as_tomli_reads_it(text: str) -> None:
    found = _native.parse_toml(text)
    assert found is not None
    assert shape(found) == shape(tomli.loads(text)) == shape(parse_toml(text))


LEFT = [
    # Right, and not common enough.
    "a = inf",
    "a = -nan",
    "a = " + "1" * 129,
    "a = 0." + "1" * 129,
    "".join(f"[t{n}]\n" for n in range(100_000)),
    "a = [" + "[]," * 200_000 + "]",
    "a = 1979-05-27T07:32:00Z",
    "a = 1979-05-27",
    "a = 07:32:00",
    "a = 9223372036854775808",
    "a = " + "[" * 33 + "]" * 33,
    "a = " + "{a = " * 33 + "1" + "}" * 33,
    ".".join("a" * 40) + " = 1",
    "[a.b]\n[a]\nb.c = 1\n",
    # What only TOML 1.1 allows.
    'a = "\\e"',
    'a = "\\x41"',
    "a = { b = 1, }",
    "a = {\nb = 1 }",
    # Wrong.
    "a",
    "a =",
    "= 1",
    "a = 1 b = 2",
    "a = 1\na = 2",
    "a = 01",
    "a = 1__0",
    "a = _1",
    "a = 1_",
    "a = 1.",
    "a = .1",
    "a = 1.e5",
    "a = 1e",
    "a = 0x",
    "a = 0x_1",
    "a = +0x1",
    "a = 0b2",
    "a = truex",
    "a = True",
    'a = "',
    "a = '\n'",
    'a = "\n"',
    'a = """""""""',
    'a = """',
    "a = '''",
    'a = "\\q"',
    'a = "\\u12"',
    'a = "\\uD800"',
    'a = "\\u+041"',
    'a = "\\U00110000"',
    'a = "\0"',
    'a = "\x7f"',
    "a = '\x1f'",
    "# \x01",
    "a = 1\r",
    "\rb = 1",
    "a = [1 2]",
    "a = [,]",
    "a = [1",
    "a = { b = 1 c = 2 }",
    "a = { b = 1, b = 2 }",
    "a = { b = 1, b.c = 2 }",
    "a = { b",
    "[a",
    "[]",
    "[a]]",
    "[[a]",
    "[ [a]]",
    "[[a] ]",
    "[a] b = 1",
    "[a]\n[a]",
    "[[a]]\n[a]",
    "[a]\n[[a]]",
    "a = []\n[[a]]",
    "a = [{}]\n[[a]]",
    "a = {}\n[a]",
    "a = {}\n[a.b]",
    "a = {}\na.b = 1",
    "a = 1\n[a]",
    "a = 1\na.b = 1",
    "a = 1\n[[a.b]]",
    "a.b = 1\n[a]",
    "a.b = 1\na.b.c = 1",
    "[a]\nb = 1\n[a.b]",
    "[a.b]\n[a]\nb = 1",
    "[a.b.c]\n[a]\nb.c = 1",
    "[[a]]\nb = 1\n[a.b]",
    "é = 1",
    '"""a""" = 1',
    "a. = 1",
    ".a = 1",
    "a..b = 1",
    "\ufeffa = 1",
]


@pytest.mark.parametrize("text", LEFT, ids=range(len(LEFT)))
def test_what_is_rare_or_wrong_is_left_alone(text: str) -> None:
    assert _native.parse_toml(text) is None


def test_a_number_beyond_64_bits_is_refused_after_all() -> None:
    with pytest.raises(ValueError, match="beyond TOML's 64 bits"):
        parse_toml("a = [{ b = 9223372036854775808 }]")


def test_a_date_is_read_after_all() -> None:
    assert str(parse_toml("a = 1979-05-27")["a"]) == "1979-05-27"


class Documents:
    """Random TOML, most of it right, then changed in places."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def key(self) -> str:
        pick = self._random
        parts = [pick.choice(["a", "b", "c", "'a'", '"b"', '"\\u0061"', "-", "1"])]
        while pick.random() < 0.25:
            parts.append(pick.choice(["a", "b", "c", '"a"']))
        return pick.choice([".", " . ", "."]).join(parts)

    def string(self) -> str:
        pick = self._random
        letters = ["a", " ", "\t", "é", "#", "[", "=", "'", '"', '""', "''", "\\", "\\n", "\\u0041"]
        letters += ["\n", "\\\n ", "\r\n", "\x7f", "\0", "🙂", "\\U0001F642", "\\x41", "\\e", "\r"]
        text = "".join(pick.choice(letters) for _ in range(pick.randint(0, 6)))
        quote = pick.choice(['"', "'", '"""', "'''"])
        return f"{quote}{text}{quote}"

    def number(self) -> str:
        pick = self._random
        fixed = ["0", "-1", "+7", "1_0", "0x1F", "0o7", "0b1", "1.5", "-0.0", "1e3", "5E-1", "inf"]
        digits = "".join(pick.choice("0123456789_.eE+-xob:TZ") for _ in range(pick.randint(1, 7)))
        return pick.choice([*fixed, digits, "nan", "1979-05-27", str(2**63 - 1), str(2**63)])

    def value(self, depth: int = 0) -> str:
        pick = self._random
        kind = pick.randrange(5 if depth > 2 else 8)
        if kind <= 1:
            return self.string()
        if kind <= 3:
            return self.number()
        if kind == 4:
            return pick.choice(["true", "false"])
        values = [self.value(depth + 1) for _ in range(pick.randint(0, 3))]
        if kind == 5:
            pairs = [f"{self.key()} = {value}" for value in values]
            return "{" + pick.choice([", ", ","]).join(pairs) + pick.choice(["}", " }", "}", ",}"])
        gap = pick.choice([", ", ",", ",\n ", " , # c\n"])
        return "[" + gap.join(values) + pick.choice(["]", " ]", ",]", "\n]"])

    def document(self) -> str:
        pick = self._random
        lines = []
        for _ in range(pick.randint(0, 7)):
            kind = pick.randrange(8)
            if kind <= 3:
                lines.append(f"{self.key()} = {self.value()}")
            elif kind == 4:
                lines.append(f"[{self.key()}]")
            elif kind == 5:
                lines.append(f"[[{self.key()}]]")
            else:
                lines.append(pick.choice(["", "# c", " ", "\t# é"]))
        text = "".join(
            line + pick.choice(["\n", "\n", "\n", " # c\n", "\r\n", ""]) for line in lines
        )
        if pick.random() < 0.3 and text:
            at = pick.randrange(len(text))
            text = (
                text[:at] + pick.choice(["", "\n", '"', "'", "=", ".", "]", "\\"]) + text[at + 1 :]
            )
        return text


def compare(seed: int, count: int) -> Counter[str]:
    """Hold the two readers to each other; how many documents took which way is returned."""
    ways: Counter[str] = Counter()
    documents = Documents(seed)
    for _ in range(count):
        text = documents.document()
        found = _native.parse_toml(text)
        try:
            expected: Any = tomli.loads(text)
        except ValueError:
            expected = None
        ways["right" if expected is not None else "wrong"] += 1
        if found is not None:
            ways["read"] += 1
            assert expected is not None, text
            assert shape(found) == shape(expected), text
    return ways


def test_random_documents_are_read_as_tomli_reads_them() -> None:
    ways = compare(seed=1, count=6000)
    # So that the comparison cannot become one of nothing with nothing.
    assert min(ways["right"], ways["wrong"], ways["read"]) > 1000
    assert ways["read"] > 0.6 * ways["right"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_random_documents_are_read_as_tomli_reads_them(seed: int) -> None:
    compare(seed, count=100_000)
