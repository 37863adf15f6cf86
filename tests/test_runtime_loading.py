"""The one load path: every check runs, and what is no export is refused with a command that works."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file as save_safetensors

import dmexp
from dmexp.cli import main
from dmexp.errors import (
    ChecksumError,
    DmexpError,
    FormatError,
    InvalidArgumentError,
    MissingDependencyError,
    NonFiniteError,
    ShapeMismatchError,
    UnsupportedError,
    UnsupportedFormatError,
)
from dmexp.runtime import open_model
from dmexp.runtime.loading import find_tokenizer
from dmexp.runtime.tokenizer import ByteTokenizer
from runtime_util import BYTE_CONFIG, byte_weights, write_byte_model

Capture = pytest.CaptureFixture[str]
COMMANDS = ("generate", "serve")


def damaged(path: Path, change: Any) -> Path:
    """A copy of a file with some bytes changed."""
    data = bytearray(path.read_bytes())
    change(data)
    copy = path.with_name(f"damaged-{path.name}")
    copy.write_bytes(data)
    return copy


def flip_last_bit(data: bytearray) -> None:
    data[-1] ^= 1


@pytest.mark.parametrize("low_memory", [False, True])
@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_a_flipped_bit_is_refused(tmp_path: Path, dtype: str, low_memory: bool) -> None:
    path = damaged(write_byte_model(tmp_path / "m.dmexp", dtype=dtype), flip_last_bit)
    with pytest.raises(ChecksumError, match="checksum") as caught:
        open_model(path, low_memory=low_memory)
    assert caught.value.path == str(path)


def rewritten(path: Path, change: Any, **facts: Any) -> Path:
    """A file as another writer makes it: no tensor checksums, and ``change`` on the payload."""
    import zlib

    dmexp.save_file(
        byte_weights(), path, dtype="f32", config=BYTE_CONFIG | facts, compat="dormouse"
    )
    data = bytearray(path.read_bytes())
    start = 24 + int.from_bytes(data[8:12], "little")
    payload = data[start:]
    change(payload)
    data[start:] = payload
    data[20:24] = zlib.crc32(payload).to_bytes(4, "little")
    path.write_bytes(data)
    return path


def test_a_value_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    def infinite(payload: bytearray) -> None:
        payload[8:12] = np.float32("inf").tobytes()

    with pytest.raises(NonFiniteError):
        open_model(rewritten(tmp_path / "inf.dmexp", infinite))


def test_a_header_that_claims_another_magnitude_is_refused(tmp_path: Path) -> None:
    def larger(payload: bytearray) -> None:
        payload[8:12] = np.float32(1e6).tobytes()

    with pytest.raises(FormatError, match="max_abs"):
        open_model(rewritten(tmp_path / "large.dmexp", larger))


def test_an_edited_config_is_refused(tmp_path: Path) -> None:
    path = rewritten(tmp_path / "m.dmexp", lambda payload: None)
    data = path.read_bytes().replace(b"hidden_size = 32", b"hidden_size = 16")
    path.write_bytes(data)
    with pytest.raises(ShapeMismatchError, match=r"model\.embed_tokens\.weight") as caught:
        open_model(path)
    assert len(caught.value.conflicts) > 10


@pytest.mark.parametrize("offset", [0, 1, 2, 3])
def test_weights_at_any_address_give_the_same_logits(tmp_path: Path, offset: int) -> None:
    # Without our padding the payload starts wherever the header ends.
    path = rewritten(tmp_path / "m.dmexp", lambda payload: None, note="x" * offset)
    aligned = open_model(write_byte_model(tmp_path / "aligned.dmexp")).model
    assert np.array_equal(open_model(path).model.logits([1, 2, 3]), aligned.logits([1, 2, 3]))


def test_a_model_that_the_runtime_lacks_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "m.dmexp"
    dmexp.save_file({"w": np.zeros(3, np.float32)}, path, config={"model_type": "rwkv"})
    with pytest.raises(UnsupportedError, match="'rwkv'") as caught:
        open_model(path)
    assert caught.value.path == str(path)


CORPUS = Path(__file__).resolve().parent / "corpus" / "dmexp" / "hostile"


HOSTILE: dict[str, Any] = json.loads((CORPUS / "manifest.json").read_text())


@pytest.mark.parametrize("name", sorted(HOSTILE))
def test_every_hostile_file_is_refused_for_what_is_wrong_with_it(name: str) -> None:
    with pytest.raises(DmexpError) as caught:
        open_model(CORPUS / name)
    assert caught.value.code == HOSTILE[name]["code"]


def test_a_file_without_a_config_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.dmexp"
    dmexp.save_file({"w": np.zeros(3, np.float32)}, path)
    with pytest.raises(UnsupportedError, match="no 'model_type'"):
        open_model(path)


# Other kinds of file


def write_gguf(path: Path) -> Path:
    path.write_bytes(b"GGUF\x03\0\0\0" + bytes(16))
    return path


def write_checkpoint(path: Path) -> Path:
    path.write_bytes(b"DMCK" + bytes(60))
    return path


def write_pickle(path: Path) -> Path:
    path.write_bytes(b"\x80\x02}q\x00." + bytes(30))
    return path


def write_directory(path: Path) -> Path:
    path.mkdir()
    config = json.dumps(BYTE_CONFIG | {"torch_dtype": "float32"})
    (path / "config.json").write_text(config)
    save_safetensors(byte_weights(), path / "model.safetensors", metadata={"format": "pt"})
    return path


KINDS = {
    "dormouse-checkpoint": (write_checkpoint, "training checkpoint", "dmexp export"),
    "pickle": (write_pickle, "pickle", "dmexp export"),
    "gguf": (write_gguf, "GGUF", "dmexp export"),
    "directory": (write_directory, "directory", "dmexp export"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_what_is_no_export_is_named_with_the_command_for_it(
    tmp_path: Path, kind: str, command: str, capsys: Capture
) -> None:
    make, words, way_out = KINDS[kind]
    path = make(tmp_path / "my model")
    assert main([command, str(path), *(["--port", "0"] if command == "serve" else [])]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert words in output.err
    assert way_out in output.err
    assert shlex.quote(str(path)) in output.err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_path_that_is_not_there_is_one_line(
    tmp_path: Path, command: str, capsys: Capture
) -> None:
    assert main([command, str(tmp_path / "none.dmexp")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_the_printed_command_works_when_it_is_pasted(tmp_path: Path) -> None:
    path = write_directory(tmp_path / "it's a model")
    with pytest.raises(UnsupportedFormatError) as caught:
        open_model(path)
    assert caught.value.kind == "directory"
    command = f"{shlex.quote(sys.executable)} -m {caught.value.command}"
    subprocess.run(command, shell=True, cwd=tmp_path, check=True, capture_output=True)
    (made,) = tmp_path.glob("*.dmexp")
    done = subprocess.run(
        [sys.executable, "-m", "dmexp", "generate", made, "--prompt", "x", "--max-tokens", "2"],
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


# Tokenizers and packages


def test_bytes_are_for_a_vocabulary_of_256_only(tmp_path: Path) -> None:
    from dmexp.runtime.config import read_config

    assert isinstance(
        find_tokenizer(tmp_path / "m.dmexp", {}, read_config(BYTE_CONFIG)), ByteTokenizer
    )
    with pytest.raises(InvalidArgumentError, match="257 is not that of bytes"):
        find_tokenizer(tmp_path / "m.dmexp", {}, read_config(BYTE_CONFIG | {"vocab_size": 257}))


@pytest.mark.parametrize(
    ("metadata", "says"),
    [({"tokenizer": {}}, "no text under 'json'"), ({"tokenizer": {"json": 5}}, "under 'json'")],
)
def test_metadata_without_a_tokenizer_in_it_is_refused(
    tmp_path: Path, metadata: dict[str, Any], says: str
) -> None:
    path = tmp_path / "m.dmexp"
    dmexp.save_file(byte_weights(), path, config=BYTE_CONFIG, metadata=metadata)
    with pytest.raises(FormatError, match=says):
        open_model(path)


def test_a_named_tokenizer_that_is_not_there_is_an_os_error(tmp_path: Path) -> None:
    path = write_byte_model(tmp_path / "m.dmexp")
    with pytest.raises(FileNotFoundError):
        open_model(path, tokenizer=tmp_path / "none.json")


@pytest.mark.parametrize("content", [b"\xff\xfe", b"", b"{}", b"[1, 2]"])
def test_a_named_tokenizer_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    path = write_byte_model(tmp_path / "m.dmexp")
    named = tmp_path / "tokenizer.json"
    named.write_bytes(content)
    with pytest.raises(DmexpError):
        open_model(path, tokenizer=named)


def test_without_the_tokenizers_package_the_way_out_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_byte_model(tmp_path / "m.dmexp")
    (tmp_path / "other.json").write_text("{}")
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    assert open_model(path).tokenizer.facts.eos_ids == ()
    with pytest.raises(MissingDependencyError, match=r"dmexp\[text\]"):
        open_model(path, tokenizer=tmp_path / "other.json")


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_without_the_server_packages_the_way_out_is_named(tmp_path: Path, missing: str) -> None:
    path = write_byte_model(tmp_path / "m.dmexp")
    code = (
        "import sys\n"
        f"sys.modules[{missing!r}] = None\n"
        "from dmexp.cli import main\n"
        f"sys.exit(main(['serve', {str(path)!r}, '--port', '0']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert f"needs the {missing} package: pip install 'dmexp[serve]'" in done.stderr


def test_a_byte_model_runs_without_any_optional_package(tmp_path: Path) -> None:
    path = write_byte_model(tmp_path / "m.dmexp")
    optional = (
        "tokenizers",
        "jinja2",
        "starlette",
        "uvicorn",
        "gguf",
        "torch",
        "rich",
        "matplotlib",
    )
    code = (
        "import sys\n"
        "from dmexp.cli import main\n"
        f"status = main(['generate', {str(path)!r}, '--prompt', 'x', '--max-tokens', '1'])\n"
        f"print([name for name in {optional!r} if name in sys.modules], file=sys.stderr)\n"
        "sys.exit(status)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=os.environ
    )
    assert (done.returncode, done.stderr) == (0, "[]\n")
