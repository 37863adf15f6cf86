"""Every error that dmexp raises, as one tree.

::

    DmexpError
    ├── FileFormatError              the bytes of a file are at fault
    │   ├── TruncatedError           TRUNCATED
    │   ├── UnsupportedFormatError   UNSUPPORTED_FORMAT   another kind of file
    │   ├── UnsupportedError         UNSUPPORTED          a version or feature not read here
    │   ├── ChecksumError            CHECKSUM
    │   ├── FormatError              FORMAT
    │   ├── SizeOverflowError        OVERFLOW
    │   ├── ShapeMismatchError       SHAPE_MISMATCH
    │   ├── UnsupportedShapeError    UNSUPPORTED_SHAPE
    │   └── LimitExceededError       LIMIT_EXCEEDED
    ├── UnsupportedDtypeError        UNSUPPORTED_DTYPE    (also TypeError)
    ├── NonFiniteError               NON_FINITE           (also ValueError)
    │   └── ValueOverflowError       NON_FINITE           finite, but not in the dtype
    ├── InvalidArgumentError         INVALID_ARGUMENT     (also ValueError)
    ├── TensorNotFoundError          NOT_FOUND            (also KeyError)
    ├── TargetExistsError            EXISTS
    ├── MissingDependencyError       MISSING_DEPENDENCY   (also ImportError)
    └── ContractError                CONTRACT             a transform contract is broken
        ├── UnknownArchitectureError UNKNOWN_ARCHITECTURE
        ├── DomainError              DOMAIN               a stored value outside its domain
        └── NotInvertibleError       NOT_INVERTIBLE

``code`` is stable and is what ``--json`` prints. The facts of an error (which tensor, which
offset, both checksums, all conflicts) are attributes of the exception and are listed in
``facts``. ``OSError`` and ``MemoryError`` pass through unchanged.
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "ChecksumError",
    "ContractError",
    "DmexpError",
    "DomainError",
    "FileFormatError",
    "FormatError",
    "InvalidArgumentError",
    "LimitExceededError",
    "MissingDependencyError",
    "NonFiniteError",
    "NotInvertibleError",
    "ShapeMismatchError",
    "SizeOverflowError",
    "TargetExistsError",
    "TensorNotFoundError",
    "TruncatedError",
    "UnknownArchitectureError",
    "UnsupportedDtypeError",
    "UnsupportedError",
    "UnsupportedFormatError",
    "UnsupportedShapeError",
    "ValueOverflowError",
]


class DmexpError(Exception):
    """The root of the tree.

    Parameters
    ----------
    message
        One sentence or more: what was found, what was expected, where, and what to do.
    path
        The file at fault, where there is one. The message is prefixed with it when printed.
    **facts
        What the message says, as data. Each becomes an attribute.

    Attributes
    ----------
    code : str
        The stable name of the cause.
    path : str or None
        The file at fault.
    facts : dict
        Everything passed as a keyword. Values are plain Python data.
    """

    code: ClassVar[str] = "ERROR"

    def __init__(self, message: str, *, path: str | None = None, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.path = path
        self.facts = facts

    def __getattr__(self, name: str) -> Any:
        # Facts live in one dict, and an absent one is an AttributeError as usual.
        try:
            return self.__dict__["facts"][name]
        except KeyError:
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}"
            ) from None

    def with_path(self, path: str) -> DmexpError:
        """Name the file, unless one is named already. Returns the error itself."""
        if self.path is None:
            self.path = path
        return self

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path is not None else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions cross process pools; the default would lose the keywords.
        return _rebuild, (type(self), self.message, self.path, self.facts)


def _rebuild(
    cls: type[DmexpError], message: str, path: str | None, facts: dict[str, Any]
) -> DmexpError:
    return cls(message, path=path, **facts)


class FileFormatError(DmexpError, ValueError):
    """The bytes of a file are at fault."""


class TruncatedError(FileFormatError):
    """The length is not the one that the prefix states. Facts: ``expected``, ``actual`` (bytes)."""

    code = "TRUNCATED"


class UnsupportedFormatError(FileFormatError):
    """Another kind of file. Facts: ``kind``, ``command`` (what converts it, or None)."""

    code = "UNSUPPORTED_FORMAT"


class UnsupportedError(FileFormatError):
    """A version or a feature that this reader does not know. Facts: ``found``, ``expected``."""

    code = "UNSUPPORTED"


class ChecksumError(FileFormatError):
    """Stored and computed CRC-32 differ.

    Facts: ``stored``, ``computed`` (8 hex digits), ``tensor`` (or None), ``what``
    (``"payload"``, ``"tensor"`` or ``"header"``).
    """

    code = "CHECKSUM"


class FormatError(FileFormatError):
    """The header breaks a rule of the format. Facts: ``key``, ``line``, ``column`` where known."""

    code = "FORMAT"


class SizeOverflowError(FileFormatError):
    """A product of dims or a sum of sizes is beyond 64 bits. Facts: ``tensor``, ``dims``."""

    code = "OVERFLOW"


class ShapeMismatchError(FileFormatError):
    """Tensors and payload, or tensors and config, disagree.

    Facts: ``conflicts``, a list of dicts with ``name``, ``problem`` (``"missing"``,
    ``"unexpected"``, ``"shape"``), ``expected`` and ``found`` (dims or None).
    """

    code = "SHAPE_MISMATCH"


class UnsupportedShapeError(FileFormatError):
    """A rank or a dim that a checkpoint cannot have. Facts: ``tensor``, ``dims``."""

    code = "UNSUPPORTED_SHAPE"


class LimitExceededError(FileFormatError):
    """A number that is legal but larger than any real file needs. Facts: ``limit``, ``found``."""

    code = "LIMIT_EXCEEDED"


class UnsupportedDtypeError(DmexpError, TypeError):
    """A dtype that cannot be stored or read. Facts: ``dtype``, ``tensor``, ``known``."""

    code = "UNSUPPORTED_DTYPE"


class NonFiniteError(DmexpError, ValueError):
    """A NaN or an infinity where only finite values may be.

    Facts: ``tensor``, ``index`` (tuple), ``value``, ``dtype``, ``suggestion`` (a dtype or None).
    """

    code = "NON_FINITE"


class ValueOverflowError(NonFiniteError):
    """A finite value that the dtype rounds to infinity. Facts as in `NonFiniteError`."""


class InvalidArgumentError(DmexpError, ValueError):
    """The caller asked for something that cannot be. Facts: ``argument``, ``known``."""

    code = "INVALID_ARGUMENT"


class TensorNotFoundError(DmexpError, KeyError):
    """No tensor of that name. Facts: ``name``, ``close`` (names that look alike)."""

    code = "NOT_FOUND"

    # KeyError would print the repr of the message.
    __str__ = DmexpError.__str__


class TargetExistsError(DmexpError):
    """The file to write is there already. Facts: ``target``."""

    code = "EXISTS"


class MissingDependencyError(DmexpError, ImportError):
    """An optional package is not installed. Facts: ``package``, ``extra``."""

    code = "MISSING_DEPENDENCY"


class ContractError(DmexpError, ValueError):
    """A semantic transform contract is broken. Facts: ``tensor``, ``transform``, ``architecture``."""

    code = "CONTRACT"


class UnknownArchitectureError(ContractError):
    """No contracts are declared for an architecture. Facts: ``architecture``, ``close``."""

    code = "UNKNOWN_ARCHITECTURE"


class DomainError(ContractError):
    """A stored value outside the domain its contract declares.

    Facts: ``tensor``, ``transform``, ``index``, ``value``, ``domain``.
    """

    code = "DOMAIN"


class NotInvertibleError(ContractError):
    """The exporter's step cannot be undone. Facts: ``tensor``, ``transform``, ``reason``."""

    code = "NOT_INVERTIBLE"
