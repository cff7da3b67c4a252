"""Numbers as they are typed: types of argparse's arguments."""

from __future__ import annotations

from argparse import ArgumentTypeError


def whole_number(text: str) -> int:
    """Digits only: int() alone would also take "1_0" and " 1 "."""
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise ArgumentTypeError(f"not a whole number: {text!r}")
    return int(text)


def token_count(text: str) -> int:
    """4096 or 4K."""
    if text[-1:] in ("K", "k"):
        return 1024 * whole_number(text[:-1])
    return whole_number(text)


def token_counts(text: str) -> list[int]:
    """4K,16K,64K."""
    return [token_count(part) for part in text.split(",")]
