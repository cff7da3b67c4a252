"""bf16 numbers as bytes, little-endian, without numpy."""

from __future__ import annotations

import struct
import sys
from array import array

BYTES = 2


def to_floats(data: bytes) -> array:
    """Every bf16 number is a float32 number with 16 zero bits behind it."""
    halves = array("H", data)
    if sys.byteorder == "big":
        halves.byteswap()
    return array("f", array("I", [half << 16 for half in halves]).tobytes())


def from_float(value: float) -> int:
    """The bits of the nearest bf16 number; of two as near, the even one."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


def from_floats(values: list[float]) -> bytes:
    halves = array("H", map(from_float, values))
    if sys.byteorder == "big":
        halves.byteswap()
    return halves.tobytes()


def scale(data: bytes, factor: float) -> bytes:
    """Exact where `factor` is a power of two, else rounded once."""
    if factor == 1.0:
        return data
    return from_floats([value * factor for value in to_floats(data)])
