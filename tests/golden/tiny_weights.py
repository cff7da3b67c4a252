"""The weights of the tiny models: a formula that C++ repeats bit for bit.

Element i (row-major, in the shape that Hugging Face stores) of tensor NAME:

    z = fnv1a64(NAME) + (i + 1) * 0x9E3779B97F4A7C15          (mod 2^64)
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9                  (mod 2^64)
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB                  (mod 2^64)
    h = z ^ (z >> 31)
    t = float32(int32(h >> 40) - 2^23) * 2^-23                exact, [-1, 1)
    value = float32(offset + scale * t)                       float32

fnv1a64 is the 64-bit FNV-1a hash of the name's bytes (offset basis
0xCBF29CE484222325, prime 0x100000001B3). offset and scale are float32 and
depend on how the name ends and on the shape alone; the first match counts:

    q_norm.weight, k_norm.weight      offset 1.5   scale 0.25
    norm.weight                       offset 1     scale 0.25
    .bias                             offset 0     scale 0.25
    embed_tokens.weight               offset 0     scale 1
    any other, shape [out, in]        offset 0
        scale = float32(gain * sqrt(3.0 / double(in)))        in double
        gain: 1.75 for q_proj and k_proj, 3 for lm_head, else 1

Where the offset is not 0 the scale is a power of two, and where it is 0 there
is one product: a fused multiply-add gives the same bits. sqrt and the division
are IEEE double, hence the same everywhere.
"""

import math

import numpy as np

_FNV_BASIS = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_MASK = (1 << 64) - 1


def fnv1a64(data: bytes) -> int:
    """The 64-bit FNV-1a hash."""
    state = _FNV_BASIS
    for byte in data:
        state = ((state ^ byte) * _FNV_PRIME) & _MASK
    return state


def hashes(name: str, count: int) -> np.ndarray:
    """h of the elements 0..count-1 of a name: uint64 [count]."""
    index = np.arange(1, count + 1, dtype=np.uint64)
    z = np.uint64(fnv1a64(name.encode())) + index * np.uint64(
        0x9E3779B97F4A7C15
    )
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def offset_and_scale(name: str, shape: list[int]) -> tuple[float, float]:
    """The pair of the table above for one tensor."""
    if name.endswith(("q_norm.weight", "k_norm.weight")):
        return 1.5, 0.25
    if name.endswith("norm.weight"):
        return 1.0, 0.25
    if name.endswith(".bias"):
        return 0.0, 0.25
    if name.endswith("embed_tokens.weight"):
        return 0.0, 1.0
    gain = 1.0
    if name.endswith(("q_proj.weight", "k_proj.weight")):
        gain = 1.75
    elif name.endswith("lm_head.weight"):
        gain = 3.0
    return 0.0, gain * math.sqrt(3.0 / float(shape[1]))


def make_tensor(name: str, shape: list[int]) -> np.ndarray:
    """The float32 tensor of this name and shape."""
    offset, scale = offset_and_scale(name, shape)
    h = hashes(name, math.prod(shape))
    centred = (h >> np.uint64(40)).astype(np.int32) - np.int32(1 << 23)
    t = centred.astype(np.float32) * np.float32(2.0**-23)
    values = np.float32(offset) + np.float32(scale) * t
    return values.astype(np.float32).reshape(shape)


def checksum(tensors: dict[str, np.ndarray]) -> str:
    """fnv1a64 over the bit patterns, tensors in the order given.

    One FNV step takes one element's 32 bits, not one byte: state = (state ^
    bits) * prime. Printed as 16 hexadecimal digits.
    """
    state = _FNV_BASIS
    for tensor in tensors.values():
        for bits in tensor.reshape(-1).view(np.uint32).tolist():
            state = ((state ^ bits) * _FNV_PRIME) & _MASK
    return f"{state:016x}"
