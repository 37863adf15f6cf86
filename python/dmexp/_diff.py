"""Two checkpoints of any kind, compared tensor by tensor in bounded memory.

Values are compared in f64, in which every storage dtype is exact. Sources apply what they have to
apply first (a GGUF file's transforms are undone), so what differs here differs in meaning.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import tomli

from .errors import InvalidArgumentError
from .loaders import Source, TensorEntry

Array = np.ndarray[Any, np.dtype[Any]]
Progress = Callable[[int, int | None], object]
Status = Literal["same", "differs", "missing", "extra", "reshaped"]

BLOCK_VALUES = 1 << 13
"""Values of each side that are held as f64 at a time: 64 KiB, which stay in the nearest cache and
in memory that the allocator reuses. From twice that on every step pays for fresh pages."""
_TELL_EVERY_VALUES = 1 << 22

# Bits of the stored fraction, and the exponent of the smallest normal.
_FORMATS = {"f16": (10, -14), "bf16": (7, -126), "f32": (23, -126), "f64": (52, -1022)}
_F64_FRACTION, _F64_BIAS = 52, 1023
_SIGNED: dict[int, np.dtype[Any]] = {
    2: np.dtype(np.int16),
    4: np.dtype(np.int32),
    8: np.dtype(np.int64),
}


@dataclass(slots=True)
class TensorDiff:
    """How one tensor of the first source compares with the one of the same name in the second.

    Attributes
    ----------
    status
        ``"missing"``: not in the second. ``"extra"``: not in the first. ``"reshaped"``: other
        dims, values not compared. ``"differs"``: at least one value does.
    dims, dtype
        Of the first and of the second; None where there is none.
    count
        Values compared.
    differing
        Values that are unequal. Two NaNs are equal, a NaN and a number are not; zeros of unlike
        sign are.
    zero_signs
        Zeros that differ in their sign only.
    nan_mismatches
        Values of which one is a NaN and the other is not.
    max_abs, mean_abs
        Largest and mean absolute difference, over all values that are not NaN mismatches.
    max_relative
        Largest difference relative to the larger magnitude of the two.
    max_ulps
        Largest difference in units in the last place of the narrower of the two dtypes.
    """

    name: str
    status: Status
    dims: tuple[tuple[int, ...] | None, tuple[int, ...] | None]
    dtype: tuple[str | None, str | None]
    count: int = 0
    differing: int = 0
    zero_signs: int = 0
    nan_mismatches: int = 0
    max_abs: float = 0.0
    mean_abs: float = 0.0
    max_relative: float = 0.0
    max_ulps: float = 0.0

    def within(self, tolerance: float) -> bool:
        """Whether no difference is larger than ``tolerance``; 0 asks for equal bits."""
        if self.status in ("missing", "extra", "reshaped") or self.nan_mismatches:
            return False
        if tolerance == 0:
            return self.status == "same"
        return self.max_abs <= tolerance

    def as_dict(self) -> dict[str, Any]:
        """Plain data for ``--json``; an infinite difference is the string ``"inf"``."""
        numbers = {
            key: value if math.isfinite(value := getattr(self, key)) else str(value)
            for key in ("max_abs", "mean_abs", "max_relative", "max_ulps")
        }
        return {
            "name": self.name,
            "status": self.status,
            "dims": [None if dims is None else list(dims) for dims in self.dims],
            "dtype": list(self.dtype),
            "count": self.count,
            "differing": self.differing,
            "zero_signs": self.zero_signs,
            "nan_mismatches": self.nan_mismatches,
            **numbers,
        }


@dataclass(slots=True)
class DiffReport:
    """What a comparison found.

    Attributes
    ----------
    paths, kinds
        The two sources.
    tensors
        In the order of the first source, then what only the second has.
    tolerance
        Largest absolute difference that is accepted; 0 for none at all.
    config_differences
        Dotted keys whose values differ, or that only one config has. They do not decide.
    notices
        What the sources say of themselves: transforms undone, files ignored.
    """

    paths: tuple[str, str]
    kinds: tuple[str, str]
    tensors: list[TensorDiff]
    tolerance: float = 0.0
    config_differences: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        """Whether nothing differs beyond the tolerance."""
        return all(tensor.within(self.tolerance) for tensor in self.tensors)

    @property
    def beyond(self) -> list[TensorDiff]:
        """The tensors that differ beyond the tolerance."""
        return [tensor for tensor in self.tensors if not tensor.within(self.tolerance)]

    def counts(self) -> dict[str, int]:
        """How many tensors have each status."""
        found = dict.fromkeys(("same", "differs", "missing", "extra", "reshaped"), 0)
        for tensor in self.tensors:
            found[tensor.status] += 1
        return found

    def as_dict(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        return {
            "paths": list(self.paths),
            "kinds": list(self.kinds),
            "equal": self.equal,
            "tolerance": self.tolerance,
            "counts": self.counts(),
            "config_differences": self.config_differences,
            "notices": self.notices,
            "tensors": [tensor.as_dict() for tensor in self.tensors],
        }


def diff(
    a: Source, b: Source, tolerance: float = 0.0, *, progress: Progress | None = None
) -> DiffReport:
    """Compare two open sources.

    Parameters
    ----------
    a, b : Source
        From `dmexp.loaders.open_source`.
    tolerance : float
        Largest absolute difference that is accepted; 0 (the default) asks for equal values and
        equal signs of zeros.
    progress : callable, optional
        Called with values compared, and values in all.

    Returns
    -------
    DiffReport
        Every tensor; ``report.equal`` is the verdict.

    Raises
    ------
    InvalidArgumentError
        A tolerance that is negative or no number.
    DmexpError, OSError
        What reading a tensor raises.
    """
    if not 0 <= tolerance < math.inf:
        raise InvalidArgumentError(
            f"the tolerance is {tolerance}, expected a number of at least 0.", argument="tolerance"
        )
    first = {entry.name: entry for entry in a.entries()}
    second = {entry.name: entry for entry in b.entries()}
    pairs = [
        (entry, second[name])
        for name, entry in first.items()
        if name in second and second[name].dims == entry.dims
    ]
    tally = _Tally(progress, sum(_count(entry) for entry, _ in pairs))
    tensors: list[TensorDiff] = []
    for name, entry in first.items():
        other = second.get(name)
        if other is None:
            tensors.append(_unpaired(entry, None))
        elif other.dims != entry.dims:
            tensors.append(
                TensorDiff(name, "reshaped", (entry.dims, other.dims), (entry.dtype, other.dtype))
            )
        else:
            tensors.append(_compare(a, b, entry, other, tally))
    tensors += [_unpaired(None, entry) for name, entry in second.items() if name not in first]
    return DiffReport(
        paths=(str(a.info.path), str(b.info.path)),
        kinds=(a.info.kind, b.info.kind),
        tensors=tensors,
        tolerance=tolerance,
        config_differences=_config_differences(a.info.config, b.info.config),
        notices=[
            f"{source.info.path}: {notice}"
            for source in (a, b)
            for notice in (*_undone(source), *source.info.notices)
        ],
    )


def _undone(source: Source) -> Iterator[str]:
    """What the source did to its values before they were compared."""
    transforms = source.info.metadata.get("transforms")
    # A .dmexp file carries the list from its own export; nothing is done to it now.
    if isinstance(transforms, Mapping) and transforms and source.info.kind != ".dmexp file":
        listed = ", ".join(f"{name} ({count})" for name, count in transforms.items())
        yield f"undone before the comparison, with the number of tensors: {listed}"


@dataclass(slots=True)
class _Tally:
    progress: Progress | None
    total: int
    done: int = 0
    told: int = 0

    def add(self, count: int) -> None:
        self.done += count
        if self.done - self.told >= _TELL_EVERY_VALUES:
            self.tell()

    def tell(self) -> None:
        if self.progress is not None and self.done != self.told:
            self.progress(self.done, self.total)
        self.told = self.done


def _count(entry: TensorEntry) -> int:
    return math.prod(entry.dims)


def _unpaired(a: TensorEntry | None, b: TensorEntry | None) -> TensorDiff:
    entry = b if a is None else a
    assert entry is not None
    dims = (None if a is None else a.dims, None if b is None else b.dims)
    dtypes = (None if a is None else a.dtype, None if b is None else b.dtype)
    return TensorDiff(entry.name, "missing" if b is None else "extra", dims, dtypes)


def _compare(
    a: Source, b: Source, entry: TensorEntry, other: TensorEntry, tally: _Tally
) -> TensorDiff:
    found = TensorDiff(
        entry.name, "same", (entry.dims, other.dims), (entry.dtype, other.dtype), _count(entry)
    )
    total = 0.0
    for x, y in _blocks(a.read(entry.name), b.read(other.name)):
        total += _add(found, x, y)
        tally.add(x.size)
    compared = found.count - found.nan_mismatches
    found.mean_abs = total / compared if compared else 0.0
    if math.isinf(found.max_abs):
        found.mean_abs = math.inf
    tally.tell()
    if found.differing or found.zero_signs:
        found.status = "differs"
    return found


def _blocks(a: Array, b: Array) -> Iterator[tuple[Array, Array]]:
    """The two in pieces, in row-major order, without a copy of the whole."""
    flat_a, flat_b = (x.reshape(-1) if x.flags.c_contiguous else x.flat for x in (a, b))
    for start in range(0, a.size, BLOCK_VALUES):
        stop = min(start + BLOCK_VALUES, a.size)
        yield flat_a[start:stop], flat_b[start:stop]


def _add(found: TensorDiff, x: Array, y: Array) -> float:
    """Count one piece in; returns the sum of its absolute differences."""
    if x.dtype == y.dtype and x.tobytes() == y.tobytes():
        return 0.0
    if not (_is_real(x) and _is_real(y)):
        # Complex numbers and the like: equal or not is all that can be said.
        found.differing += int(np.count_nonzero(x != y))
        found.max_abs = math.inf if found.differing else found.max_abs
        return 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        # Signalling NaNs are met here, and are no news.
        wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
        distance = wide_x - wide_y
    if not np.isfinite(distance).all():
        kept = _add_unusual(found, wide_x, wide_y, distance)
        x, y, wide_x, wide_y, distance = (part[kept] for part in (x, y, wide_x, wide_y, distance))
    if x.dtype.kind in "iub" and y.dtype.kind in "iub":
        # Large integers may be equal as f64 and unequal as they are.
        found.differing += int(np.count_nonzero(x != y))
    else:
        found.differing += int(np.count_nonzero(distance))
        alike = distance == 0
        found.zero_signs += int(
            np.count_nonzero(np.signbit(wide_x[alike]) != np.signbit(wide_y[alike]))
        )
    np.abs(distance, out=distance)
    largest = float(distance.max(initial=0.0))
    if not largest:
        return 0.0
    larger = np.maximum(np.abs(wide_x, out=wide_x), np.abs(wide_y, out=wide_y), out=wide_x)
    with np.errstate(invalid="ignore"):
        relative = np.divide(distance, larger, out=wide_y)
    relative[larger == 0] = 0.0
    found.max_abs = max(found.max_abs, largest)
    found.max_relative = max(found.max_relative, float(relative.max()))
    found.max_ulps = max(found.max_ulps, _ulps(found, x, y, distance, larger))
    return float(distance.sum())


def _add_unusual(found: TensorDiff, x: Array, y: Array, distance: Array) -> Array:
    """Count in the values whose difference is not finite; returns where it is."""
    nan_x, nan_y = np.isnan(x), np.isnan(y)
    mismatches = int(np.count_nonzero(nan_x != nan_y))
    found.nan_mismatches += mismatches
    # Equal infinities have no difference, and neither have two NaNs; subtracting gives NaN for both.
    apart = int(np.count_nonzero((x != y) & ~nan_x & ~nan_y & ~np.isfinite(distance)))
    found.differing += mismatches + apart
    if apart:
        # An infinity against a number is as far apart as can be.
        found.max_abs = found.max_relative = found.max_ulps = math.inf
    kept: Array = np.isfinite(distance)
    return kept


def _is_real(x: Array) -> bool:
    # ml_dtypes registers bfloat16 as a void-like kind of its own.
    return x.dtype.kind in "fiub" or x.dtype.name == "bfloat16"


def _ulps(found: TensorDiff, x: Array, y: Array, distance: Array, larger: Array) -> float:
    kinds = [kind for kind in found.dtype if kind in _FORMATS]
    if len(kinds) < 2:
        return float(distance.max())
    if x.dtype == y.dtype:
        return _steps(x, y)
    fraction, least = min(_FORMATS[kind] for kind in kinds)
    # The spacing where the larger of the two lies, made of its exponent's bits alone.
    exponent = larger.view(np.int64) >> _F64_FRACTION
    np.maximum(exponent, least + _F64_BIAS, out=exponent)
    exponent -= fraction
    # Below the smallest f64 with a full exponent nothing but f64 itself has values.
    np.maximum(exponent, 1, out=exponent)
    spacing = (exponent << _F64_FRACTION).view(np.float64)
    return float((distance / spacing).max())


def _steps(x: Array, y: Array) -> float:
    """The most representable values that lie between two floats of one dtype, plus one."""
    (above_x, size_x), (above_y, size_y) = _sign_and_size(x), _sign_and_size(y)
    same = above_x == above_y
    # Through zero the sizes add up, in f64 to more than an i64 holds.
    most = float(np.abs(size_x - size_y)[same].max(initial=0))
    through = size_x[~same].astype(np.float64) + size_y[~same]
    return max(most, float(through.max(initial=0)))


def _sign_and_size(x: Array) -> tuple[Array, Array]:
    """Whether a float is positive, and how many values lie between it and zero, plus one."""
    bits = np.ascontiguousarray(x).view(_SIGNED[x.dtype.itemsize]).astype(np.int64)
    size: Array = bits & np.int64(2 ** (8 * x.dtype.itemsize - 1) - 1)
    return bits >= 0, size


def _config_differences(a: str, b: str) -> list[str]:
    if a == b:
        return []
    first, second = (_flat(tomli.loads(text)) for text in (a, b))
    absent = object()
    return sorted(
        key
        for key in first.keys() | second.keys()
        if not _same(first.get(key, absent), second.get(key, absent))
    )


def _same(a: Any, b: Any) -> bool:
    both_nan = isinstance(a, float) and isinstance(b, float) and a != a and b != b
    return both_nan or bool(type(a) is type(b) and a == b)


def _flat(table: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{where}{key}.")
        else:
            found[f"{where}{key}"] = value
    return found
