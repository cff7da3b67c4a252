"""Examples of what a package's types allow, one at a time.

`samples(T)` are values of T such that every member of every union in it stands
in one of them. Of a TypedDict there are: what must be there alone, the same with
each field that may be null as null, and each further form of each field.
"""

from __future__ import annotations

import collections.abc
import enum
import functools
import typing

import typing_extensions
from typing_extensions import NotRequired, ReadOnly, Required

_MOST_FORMS = 2000


def _bare(hint):
    """Without what says whether it must be there."""
    while typing.get_origin(hint) in (Required, NotRequired, ReadOnly,
                                      typing.Annotated):
        hint = typing.get_args(hint)[0]
    return hint


@functools.cache
def _fields(kind) -> dict:
    # Annotations that are strings hide from the class itself what is required.
    hints = typing_extensions.get_type_hints(kind, include_extras=True)
    return {name: (_bare(hint), typing.get_origin(hint) is Required)
            for name, hint in hints.items()}


def _of_dict(kind, within: tuple) -> list:
    least, others = {}, []
    for name, (hint, must) in _fields(kind).items():
        forms = _samples(hint, within + (kind,))
        if must and not forms:
            return []  # It holds itself; a form without it is elsewhere.
        if must:
            least[name] = forms[0]
            others += [(name, form) for form in forms[1:]]
        else:
            others += [(name, form) for form in forms]
    nulls = {name: None for name, (hint, must) in _fields(kind).items()
             if not must and type(None) in typing.get_args(hint)}
    return ([least] + ([{**nulls, **least}] if nulls else []) +
            [{**least, name: form} for name, form in others])[:_MOST_FORMS]


def _samples(hint, within: tuple) -> list:
    hint = _bare(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in within:
        return []
    if typing_extensions.is_typeddict(hint):
        return _of_dict(hint, within)
    if origin is typing.Literal:
        return list(arguments)
    if origin is typing.Union or type(hint).__name__ == "UnionType":
        return [form for each in arguments for form in _samples(each, within)]
    if origin in (dict, collections.abc.Mapping):
        return [{}]
    if origin in (list, collections.abc.Iterable, collections.abc.Sequence):
        return [[form] for form in _samples(arguments[0], within)] + [[]]
    if origin is not None and getattr(origin, "__name__", "") == "SequenceNotStr":
        return [["x"]]
    plain = {str: "x", int: 1, float: 0.5, bool: True, type(None): None,
             object: {"x": 1}}
    if hint in plain:
        return [plain[hint]]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return [each.value for each in hint]
    return []  # Bytes, files, models of answers.


def samples(hint) -> list:
    return _samples(hint, ())
