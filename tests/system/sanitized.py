"""What differs where a sanitizer watches the program: it is many times slower,
and takes addresses and the first place before libraries for itself."""

from __future__ import annotations

import functools
import re
from pathlib import Path


@functools.cache
def is_sanitized(program: str) -> bool:
    return bool(re.search(rb"__[at]san_init", Path(program).read_bytes()))


def allowed_seconds(program: str, seconds: float) -> float:
    """How long a test may wait for what takes far less than `seconds`."""
    return 6 * seconds if is_sanitized(program) else seconds
