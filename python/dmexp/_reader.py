"""`safe_open`, `load_file` and `load`: one file in, arrays out."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self

import numpy as np

from ._arrays import Array, new_array
from ._check import Tally, check_finite, check_payload, check_sums, tensor_damage
from ._dtypes import NUMPY_DTYPES, WIDTH_BYTES, storage_dtype
from ._header import Header
from ._open import Opened, Request
from ._threads import resolve
from .errors import InvalidArgumentError, TensorNotFoundError

Path = str | bytes | os.PathLike[Any]

_COMPARED_AT_MOST = 50


class TensorSlice:
    """One tensor, cut before it is used. Made by `safe_open.get_slice`."""

    __slots__ = ("_array", "_dtype")

    def __init__(self, array: Array, dtype: str) -> None:
        self._array = array
        self._dtype = dtype

    def get_shape(self) -> list[int]:
        """The dims of the whole tensor."""
        return list(self._array.shape)

    def get_dtype(self) -> str:
        """``"f32"``, ``"f16"`` or ``"bf16"``."""
        return self._dtype

    def __getitem__(self, index: Any) -> Array:
        """A read-only view of a part, by NumPy's basic indexing; a copy for advanced indexing."""
        return np.asarray(self._array[index])


class safe_open:
    """Open a file and read single tensors from it, without copying.

    A context manager and a mapping of names to arrays. Prefix, length, header and its arithmetic,
    and whether the config describes the tensors, are checked at once. A tensor's own checksum and
    the finiteness of its values are checked the first time that it is read; where the file has no
    tensor checksums, the payload's is checked once instead.

    Parameters
    ----------
    path : str, bytes or path-like
        A ``.dmexp`` file. It is mapped; where that is not possible (pipes, some network mounts)
        it is read into memory.
    verify : bool
        False skips the checks of the payload and of the config.

    Attributes
    ----------
    header : Header

    Raises
    ------
    TruncatedError, UnsupportedFormatError, UnsupportedError, ChecksumError, FormatError,
    UnsupportedDtypeError, SizeOverflowError, ShapeMismatchError
        As the format document lists them.
    OSError
        The file cannot be opened.

    Notes
    -----
    Arrays are read-only, of the stored dtype (bf16 is ``ml_dtypes.bfloat16``), may be unaligned,
    and stay valid after `close`. A file that shrinks while it is open gives `TruncatedError` at
    the next access; the process lives.

    Examples
    --------
    >>> import numpy as np, dmexp
    >>> _ = dmexp.save_file({"w": np.float32([1.0, -2.5])}, "w.dmexp")
    >>> with dmexp.safe_open("w.dmexp") as f:
    ...     f.keys(), f["w"].dtype, f.get_slice("w")[:1].astype("f4")
    (['w'], dtype(bfloat16), array([1.], dtype=float32))
    """

    def __init__(self, path: Path, verify: bool = True) -> None:
        opened = Opened(path)
        if verify and not opened.header.index.lacks_config:
            with opened.named():
                opened.header.shapes.require()
        self._opened: Opened | None = opened
        self._verify = verify
        self._checked: set[int] = set()
        self._tallies: list[Tally] | None = None
        self.header: Header = opened.header

    def keys(self) -> list[str]:
        """All names, in file order."""
        return self.header.index.names()

    def metadata(self) -> dict[str, Any]:
        """The header's metadata table; empty where there is none."""
        return self.header.metadata

    def get_tensor(self, name: str) -> Array:
        """One tensor as a read-only array over the file's bytes, in the stored dtype.

        Raises
        ------
        TensorNotFoundError
            With names that look alike. It is a KeyError.
        ChecksumError, NonFiniteError
            The tensor's bytes are not those that were written, or are not finite.
        TruncatedError
            The file shrank since it was opened.
        """
        opened = self._open()
        place = self._place(name)
        opened.require_whole()
        if self._verify and place not in self._checked:
            self._check(opened, place)
        _, dims, offset, nbytes, _ = self.header.index.get(place)
        with opened.named():
            return view(opened.data, self.header, dims, offset, nbytes)

    def get_slice(self, name: str) -> TensorSlice:
        """A tensor to be cut: ``f.get_slice("w")[2:5]``. Raises what `get_tensor` raises."""
        return TensorSlice(self.get_tensor(name), self.header.dtype)

    def close(self) -> None:
        """Let go of the file. Arrays that were read stay valid."""
        self._opened = None

    def items(self) -> Iterator[tuple[str, Array]]:
        """Names and arrays, in file order."""
        return ((name, self[name]) for name in self.keys())

    def values(self) -> Iterator[Array]:
        """Arrays, in file order."""
        return (self[name] for name in self.keys())

    def get(self, name: str, default: Any = None) -> Any:
        """The tensor, or ``default`` where there is none of that name."""
        return self[name] if name in self else default  # noqa: SIM401 - this is `get`

    def __getitem__(self, name: str) -> Array:
        return self.get_tensor(name)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._position(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.header.index)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        path = self._opened.path if self._opened is not None else "closed"
        return f"<dmexp.safe_open {path!r}: {len(self)} tensors, {self.header.dtype}>"

    def _open(self) -> Opened:
        if self._opened is None:
            raise InvalidArgumentError("the file is closed.", argument="self")
        return self._opened

    def _position(self, name: str) -> int | None:
        try:
            return self.header.index.position(name)
        except UnicodeEncodeError:
            # Half of a surrogate pair is in no file.
            return None

    def _place(self, name: str) -> int:
        place = self._position(name)
        if place is None:
            close = _close(name, self.keys())
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise TensorNotFoundError(
                f"no tensor {name!r} among {len(self)}.{hint}",
                path=self._opened.path if self._opened else None,
                name=name,
                close=close,
            )
        return place

    def _check(self, opened: Opened, place: int) -> None:
        header = self.header
        _, _, offset, nbytes, stored = header.index.get(place)
        with opened.named():
            if stored is None:
                tallies = self._scan_once(opened)
                check_finite(header, place, tallies[place], opened.data)
            else:
                tally = opened.scan_one(header.payload_offset + offset, nbytes)
                if stored != tally[9]:
                    raise tensor_damage(header, place, tally[9])
                check_finite(header, place, tally, opened.data)
        self._checked.add(place)

    def _scan_once(self, opened: Opened) -> list[Tally]:
        if self._tallies is None:
            tallies = opened.scan(resolve(None))
            check_sums(self.header, tallies)
            self._tallies = tallies
        return self._tallies


