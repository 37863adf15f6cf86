"""A config that no longer describes its weights is refused wherever a file is opened."""

from __future__ import annotations

import io
import re
import zlib
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

import dmexp
from dmexp._export import export
from dmexp.cli import main
from dmexp.errors import ShapeMismatchError
from dmexp.loaders import open_source
from families_util import CHECKPOINTS
from hf_util import corpus


def halved(path: Path) -> None:
    """Halve ``hidden_size`` in the header's config, and repair the header's checksum."""
    data = path.read_bytes()
    length = int.from_bytes(data[8:12], "little")
    header = data[24 : 24 + length].decode()
    start = header.index('config = """')
    end = header.index('\n"""', start)
    config = re.sub(
        r"^hidden_size = (\d+)$",
        lambda found: f"hidden_size = {int(found[1]) // 2}",
        header[start:end],
        count=1,
        flags=re.MULTILINE,
    )
    assert config != header[start:end]
    text = header[:start] + config + header[end : header.index("# header-crc32")]
    text += f'# header-crc32 = "{zlib.crc32(text.encode()):08x}"\n'
    padded = text.encode().ljust(length, b"\n")
    path.write_bytes(data[:24] + padded + data[24 + length :])


def run(*arguments: object) -> tuple[int, str]:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        status = main([str(argument) for argument in arguments])
    return status, out.getvalue()


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_halving_hidden_size_in_a_file_is_refused_everywhere(tmp_path: Path, name: str) -> None:
    path = tmp_path / "m.dmexp"
    with open_source(corpus(name)) as source:
        report = export(source, path, dtype="f32")
    assert report.shapes.status == "yes"
    assert dmexp.verify(path).ok
    status, text = run("verify", path)
    assert (status, "ok" in text) == (0, True)
    halved(path)
    embedding = re.compile(r"(embed\w*|embeddings)\.weight")
    for call in (dmexp.load_file, dmexp.safe_open, dmexp.verify, dmexp.info):
        with pytest.raises(ShapeMismatchError, match=embedding):
            call(path)
    with pytest.raises(ShapeMismatchError, match=embedding):
        dmexp.load(path.read_bytes())
    for command in ("verify", "info"):
        status, text = run(command, path)
        assert status == 1, command
        assert embedding.search(text), command
        assert "config" in text
