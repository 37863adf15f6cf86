"""The type tables of GGUF: what each id means and how many bytes it takes.

A block is the smallest unit that a tensor type can store: ``elements`` consecutive values of one
row in ``nbytes`` bytes. Ids that ggml has withdrawn keep their names, so that a refusal can say
what the file holds instead of a bare number.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct


@dataclass(frozen=True, slots=True)
class TensorType:
    """One ggml tensor type. ``elements`` values are stored in ``nbytes`` bytes."""

    id: int
    name: str
    elements: int
    nbytes: int


TENSOR_TYPES = {
    kind.id: kind
    for kind in (
        TensorType(0, "F32", 1, 4),
        TensorType(1, "F16", 1, 2),
        TensorType(2, "Q4_0", 32, 18),
        TensorType(3, "Q4_1", 32, 20),
        TensorType(6, "Q5_0", 32, 22),
        TensorType(7, "Q5_1", 32, 24),
        TensorType(8, "Q8_0", 32, 34),
        TensorType(9, "Q8_1", 32, 40),
        TensorType(10, "Q2_K", 256, 84),
        TensorType(11, "Q3_K", 256, 110),
        TensorType(12, "Q4_K", 256, 144),
        TensorType(13, "Q5_K", 256, 176),
        TensorType(14, "Q6_K", 256, 210),
        TensorType(15, "Q8_K", 256, 292),
        TensorType(16, "IQ2_XXS", 256, 66),
        TensorType(17, "IQ2_XS", 256, 74),
        TensorType(18, "IQ3_XXS", 256, 98),
        TensorType(19, "IQ1_S", 256, 50),
        TensorType(20, "IQ4_NL", 32, 18),
        TensorType(21, "IQ3_S", 256, 110),
        TensorType(22, "IQ2_S", 256, 82),
        TensorType(23, "IQ4_XS", 256, 136),
        TensorType(24, "I8", 1, 1),
        TensorType(25, "I16", 1, 2),
        TensorType(26, "I32", 1, 4),
        TensorType(27, "I64", 1, 8),
        TensorType(28, "F64", 1, 8),
        TensorType(29, "IQ1_M", 256, 56),
        TensorType(30, "BF16", 1, 2),
        TensorType(34, "TQ1_0", 256, 54),
        TensorType(35, "TQ2_0", 256, 66),
        TensorType(39, "MXFP4", 32, 17),
        TensorType(40, "NVFP4", 64, 36),
        TensorType(41, "Q1_0", 128, 18),
    )
}
"""Every tensor type whose size is known, by id."""

TYPES_BY_NAME = {kind.name: kind for kind in TENSOR_TYPES.values()}

WITHDRAWN_TYPES = {
    4: "Q4_2",
    5: "Q4_3",
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
}
"""Ids that older files carry and that ggml no longer reads."""

PLAIN_DTYPES = {
    "F64": "f64",
    "F32": "f32",
    "F16": "f16",
    "BF16": "bf16",
    "I8": "i8",
    "I16": "i16",
    "I32": "i32",
    "I64": "i64",
}
"""Types that are not quantized, with dmexp's name for each."""

QUANTIZED_TYPES = frozenset(
    {
        "Q4_0",
        "Q4_1",
        "Q5_0",
        "Q5_1",
        "Q8_0",
        "Q2_K",
        "Q3_K",
        "Q4_K",
        "Q5_K",
        "Q6_K",
        "IQ1_S",
        "IQ1_M",
        "IQ2_XXS",
        "IQ2_XS",
        "IQ2_S",
        "IQ3_XXS",
        "IQ3_S",
        "IQ4_NL",
        "IQ4_XS",
        "TQ1_0",
        "TQ2_0",
        "MXFP4",
    }
)
"""Quantized types that are read. NVFP4 is not among them: half of its scale is another tensor."""

VALUE_TYPES = (
    "u8",
    "i8",
    "u16",
    "i16",
    "u32",
    "i32",
    "f32",
    "bool",
    "string",
    "array",
    "u64",
    "i64",
    "f64",
)
"""Names of the metadata value types; the index is the id."""

VALUE_STRUCTS: dict[str, Struct] = {
    "u8": Struct("<B"),
    "i8": Struct("<b"),
    "u16": Struct("<H"),
    "i16": Struct("<h"),
    "u32": Struct("<I"),
    "i32": Struct("<i"),
    "f32": Struct("<f"),
    "bool": Struct("<B"),
    "u64": Struct("<Q"),
    "i64": Struct("<q"),
    "f64": Struct("<d"),
}
"""How the scalars are stored."""

NUMPY_VALUE_TYPES = {
    "u8": "u1",
    "i8": "i1",
    "u16": "<u2",
    "i16": "<i2",
    "u32": "<u4",
    "i32": "<i4",
    "f32": "<f4",
    "bool": "u1",
    "u64": "<u8",
    "i64": "<i8",
    "f64": "<f8",
}

FILE_TYPES = {
    0: "F32",
    1: "F16",
    2: "Q4_0",
    3: "Q4_1",
    7: "Q8_0",
    8: "Q5_0",
    9: "Q5_1",
    10: "Q2_K",
    11: "Q3_K_S",
    12: "Q3_K_M",
    13: "Q3_K_L",
    14: "Q4_K_S",
    15: "Q4_K_M",
    16: "Q5_K_S",
    17: "Q5_K_M",
    18: "Q6_K",
    19: "IQ2_XXS",
    20: "IQ2_XS",
    21: "Q2_K_S",
    22: "IQ3_XS",
    23: "IQ3_XXS",
    24: "IQ1_S",
    25: "IQ4_NL",
    26: "IQ3_S",
    27: "IQ3_M",
    28: "IQ2_S",
    29: "IQ2_M",
    30: "IQ4_XS",
    31: "IQ1_M",
    32: "BF16",
    36: "TQ1_0",
    37: "TQ2_0",
    38: "MXFP4_MOE",
    39: "NVFP4",
    40: "Q1_0",
}
"""``general.file_type``: the mixture that the exporter was asked for."""


def type_name(type_id: int) -> str:
    """The name of a tensor type id for messages, withdrawn and unknown ids included."""
    if type_id in TENSOR_TYPES:
        return TENSOR_TYPES[type_id].name
    if type_id in WITHDRAWN_TYPES:
        return f"{WITHDRAWN_TYPES[type_id]} (id {type_id}, withdrawn from ggml)"
    return f"id {type_id} (unknown)"
