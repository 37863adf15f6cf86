"""Content decides what a file is, and a refusal ends in a command that works."""

from __future__ import annotations

import ast
import gzip
import io
import json
import os
import shlex
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dmexp
from dmexp._refusal import quoted
from dmexp._sniff import Kind, refusal, sniff
from dmexp.errors import UnsupportedFormatError

CORPUS = Path(__file__).parent / "corpus" / "dmexp"


def zip_of(*names: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in names:
            archive.writestr(name, b"\x80\x02.")
    return buffer.getvalue()


def tar_of(name: str) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(name))
    return buffer.getvalue()


def npy() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(3, np.float32))
    return buffer.getvalue()


def safetensors(before: bytes = b"") -> bytes:
    header = before + json.dumps(
        {"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
    ).encode().ljust(1)
    return struct.pack("<Q", len(header)) + header + b"\0\0\x80\x3f"


LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4096\n"

KINDS = {
    "dmexp": (b"DMEXPRT\x01" + b"\0" * 16, Kind.DMEXP),
    "dmexp of another version": (b"DMEXPRT\x07" + b"\0" * 16, Kind.DMEXP),
    "dormouse": (b"DMCK\0\x02\0\0" + b"\0" * 40, Kind.DORMOUSE),
    "safetensors": (safetensors(), Kind.SAFETENSORS),
    "safetensors, space before the object": (safetensors(b" \n\t\r"), Kind.SAFETENSORS),
    "safetensors, length like a pickle's opening": (
        struct.pack("<Q", 0x0280) + b"{" + b" " * 0x27F,
        Kind.SAFETENSORS,
    ),
    "gguf": (b"GGUF\x03\0\0\0" + b"\0" * 16, Kind.GGUF),
    "gguf, big-endian version": (b"GGUF\0\0\0\x03" + b"\0" * 16, Kind.GGUF_SWAPPED),
    "gguf, every byte turned round": (b"FUGG\0\0\0\x03" + b"\0" * 16, Kind.GGUF_SWAPPED),
    "ggml": (b"lmgg" + b"\0" * 16, Kind.GGML),
    "ggjt": (b"tjgg" + b"\0" * 16, Kind.GGML),
    "npz": (zip_of("a.npy", "b/c.npy"), Kind.NPZ),
    "npy": (npy(), Kind.NPY),
    "pytorch": (zip_of("archive/data.pkl", "archive/data/0"), Kind.PYTORCH),
    "pytorch, list of names not first": (zip_of("archive/version", "x/data.pkl"), Kind.PYTORCH),
    "pickle 2": (b"\x80\x02}q\0.", Kind.PICKLE),
    "pickle 4": (b"\x80\x04\x95\x10\0\0\0\0\0\0\0}.", Kind.PICKLE),
    "pytorch, the format before zip": (
        b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.",
        Kind.PICKLE,
    ),
    "pickle 0": (b"(dp0\nS'a'\np1\nI1\ns.", Kind.PICKLE),
    "zip": (zip_of("model.txt"), Kind.ZIP),
    "zip, truncated": (zip_of("model.txt")[:60], Kind.ZIP),
    "pytorch, truncated": (zip_of("m/data.pkl", "m/data/0")[:60], Kind.PYTORCH),
    "zip, empty": (zip_of(), Kind.ZIP),
    "keras": (zip_of("metadata.json", "config.json", "model.weights.h5"), Kind.KERAS),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + b"\0" * 16, Kind.HDF5),
    "onnx, named producer": (b"\x08\x07\x12\x07pytorch\x1a\x052.1.0:\x00", Kind.ONNX),
    "onnx, graph at once": (b"\x08\x03\x3a\x10" + b"\0" * 16, Kind.ONNX),
    "git lfs": (LFS, Kind.GIT_LFS),
    "html": (b"\n<!DOCTYPE html>\n<html>", Kind.HTML),
    "html, lower case after a mark": (b"\xef\xbb\xbf<html lang='en'>", Kind.HTML),
    "xml": (b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>", Kind.XML),
    "json": (b'{"error": "not found"}', Kind.JSON),
    "gzip": (gzip.compress(b"x", mtime=0), Kind.GZIP),
    "bzip2": (b"BZh91AY&SY" + b"\0" * 8, Kind.BZIP2),
    "xz": (b"\xfd7zXZ\0" + b"\0" * 8, Kind.XZ),
    "zstd": (b"\x28\xb5\x2f\xfd" + b"\0" * 8, Kind.ZSTD),
    "tar": (tar_of("model.safetensors"), Kind.TAR),
    "empty": (b"", None),
    "one byte": (b"\x80", None),
    "noise": (bytes(range(200, 256)), None),
    "text": (b"once upon a time", None),
    "safetensors with an impossible length": (b"\xff" * 8 + b"{", None),
}


@pytest.mark.parametrize("case", KINDS)
def test_p31_content_decides_whatever_the_suffix(case: str, tmp_path: Path) -> None:
    data, expected = KINDS[case]
    for name in ("model.safetensors", "model.bin", "model.PT", "model"):
        path = tmp_path / name
        path.write_bytes(data)
        assert sniff(path) is expected
        assert sniff(str(path)) is expected


@pytest.mark.parametrize("case", [case for case in KINDS if "list of names" not in case])
def test_the_first_bytes_are_enough(case: str) -> None:
    data, expected = KINDS[case]
    if expected in (Kind.KERAS, Kind.NPZ, Kind.PYTORCH):
        # Which archive it is stands in a list at the end; the first name alone may not tell.
        assert sniff(data) in (expected, Kind.ZIP)
    else:
        assert sniff(data) is expected


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_has_a_refusal_that_names_it(kind: Kind) -> None:
    error = refusal(kind, "somewhere/my model.bin", b"\0" * 64)
    assert isinstance(error, UnsupportedFormatError)
    assert error.code == "UNSUPPORTED_FORMAT"
    assert error.kind == kind.value
    assert kind.words in error.message or (kind is Kind.DMEXP and ".dmexp" in error.message)
    assert error.path == "somewhere/my model.bin"
    assert "\n" not in error.message
    if error.command is not None:
        assert error.message.endswith(error.command)


@pytest.mark.parametrize(
    "kind", [kind for kind in Kind if kind.exportable and kind is not Kind.DMEXP]
)
@pytest.mark.parametrize("name", ["model.bin", "my model's.bin", "-dash.bin", "$(x).bin"])
def test_the_command_survives_a_shell(kind: Kind, name: str) -> None:
    error = refusal(kind, name, b"\0" * 64)
    words = shlex.split(error.command)
    assert words[:2] == ["dmexp", "export"]
    assert os.path.normpath(words[2]) == name
    assert not words[2].startswith("-")


def test_bytes_in_memory_get_a_placeholder() -> None:
    error = refusal(Kind.GGUF, None, b"GGUF\x03\0\0\0")
    assert error.path is None
    assert "dmexp export FILE" in error.command


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    "name",
    [b"new\nline", b"\x1b[31m'7\\ $x", b"caf\xe9", "\u202eü\u00a0".encode(), b"-\t", b"'\x7f1"],
)
def test_a_name_that_no_terminal_shows_survives_bash(name: bytes) -> None:
    word = quoted(os.fsdecode(name))
    assert word.isprintable()
    echo = [
        sys.executable,
        "-c",
        "import os, sys; sys.stdout.buffer.write(os.fsencode(sys.argv[1]))",
    ]
    done = subprocess.run(
        ["bash", "-c", f"{shlex.join(echo)} {word}"], capture_output=True, check=True
    )
    assert done.stdout == (b"./" + name if name.startswith(b"-") else name)


