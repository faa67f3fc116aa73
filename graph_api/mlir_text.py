# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The little that is read of MLIR text without MLIR: placeholders, and what a function returns.

Only a convenience rests on the latter: the compiler's parser decides what a text means.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from .dtypes import DataType

__all__ = ["fill", "fits", "placeholders", "results_of", "tensor_type"]

_PLACEHOLDER = re.compile(r"\{(?:(FUNC_NAME)|(IN|OUT)(\d{1,9})_(?:(TYPE|DTYPE)|DIM(\d{1,9})))\}")
_TYPE = re.compile(r"!torch\.vtensor<\[([\d,\s]+)\],\s*(\w+)>")
_OPEN_TYPE = re.compile(r"!torch\.vtensor<\[([\d,?]*)\],(\w+)>")
_ANY_TYPE = r"(?:!torch\.vtensor<[^>]*>|\{(?:IN|OUT)\d+_TYPE\})"
_RESULTS = re.compile(rf"\)\s*->\s*({_ANY_TYPE}|\(\s*{_ANY_TYPE}(?:\s*,\s*{_ANY_TYPE})*\s*\))")
_BY_SPELLING = {t.value.mlir: t for t in DataType if t.value.mlir}


def tensor_type(dims: tuple[int, ...], data_type: DataType) -> str:
    """Return ``!torch.vtensor<[dims],type>``."""
    return f"!torch.vtensor<[{','.join(map(str, dims))}],{data_type.value.mlir}>"


def fits(spelled: str, wanted: str) -> bool:
    """Whether a tensor type in a function may stand for another; ``?`` stands for any extent."""
    pair = [_OPEN_TYPE.fullmatch(text) for text in (spelled, wanted)]
    if pair[0] is None or pair[1] is None or pair[0][2] != pair[1][2]:
        return False
    extents = [found[1].split(",") for found in pair if found]
    return len(extents[0]) == len(extents[1]) and all(
        one in ("?", other) for one, other in zip(*extents, strict=True)
    )


def placeholders(text: str) -> list[tuple[str, str, int, str, int]]:
    """Return each placeholder: as written, ``IN`` or ``OUT`` or ``""``, tensor, word, dim."""
    return [
        (found[0], found[2] or "", int(found[3] or 0), found[4] or "", int(found[5] or 0))
        for found in _PLACEHOLDER.finditer(text)
    ]


def fill(text: str, value: Callable[[str, int, str, int], str]) -> str:
    """Return the text with ``value(side, tensor, word, dim)`` instead of each placeholder.

    ``{FUNC_NAME}`` has side ``""``; a dim has word ``""``.  Other braces are left as they are.
    """
    return _PLACEHOLDER.sub(
        lambda m: value(m[2] or "", int(m[3] or 0), m[4] or "", int(m[5] or 0)), text
    )


def results_of(text: str) -> list[tuple[tuple[int, ...], DataType] | None]:
    """Return dims and type of each result of the text's function; None where they stay open."""
    _, begin, rest = text.partition("func.func")
    found = _RESULTS.search(rest)
    if not begin or found is None:
        return []
    return [_described(one) for one in re.findall(_ANY_TYPE, found[1])]


def _described(text: str) -> tuple[tuple[int, ...], DataType] | None:
    if (found := _TYPE.fullmatch(text)) is None or found[2] not in _BY_SPELLING:
        return None
    dims = [d.strip() for d in found[1].split(",")]
    if not all(d.isdecimal() and len(d) < 19 for d in dims):
        return None
    return tuple(map(int, dims)), _BY_SPELLING[found[2]]
