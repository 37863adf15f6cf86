"""Read a .dmexp file with the standard library and NumPy alone.

    python examples/read_dmexp.py FILE

docs/format.md is all that was needed to write this; it shares no code with the package.
"""

import math
import struct
import sys
import tomllib
import zlib

import numpy as np

WIDTH = {"f32": 4, "f16": 2, "bf16": 2}


def as_f32(raw: bytes, dtype: str) -> np.ndarray:
    """The stored values, exactly, as float32."""
    if dtype == "f32":
        return np.frombuffer(raw, "<f4").astype(np.float32)
    if dtype == "f16":
        return np.frombuffer(raw, "<f2").astype(np.float32)
    # A bf16 is the upper half of the float32 with the same value.
    return (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)


def read_dmexp(path: str) -> tuple[dict, dict[str, np.ndarray]]:
    """The header, and every tensor as float32 in the order of the file."""
    with open(path, "rb") as file:
        data = file.read()
    magic, header_bytes, payload_bytes, checksum = struct.unpack_from("<8sIQI", data)
    if magic != b"DMEXPRT\x01" or len(data) != 24 + header_bytes + payload_bytes:
        raise SystemExit(f"{path}: not a whole .dmexp file of version 1")
    payload = data[24 + header_bytes :]
    if zlib.crc32(payload) != checksum:
        raise SystemExit(f"{path}: checksum is {zlib.crc32(payload):08x}, expected {checksum:08x}")
    header = tomllib.loads(data[24 : 24 + header_bytes].decode("utf-8-sig"))
    tensors, at = {}, 0
    for entry in header["tensors"]:
        end = at + math.prod(entry["dims"]) * WIDTH[header["dtype"]]
        tensors[entry["name"]] = as_f32(payload[at:end], header["dtype"]).reshape(entry["dims"])
        at = end
    assert at == payload_bytes, "the tensors do not cover the payload"
    return header, tensors


if __name__ == "__main__":
    header, tensors = read_dmexp(sys.argv[1])
    for name, values in tensors.items():
        largest = np.abs(values).max(initial=0)
        print(f"{name!a:<50} {list(values.shape)!s:<16} largest magnitude {largest:.6g}")
    print(
        f"{header['dtype']}, {header['num_params']} values in {len(tensors)} tensors, checksum ok"
    )