def test_p31_a_pointer_names_the_size_it_stands_for_and_the_command(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(LFS)
    error = refusal(sniff(path), path)
    assert "a Git LFS pointer" in error.message
    assert "4096 bytes" in error.message
    assert error.command == f"cd {shlex.quote(str(tmp_path))} && git lfs pull"


def test_p31_an_html_page_is_named() -> None:
    error = refusal(Kind.HTML, "model.safetensors")
    assert "an HTML page" in error.message
    assert error.command is None


def test_a_training_checkpoint_says_what_it_carries_and_how_to_export_it() -> None:
    path = CORPUS / "checkpoint" / "latest.bin"
    error = refusal(sniff(path), path)
    assert "training checkpoint" in error.message
    assert "optimizer" in error.message
    assert "136320 bytes of model" in error.message
    assert error.command == f"dmexp export {shlex.quote(str(path))}"


def test_an_index_points_at_its_directory() -> None:
    head = b'{"metadata": {}, "weight_map": {}}'
    assert refusal(Kind.JSON, "big/model.safetensors.index.json", head).command == (
        "dmexp export big"
    )


@pytest.mark.parametrize("name", sorted(json.loads((CORPUS / "hostile/manifest.json").read_text())))
def test_hostile_files_of_another_kind_are_refused_as_the_manifest_asks(name: str) -> None:
    expected = json.loads((CORPUS / "hostile" / "manifest.json").read_text())[name]
    kind = sniff(CORPUS / "hostile" / name)
    if expected["code"] != "UNSUPPORTED_FORMAT":
        # Too short to have a magic, or with ours: the reader has the say.
        assert kind in (Kind.DMEXP, None)
        return
    error = refusal(kind, CORPUS / "hostile" / name)
    assert kind is not Kind.DMEXP
    for fragment in expected["message_contains"]:
        assert fragment in str(error)


def test_no_command_writes_over_a_file_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for taken in ("m.safetensors", "m.dmexp", "m.npz", "m", "m.converted.npz"):
        Path(taken).touch()
    words = shlex.split(refusal(Kind.PYTORCH, "m.bin", b"PK").command)
    assert words[3:5] == ["m.bin", "m.converted.safetensors"]
    assert refusal(Kind.NPY, "m.npy", b"x").command.split()[-1] == "m.converted-2.dmexp"
    assert "> m.converted && " in refusal(Kind.GZIP, "m.gz", b"x").command
    assert refusal(Kind.GGUF, "m.gguf", b"x").command == "dmexp export m.gguf -o m.converted.dmexp"


@given(st.binary(max_size=400))
def test_any_bytes_are_some_kind_or_none_and_can_be_refused(data: bytes) -> None:
    kind = sniff(data)
    error = refusal(kind, "some file", data)
    assert error.code == "UNSUPPORTED_FORMAT"
    assert error.kind == (None if kind is None else kind.value)


@given(st.sampled_from(sorted(KINDS)), st.integers(0, 400), st.binary(min_size=1, max_size=3))
def test_a_damaged_file_of_some_kind_is_still_told_without_an_error(
    case: str, place: int, damage: bytes
) -> None:
    data = KINDS[case][0]
    damaged = data[:place] + damage + data[place + len(damage) :]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m"
        path.write_bytes(damaged)
        kind = sniff(path)
        assert kind is None or refusal(kind, path).kind == kind.value


FAKE_TORCH = """
class Tensor:
    def __init__(self, value): self.value = value
    def detach(self): return self
    def contiguous(self): return self
    def clone(self): return Tensor(self.value)
def load(path, map_location, weights_only):
    assert map_location == "cpu" and weights_only is True
    return eval(open(path).read(), {"T": Tensor})
"""
FAKE_SAVE = """
def save_file(tensors, path):
    open(path, "w").write(repr({name: tensor.value for name, tensor in tensors.items()}))
"""


@pytest.mark.parametrize(
    "content",
    [
        "{'w': T(1), 'tied': T(2), 'epoch': 3}",
        "{'state_dict': {'w': T(1), 'tied': T(2)}, 'optimizer': {}}",
        "{'model_state_dict': {'w': T(1), 'tied': T(2)}}",
        "{'module': {'w': T(1), 'tied': T(2), 'n': 1}}",
    ],
)
@pytest.mark.skipif(os.name == "nt", reason="runs the line in sh")
def test_p60_the_line_for_pytorch_users_runs_as_printed(content: str, tmp_path: Path) -> None:
    stubs = tmp_path / "stubs"
    (stubs / "safetensors").mkdir(parents=True)
    (stubs / "torch.py").write_text(FAKE_TORCH)
    (stubs / "safetensors" / "__init__.py").write_text("")
    (stubs / "safetensors" / "torch.py").write_text(FAKE_SAVE)
    (stubs / "python").symlink_to(sys.executable)
    (stubs / "dmexp").write_text('#!/bin/sh\nprintf "%s\\n" "$@" > called\n')
    (stubs / "dmexp").chmod(0o755)
    name = "pytorch model's $HOME.bin"
    (tmp_path / name).write_text(content)
    command = refusal(Kind.PYTORCH, name, b"PK\x03\x04").command
    environment = {"PATH": f"{stubs}:/usr/bin:/bin", "PYTHONPATH": str(stubs)}
    subprocess.run(command, shell=True, check=True, cwd=tmp_path, env=environment, timeout=60)
    converted = "pytorch model's $HOME.safetensors"
    assert ast.literal_eval((tmp_path / converted).read_text()) == {"w": 1, "tied": 2}
    assert (tmp_path / "called").read_text().splitlines() == [
        "export",
        converted,
        "-o",
        "pytorch model's $HOME.dmexp",
    ]


@pytest.mark.skipif(os.name == "nt", reason="runs the line in sh")
def test_the_line_for_a_single_array_runs_as_printed(tmp_path: Path) -> None:
    (tmp_path / "one.npy").write_bytes(npy())
    command = refusal(Kind.NPY, "one.npy").command.split(" && ")[0]
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
    subprocess.run(command, shell=True, check=True, cwd=tmp_path, env=environment, timeout=60)
    with np.load(tmp_path / "one.npz") as archive:
        assert archive["weight"].shape == (3,)


def test_no_code_path_imports_pickle() -> None:
    package = Path(dmexp.__file__).parent
    unpicklers = {
        "pickle",
        "_pickle",
        "cPickle",
        "dill",
        "cloudpickle",
        "joblib",
        "shelve",
        "marshal",
    }
    files = sorted(package.rglob("*.py"))
    assert len(files) > 10
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                words = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
                modules = (
                    [str(word) for word in words]
                    if called in ("import_module", "__import__")
                    else []
                )
                allowed = [
                    keyword
                    for keyword in node.keywords
                    if keyword.arg == "allow_pickle"
                    and not (
                        isinstance(keyword.value, ast.Constant) and keyword.value.value is False
                    )
                ]
                assert not allowed, f"{file}:{node.lineno}: allow_pickle may only be False"
            else:
                continue
            found = unpicklers & {module.split(".")[0] for module in modules}
            assert not found, f"{file}:{node.lineno}: imports {found}"
