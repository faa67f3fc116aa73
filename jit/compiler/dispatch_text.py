# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the text of a formed dispatch says: its ops, products and convolutions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

__all__ = [
    "DIM",
    "REDUCTION",
    "TYPE",
    "Product",
    "Statement",
    "bits_of",
    "convolutions",
    "extents_of",
    "products",
    "reads_along",
    "sizes_of",
    "statements_of",
]

REDUCTION = b'"reduction"'
_STATEMENT = re.compile(rb"\n(?= {8}[%\w])")  # of the kernel's function, with its region
_HEAD = re.compile(rb" *(%\w+)(?::(\d+))? = (\S+) (.*)")
_INPUTS = re.compile(rb" ins\(([^:)]*)")
_VALUE = re.compile(rb"%\w+(?:#\d+)?")
_MAP = re.compile(rb"affine_map<(.*?)>[],]")
_ADDS = re.compile(rb"= arith\.(?:add|mul)[fi] .*%out\b")
TYPE = re.compile(rb"tensor<((?:[\d?]+x)*)[a-z]+(\d*)")
DIM = re.compile(rb"d\d+")


class Statement(NamedTuple):
    """An operation of a kernel's function.

    Attributes
    ----------
    names : tuple of bytes
        Its results, as others name them.
    op : bytes
    operands : tuple of bytes
        What it reads: of a loop not what it initialises its results with.
    maps : tuple of bytes
        Of a generic loop: along which of its dims it reads each operand.
    text : bytes
        All of it.
    reduces, adds : bool
        Whether it is a loop over a dim that its result lacks, and whether that adds up.
    """

    names: tuple[bytes, ...]
    op: bytes
    operands: tuple[bytes, ...]
    maps: tuple[bytes, ...]
    text: bytes
    reduces: bool
    adds: bool

    @property
    def head(self) -> bytes:
        return self.text.partition(b"\n")[0]

    @property
    def loops(self) -> bool:
        return self.op.startswith((b"linalg.", b"iree_linalg_ext.")) and self.op != b"linalg.fill"

    @property
    def moves(self) -> bool:
        return self.op.startswith((b"tensor.", b"iree_encoding."))


def statements_of(kernel: bytes) -> Iterator[Statement]:
    """Yield the operations of a kernel's function, in order."""
    for text in _STATEMENT.split(kernel):
        if head := _HEAD.match(text):
            name, count, op, rest = head.groups()
            names = tuple(b"%s#%d" % (name, k) for k in range(int(count))) if count else (name,)
            generic = op == b"linalg.generic"
            inputs = _INPUTS.search(rest)
            operands = tuple(_VALUE.findall(inputs[1] if inputs else rest.partition(b" outs(")[0]))
            maps = tuple(_MAP.findall(rest.partition(b"iterator_types")[0])) if generic else ()
            one = Statement(names, op, operands, maps, text, False, False)
            reduces = one.loops and (not generic or REDUCTION in one.head)
            adds = reduces and (not generic or bool(_ADDS.search(text)))
            yield one._replace(reduces=reduces, adds=adds)


def reads_along(how: bytes) -> list[bytes]:
    """Return along what of a loop an operand lies, a dim or, in a convolution, as ``d1 + d5``."""
    return how.partition(b" -> (")[2].rstrip(b")").split(b", ")


class Product(NamedTuple):
    """A loop that adds up products of two operands.

    Attributes
    ----------
    operands : tuple of bytes
        Their names.
    left, right, result : tuple of bytes
        Along what of the loop each lies, a dim or, in a convolution, as ``d1 + d5``.
    extents : dict of bytes to int
        Of the dims; 1 where it is not known.
    bits : int
        Of an element of the narrower operand.
    """

    operands: tuple[bytes, ...]
    left: tuple[bytes, ...]
    right: tuple[bytes, ...]
    result: tuple[bytes, ...]
    extents: dict[bytes, int]
    bits: int


def products(statements: Iterable[Statement]) -> Iterator[Product]:
    """Yield the loops that add up products of two operands."""
    for one in statements:
        bits = bits_of(one.head)
        if not one.adds or not len(one.operands) == 2 < len(one.maps) <= len(bits):
            continue
        along = [tuple(reads_along(how)) for how in one.maps]
        yield Product(one.operands, along[0], along[1], along[2], extents_of(one), min(bits[:2]))


def extents_of(one: Statement) -> dict[bytes, int]:
    """Return how long the dims of a generic loop are; 1 where it is not known."""
    extents: dict[bytes, int] = {}
    for how, (shape, _) in zip(one.maps, TYPE.findall(one.head), strict=False):
        extents.update(zip(reads_along(how), sizes_of(shape), strict=False))
    return extents


def sizes_of(shape: bytes) -> list[int]:
    """Return the extents of a type, such as ``3x?x``; 1 where it is not known."""
    return [int(size.replace(b"?", b"1")) for size in shape.split(b"x")[:-1]]


def bits_of(text: bytes) -> list[int]:
    """Return the bits of an element of each type in a text."""
    return [int(bits or 64) for _, bits in TYPE.findall(text)]  # an index has no number


class Convolution(NamedTuple):
    """A convolution of several filters: along what lie its image and its filters.

    A dim with a single window has no places, so the filter's size along it is a channel dim here.

    Attributes
    ----------
    image, filters : tuple of bytes
    groups, channels : tuple of bytes
        In the order of the image.
    windows : dict of bytes to int
        Dims of the filter's size, and which dims of the image they are along.
    """

    image: tuple[bytes, ...]
    filters: tuple[bytes, ...]
    groups: tuple[bytes, ...]
    channels: tuple[bytes, ...]
    windows: dict[bytes, int]


def convolutions(kernel: bytes) -> Iterator[Convolution]:
    """Yield a kernel's convolutions of several filters."""
    for one in products(statements_of(kernel)):
        for x, filters in ((one.left, one.right), (one.right, one.left)):
            if not {*filters}.intersection(one.result).difference(x):
                continue
            shared = [d for d in x if d in filters]
            windows = {
                d: at
                for at, place in enumerate(x)
                if b" + " in place
                for d in DIM.findall(place)
                if d in filters and d not in one.result
            }
            if windows:
                groups = tuple(d for d in shared if d in one.result)
                channels = tuple(d for d in shared if d not in one.result)
                yield Convolution(x, filters, groups, channels, windows)
