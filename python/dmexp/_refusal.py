"""Refusals that end in a command that works, with this file's own name in it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import PurePath

from ._kinds import Kind
from .errors import UnsupportedFormatError

# Double quotes outside and none inside, no dollar, backslash, backtick or exclamation mark: the
# same line works in sh, cmd and PowerShell. File names come as arguments, so any name is safe.
_FROM_PYTORCH = (
    'python -c "'
    "import sys, torch; from safetensors.torch import save_file; "
    "s = torch.load(sys.argv[1], map_location='cpu', weights_only=True); "
    "s = next((s[k] for k in ('state_dict', 'model_state_dict', 'model', 'module') "
    "if isinstance(s.get(k), dict)), s); "
    "save_file({k: v.detach().contiguous().clone() for k, v in s.items() "
    'if isinstance(v, torch.Tensor)}, sys.argv[2])"'
)
_FROM_NPY = (
    'python -c "import sys, numpy; '
    'numpy.savez(sys.argv[2], weight=numpy.load(sys.argv[1], allow_pickle=False))"'
)


def refusal(
    kind: Kind | None, path: str | os.PathLike[str] | None, head: bytes = b""
) -> UnsupportedFormatError:
    """The error for a file of another kind than the one asked for.

    Parameters
    ----------
    kind
        What the file is, from `sniff`; None where it is nothing known.
    path
        The file as the user named it; None for bytes in memory.
    head
        The file's first bytes where they are at hand; they make the message more precise.

    Returns
    -------
    UnsupportedFormatError
        Not raised, returned. Facts: ``kind`` (a name of `Kind`, or None) and ``command`` (what to
        paste into a shell, or None where no command helps). The message ends with the command.
    """
    name = "FILE" if path is None else os.fspath(path)
    if not head and path is not None:
        head = _read_head(name)
    if kind is None:
        sentence, command = _unknown(head), None
    elif kind in _ADVICE:
        sentence, command = _ADVICE[kind](name, head)
    else:
        sentence, command = f"this is {kind.words}. Convert it to .dmexp first", _export(name)
    message = f"{sentence}: {command}" if command else f"{sentence}."
    return UnsupportedFormatError(
        message,
        path=None if path is None else name,
        kind=None if kind is None else kind.value,
        command=command,
    )


def quoted(name: str) -> str:
    """A file name as it can be pasted into a shell, never mistaken for an option.

    What a terminal would not show as it is (control characters, bytes that are no UTF-8) becomes
    an escape that bash and zsh read back.
    """
    name = f"./{name}" if name.startswith("-") else name
    if name.isprintable():
        return shlex.quote(name)
    return f"$'{''.join(map(_escaped, name))}'"


def _escaped(letter: str) -> str:
    if letter in "'\\":
        return f"\\{letter}"
    if letter.isprintable():
        return letter
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(letter))


def _beside(name: str, suffix: str) -> str:
    """The same name with another suffix, and never that of a file that is there: a command that
    is pasted must not overwrite anything."""
    stem = str(PurePath(name).with_suffix("")) if PurePath(name).suffix else name
    return _unused(stem, suffix)


def _unused(stem: str, suffix: str) -> str:
    for middle in ("", ".converted", *(f".converted-{number}" for number in range(2, 100))):
        if not os.path.lexists(f"{stem}{middle}{suffix}"):
            break
    return f"{stem}{middle}{suffix}"


def _export(name: str) -> str:
    return f"dmexp export {quoted(name)} -o {quoted(_beside(name, '.dmexp'))}"


Advice = tuple[str, str | None]


def _unknown(head: bytes) -> str:
    shown = head[:8].hex(" ") or "nothing: the file is empty"
    return (
        f"this is no file of a kind that is known here. It starts with {shown}; a .dmexp file "
        "starts with 44 4d 45 58 50 52 54 01 (DMEXPRT and the version). dmexp export takes "
        "safetensors, GGUF, .npz, a Hugging Face directory, or a training checkpoint of dormouse"
    )


def _dmexp(name: str, head: bytes) -> Advice:
    return f"this is {Kind.DMEXP.words} already. See what is in it", f"dmexp info {quoted(name)}"


def _dormouse(name: str, head: bytes) -> Advice:
    carried = ""
    if len(head) >= 48:
        model, optimizer, teacher = (
            int.from_bytes(head[i : i + 8], "little") for i in (16, 24, 32)
        )
        carried = f" ({model} bytes of model, {optimizer} of optimizer, {teacher} of teacher)"
    return (
        f"this is {Kind.DORMOUSE.words}: it carries the optimizer's state beside the weights"
        f"{carried}, and is no model to hand out. Export the model from it",
        f"dmexp export {quoted(name)}",
    )


def _pickle(kind: Kind) -> Callable[[str, bytes], Advice]:
    def advice(name: str, head: bytes) -> Advice:
        tensors = _beside(name, ".safetensors")
        return (
            f"this is {kind.words}. Loading a pickle can run any code that is in it, so it is never "
            "opened here. Where PyTorch and safetensors are installed, this converts it safely",
            f"{_FROM_PYTORCH} {quoted(name)} {quoted(tensors)} && {_export(tensors)}",
        )

    return advice


def _npy(name: str, head: bytes) -> Advice:
    archive = _beside(name, ".npz")
    return (
        f"this is {Kind.NPY.words}. Give it one",
        f"{_FROM_NPY} {quoted(name)} {quoted(archive)} && {_export(archive)}",
    )


def _big_endian(name: str, head: bytes) -> Advice:
    return (
        f"this is {Kind.GGUF_SWAPPED.words}, which is not read here. The gguf package turns it round "
        "in place",
        f"gguf-convert-endian {quoted(name)} little && {_export(name)}",
    )


def _git_lfs(name: str, head: bytes) -> Advice:
    size = ""
    for line in head.split(b"\n"):
        if line.startswith(b"size ") and line[5:].strip().isdigit() and len(line) < 30:
            size = f" of {int(line[5:])} bytes"
    parent = str(PurePath(name).parent)
    there = "" if parent in (".", "") else f"cd {quoted(parent)} && "
    return (
        f"this is {Kind.GIT_LFS.words}, a few lines of text in place of the real file{size}. "
        "Fetch the real one",
        f"{there}git lfs pull",
    )


def _page(kind: Kind) -> Callable[[str, bytes], Advice]:
    def advice(name: str, head: bytes) -> Advice:
        return (
            f"this is {kind.words}, not a model: the server answered the download with an error or a "
            "login page. Download it again and look at the address (on the Hugging Face hub it has "
            "/resolve/ where a page has /blob/)"
        ), None

    return advice


def _packed(kind: Kind, unpack: str, suffix: str) -> Callable[[str, bytes], Advice]:
    def advice(name: str, head: bytes) -> Advice:
        bare = name.removesuffix(suffix) if name.endswith(suffix) else f"{name}.unpacked"
        inside = _unused(*os.path.splitext(bare))
        return (
            f"this is {kind.words}. Unpack it first",
            f"{unpack} {quoted(name)} > {quoted(inside)} && dmexp export {quoted(inside)}",
        )

    return advice


def _archive(kind: Kind, unpack: str) -> Callable[[str, bytes], Advice]:
    def advice(name: str, head: bytes) -> Advice:
        return (
            f"this is {kind.words}. Unpack it and export what is inside",
            f"{unpack} {quoted(name)}",
        )

    return advice


def _json(name: str, head: bytes) -> Advice:
    if b'"weight_map"' in head:
        return (
            "this is the index of a sharded checkpoint. Export the directory that holds it",
            f"dmexp export {quoted(str(PurePath(name).parent))}",
        )
    return (
        f"this is {Kind.JSON.words}, not a model. Name the weights, or the directory that holds them "
        "and the config"
    ), None


def _foreign(kind: Kind, way_out: str) -> Callable[[str, bytes], Advice]:
    def advice(name: str, head: bytes) -> Advice:
        return f"this is {kind.words}, which is not read here. {way_out}", None

    return advice


_KERAS = (
    "Load the model with Keras, save each of its weights by name with numpy.savez, and export the "
    ".npz"
)

_ADVICE: dict[Kind, Callable[[str, bytes], Advice]] = {
    Kind.DMEXP: _dmexp,
    Kind.DORMOUSE: _dormouse,
    Kind.PYTORCH: _pickle(Kind.PYTORCH),
    Kind.PICKLE: _pickle(Kind.PICKLE),
    Kind.NPY: _npy,
    Kind.GGUF_SWAPPED: _big_endian,
    Kind.GIT_LFS: _git_lfs,
    Kind.HTML: _page(Kind.HTML),
    Kind.XML: _page(Kind.XML),
    Kind.JSON: _json,
    Kind.GZIP: _packed(Kind.GZIP, "gunzip -c", ".gz"),
    Kind.BZIP2: _packed(Kind.BZIP2, "bunzip2 -c", ".bz2"),
    Kind.XZ: _packed(Kind.XZ, "xz -dc", ".xz"),
    Kind.ZSTD: _packed(Kind.ZSTD, "zstd -dc", ".zst"),
    Kind.TAR: _archive(Kind.TAR, "tar -xf"),
    Kind.ZIP: _archive(Kind.ZIP, "unzip"),
    Kind.KERAS: _foreign(Kind.KERAS, _KERAS),
    Kind.HDF5: _foreign(Kind.HDF5, _KERAS),
    Kind.GGML: _foreign(
        Kind.GGML, "Take the same model as GGUF or safetensors; llama.cpp has converters"
    ),
    Kind.ONNX: _foreign(
        Kind.ONNX,
        "It holds a graph of operations whose weights often have generated names. Take the same "
        "model as safetensors",
    ),
}


def _read_head(name: str) -> bytes:
    try:
        with open(name, "rb") as file:
            return file.read(512)
    except OSError:
        # The refusal is about the kind; whoever opens the file reports what is wrong with it.
        return b""