Mapping.register(safe_open)


def _close(name: str, names: list[str]) -> list[str]:
    """Names that look like ``name``, in a time that a caller who expects a KeyError can spare."""
    import difflib
    import heapq

    if len(names) > _COMPARED_AT_MOST:
        # The full comparison takes a millisecond for a few dozen names.
        names = heapq.nlargest(_COMPARED_AT_MOST, names, key=lambda other: _shared(name, other))
    return difflib.get_close_matches(name, names, n=3)


def _shared(one: str, other: str) -> int:
    """How many letters two names have in common at both ends."""
    most = min(len(one), len(other))
    start = next((n for n in range(most) if one[n] != other[n]), most)
    end = next((n for n in range(most - start) if one[-1 - n] != other[-1 - n]), most - start)
    return start + end


def view(data: Any, header: Header, dims: tuple[int, ...], offset: int, nbytes: int) -> Array:
    """A tensor's bytes as a read-only array."""
    dtype = NUMPY_DTYPES[header.dtype]
    if nbytes == 0:
        array: Array = np.empty(dims, dtype)
        array.flags.writeable = False
        return array
    count = nbytes // WIDTH_BYTES[header.dtype]
    flat = np.frombuffer(data, dtype, count, header.payload_offset + offset)
    return flat.reshape(dims)


def load_file(
    path: Path, dtype: str = "f32", *, verify: bool = True, threads: int | None = None
) -> dict[str, Array]:
    """All tensors of a file, as arrays of their own.

    The file is read once, by large sequential reads; nothing of it stays mapped.

    Parameters
    ----------
    path : str, bytes or path-like
    dtype : {"f32", "stored"}
        float32, to which every stored value widens exactly, or the dtype that the file has
        (bf16 is ``ml_dtypes.bfloat16``). The file's own dtype by name is accepted too.
    verify : bool
        False skips checksums, finiteness, recomputed claims and the config; structure is always
        checked.
    threads : int, optional
        ``DMEXP_NUM_THREADS``, or all CPUs, when not given.

    Returns
    -------
    dict of str to ndarray
        In header order, C-contiguous, writable. ``[]`` dims give a 0-d array; a zero dim gives an
        empty one.

    Raises
    ------
    FileFormatError
        Any refusal of the format document; see `dmexp.errors`. A subnormal is no fault.
    NonFiniteError
        A stored NaN or infinity.
    InvalidArgumentError
        Another ``dtype`` than the two: narrow the result with `dmexp.narrow` instead.
    OSError
        The file cannot be read.

    Examples
    --------
    >>> import numpy as np, dmexp
    >>> _ = dmexp.save_file({"w": np.float32([1.0, -2.5])}, "w.dmexp")
    >>> dmexp.load_file("w.dmexp")
    {'w': array([ 1. , -2.5], dtype=float32)}
    """
    return _load(Opened(path), dtype, verify, threads)


def load(
    data: bytes | bytearray | memoryview,
    dtype: str = "f32",
    *,
    verify: bool = True,
    threads: int | None = None,
) -> dict[str, Array]:
    """All tensors of a file that is in memory. Otherwise as `load_file`.

    Examples
    --------
    >>> import numpy as np, dmexp
    >>> dmexp.load(dmexp.save({"w": np.float32([1.0])}), "stored")
    {'w': array([1], dtype=bfloat16)}
    """
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(
            f"data is {type(data).__name__}; bytes, bytearray and memoryview are accepted "
            "(for a path: dmexp.load_file)"
        )
    return _load(Opened(memory=data), dtype, verify, threads)


def _load(opened: Opened, dtype: str, verify: bool, threads: int | None) -> dict[str, Array]:
    header = opened.header
    wanted = header.dtype if dtype == "stored" else storage_dtype(dtype)
    if wanted not in ("f32", header.dtype):
        raise InvalidArgumentError(
            f"the file holds {header.dtype}, which cannot be loaded as {wanted}. "
            f"Known here: 'f32', 'stored'. For another dtype, narrow what is loaded.",
            path=opened.path,
            argument="dtype",
            known=["f32", "stored", header.dtype],
        )
    if verify:
        with opened.named():
            header.shapes.require()
    arrays: dict[str, Array] = {}
    requests: list[Request] = []
    for place in range(len(header.index)):
        name, dims, offset, nbytes, _ = header.index.get(place)
        array = new_array(dims, NUMPY_DTYPES[wanted])
        arrays[name] = array
        room = array.reshape(-1).view(np.uint8) if math.prod(dims) else None
        requests.append((header.payload_offset + offset, nbytes, room, wanted != header.dtype))
    tallies = opened.read(requests, resolve(threads))
    if verify:
        with opened.named():
            check_payload(header, tallies, opened.data)
    return arrays
