"""A GGUF model as a source for an export: canonical names, steps undone, config and tokenizer."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import tomli_w

from dmexp.contracts import Output, Plan, plan
from dmexp.errors import DmexpError, FormatError, TensorNotFoundError
from dmexp.families import find
from dmexp.loaders._source import NO_OPTIONS, SourceInfo, SourceOptions, TensorEntry
from dmexp.loaders.hf_config import read_config
from dmexp.loaders.tied import Place, check_tied

from ._data import TensorData, check_types
from ._split import GgufSet, read_set
from ._stack import QuantizedStack
from ._summary import remarks, summary
from ._tensors import GgufTensor
from ._types import PLAIN_DTYPES
from .config import build_config
from .tokenizer import tokenizer_from_metadata


def open_gguf(path: str | os.PathLike[str], options: SourceOptions = NO_OPTIONS) -> GgufSource:
    """Open a GGUF model for export.

    Parameters
    ----------
    path
        A file, any part of a split model, or a directory that holds one model.
    options
        ``config`` replaces the config made from the metadata; ``tokenizer`` false leaves the
        tokenizer out.

    Returns
    -------
    GgufSource
        Its tensors have the names and the meaning of the original checkpoint: every step of
        the exporter is undone, as `dmexp.contracts` declares it.

    Raises
    ------
    UnknownArchitectureError, NotInvertibleError
        No contracts are declared for the architecture, or a step cannot be undone.
    UnsupportedDtypeError
        Tensor types that are not read, all of them, each with its number of tensors.
    MissingDependencyError
        The model is quantized, and the ``gguf`` package is not installed.
    FileFormatError
        A header that `read_header` refuses, parts that do not fit together, a file cut short.
    """
    return GgufSource(path, options)


class GgufSource:
    """An open GGUF model. See `open_gguf`.

    Attributes
    ----------
    info : SourceInfo
        Config, label, what was undone and what has to be said.
    header : GgufHeader
        Over all parts.
    plan : Plan
        How each canonical tensor is made.
    """

    info: SourceInfo

    def __init__(self, path: str | os.PathLike[str], options: SourceOptions = NO_OPTIONS) -> None:
        found = read_set(path, check_extent=True)
        self.header = found.header
        self._path = Path(path)
        self._parts = found.parts
        try:
            self._tensors = {tensor.name: tensor for tensor in found.header.tensors}
            self.plan = self._planned()
            check_types(self._used(), self._path)
            self._data = TensorData(found.parts)
        except DmexpError as error:
            raise error.with_path(os.fspath(path)) from None
        try:
            self._outputs = {output.name: output for output in self.plan.outputs}
            self._cut_up = self._quantized_and_shared()
            self._check_dropped()
            self.info = self._describe(os.fspath(path), found, options)
        except DmexpError as error:
            self.close()
            raise error.with_path(os.fspath(path)) from None
        except BaseException:
            self.close()
            raise

    def entries(self) -> Sequence[TensorEntry]:
        """All canonical tensors, in the order of the plan."""
        return [
            TensorEntry(output.name, output.dims, self._dtype(output))
            for output in self.plan.outputs
        ]

    def read(self, name: str) -> np.ndarray[Any, Any]:
        """One canonical tensor.

        Returns
        -------
        ndarray
            A view of the file where the tensor is stored as it is; otherwise built for the call.

        Raises
        ------
        DomainError
            A stored value lies outside the domain that its contract declares.
        TensorNotFoundError
            No tensor of that name.
        """
        output = self._outputs.get(name)
        if output is None:
            raise TensorNotFoundError(
                f"no tensor {name!r} comes out of this GGUF file.", path=str(self._path), name=name
            )
        try:
            built = output.build({name: self._input(name, output) for name in output.inputs})
        except DmexpError as error:
            raise error.with_path(str(self._path)) from None
        return _widened(built) if self._dtype(output) == "f32" else built

    def stored(self, external: str) -> np.ndarray[Any, Any]:
        """One tensor under its name in the file, as it is stored: no step is undone."""
        return self._data.read(self._tensors[external])

    def _input(self, external: str, output: Output) -> Any:
        tensor = self._tensors[external]
        if external in self._cut_up:
            return QuantizedStack(self._data.raw(tensor), tensor.type_name, tensor.dims)
        array = self._data.read(tensor)
        # Parts of one tensor may be stored in different types; f32 holds them all.
        return _widened(array) if len(self._types(output)) > 1 else array

    def close(self) -> None:
        """Close the files. Arrays that were read stay valid."""
        self._data.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # --- what the header says ------------------------------------------------------------

    def _planned(self) -> Plan:
        header = self.header
        if not header.architecture:
            raise FormatError(
                "key 'general.architecture' is missing, so nothing says what the tensors mean. "
                "The file holds no model, or is damaged.",
                key="general.architecture",
            )
        dims = {tensor.name: tensor.dims for tensor in header.tensors}
        return plan(header.architecture, header.metadata, dims)

    def _used(self) -> list[GgufTensor]:
        names = {external for output in self.plan.outputs for external in output.inputs}
        return [tensor for tensor in self.header.tensors if tensor.name in names]

    def _quantized_and_shared(self) -> frozenset[str]:
        """Quantized tensors that go into more than one canonical tensor."""
        uses = Counter(external for output in self.plan.outputs for external in output.inputs)
        return frozenset(
            name
            for name, count in uses.items()
            if count > 1
            and self._tensors[name].type_name not in PLAIN_DTYPES
            and len(self._tensors[name].dims) > 1
        )

    def _check_dropped(self) -> None:
        # Generated tensors are left out, so this is the last chance to see that they are what
        # their exporter generates.
        for dropped in self.plan.dropped:
            tensor = self._tensors[dropped.external]
            if tensor.type_name in PLAIN_DTYPES:
                self.plan.check_dropped(dropped.external, self._data.read(tensor))

    def _types(self, output: Output) -> set[str]:
        return {self._tensors[external].type_name for external in output.inputs}

    def _dtype(self, output: Output) -> str:
        types = self._types(output)
        plain = PLAIN_DTYPES.get(next(iter(types))) if len(types) == 1 else None
        return "f32" if plain is None or output.computes else plain

    # --- what the source says of itself ---------------------------------------------------

    def _describe(self, given: str, found: GgufSet, options: SourceOptions) -> SourceInfo:
        header = self.header
        info = SourceInfo(
            path=self._path,
            kind="GGUF file" if len(found.parts) == 1 else f"GGUF file in {len(found.parts)} parts",
            label=given,
            weight_bytes=sum(tensor.nbytes for tensor in header.tensors),
        )
        info.notices += remarks(found, self.plan)
        self._add_config(info, options)
        info.metadata["gguf"] = summary(header, len(found.parts))
        if self.plan.transforms:
            info.metadata["transforms"] = dict(self.plan.transforms)
        if options.tokenizer:
            table, notices = tokenizer_from_metadata(header.metadata)
            info.notices += notices
            if table is not None:
                info.metadata["tokenizer"] = table
        return info

    def _add_config(self, info: SourceInfo, options: SourceOptions) -> None:
        values: Mapping[str, Any]
        if options.config is not None:
            config = read_config(options.config)
            info.config, info.config_origin = config.text, str(options.config)
            values, notices = config.values, config.notices
        else:
            header = self.header
            values, notices = build_config(
                header.architecture,
                header.metadata,
                {tensor.name: tensor.dims for tensor in header.tensors},
                lambda name: self._data.read(self._tensors[name]),
            )
            info.config, info.config_origin = tomli_w.dumps(values), "GGUF metadata"
        tied, more = check_tied(
            self.entries(), values, find(values), self._place, path=os.fspath(self._path)
        )
        info.metadata |= tied
        info.notices += notices + more

    def _place(self, name: str) -> Place:
        """Where the bytes of a canonical tensor are, or those that it is made from."""
        tensor = self._tensors[self._outputs[name].inputs[0]]
        return self._parts[tensor.part], tensor.offset, tensor.offset + tensor.nbytes


def _widened(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    # NumPy warns of a signalling NaN; who stores the values refuses it by name.
    with np.errstate(invalid="ignore"):
        return array.astype(np.float32, copy=False)
