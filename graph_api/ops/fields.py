# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fields of a node as hipDNN writes them down: one row serves graph JSON and FlatBuffers.

An op's ``FIELDS`` stand in the order of the slots of its FlatBuffers table; JSON has no order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from ..dtypes import DataType
from ..enums import ModeEnum

__all__ = ["Absent", "Field", "Kind", "fields", "inputs", "outputs"]


class Kind(Enum):
    """What a field holds; the value is what messages call it."""

    TENSOR = "tensor uid"
    TENSORS = "array of tensor uids"
    INT = "integer"
    INTS = "array of integers"
    FLOAT = "number"
    BOOL = "boolean"
    TEXT = "string"
    BYTES = "array of bytes"
    ENUM = "mode"


class Absent(Enum):
    """What JSON has for an optional field without a value (hipDNN knows both conventions)."""

    REQUIRED = "always has a value"
    NULL = "null"
    OMITTED = "no key"


@dataclass(frozen=True, kw_only=True)
class Field:
    """One field of a node.

    Attributes
    ----------
    name : str
        Port or parameter of the op.
    kind : Kind
        What it holds.
    spelled : str
        hipDNN's name of the field, where it is not `key`'s default.
    section, older : str
        JSON object inside the node that holds it (``""`` is the node itself), and the one in
        which older files have it, where that is another.
    absent : Absent
        How JSON writes a missing value; reading takes a missing key and null alike.  In
        FlatBuffers a tensor that is not ``REQUIRED`` may be missing.
    default : object
        Value of a missing field; FlatBuffers' enums default to the member with code 0 instead.
    enum : type, optional
        The enum of ``Kind.ENUM``.
    as_code : bool
        Whether JSON has the enum's wire code, not its spelling (so in some fields of hipDNN).
    bits : int
        Size of an integer in FlatBuffers.
    assumed : object
        For a parameter of ours that has no slot in FlatBuffers: what its readers take it for.
    """

    name: str
    kind: Kind = Kind.TENSOR
    spelled: str = ""
    section: str = ""
    older: str = ""
    absent: Absent = Absent.REQUIRED
    default: object = None
    enum: type[ModeEnum] | type[DataType] | None = None
    as_code: bool = False
    bits: int = 64
    assumed: object = None

    @cached_property
    def key(self) -> str:
        """Key in JSON and name of the slot; for tensors ``<name>_tensor_uid`` by default."""
        if self.spelled:
            return self.spelled
        return f"{self.name}_tensor_uid" if self.connects else self.name

    @property
    def connects(self) -> bool:
        """Whether it is a port, not a parameter."""
        return self.kind in (Kind.TENSOR, Kind.TENSORS)

    @property
    def needed(self) -> bool:
        """Whether a file must have this parameter, as it has no default."""
        return not self.connects and self.default is None and self.absent is Absent.REQUIRED


def fields(
    kind: Kind,
    *names: str,
    section: str = "",
    older: str = "",
    absent: Absent = Absent.REQUIRED,
    default: object = None,
) -> tuple[Field, ...]:
    """Return a row for each name, alike in everything else."""
    return tuple(
        Field(name=n, kind=kind, section=section, older=older, absent=absent, default=default)
        for n in names
    )


def inputs(*names: str, absent: Absent = Absent.REQUIRED) -> tuple[Field, ...]:
    """Return rows of tensors in the JSON section ``inputs``."""
    return fields(Kind.TENSOR, *names, section="inputs", absent=absent)


def outputs(*names: str, absent: Absent = Absent.REQUIRED) -> tuple[Field, ...]:
    """Return rows of tensors in the JSON section ``outputs``."""
    return fields(Kind.TENSOR, *names, section="outputs", absent=absent)
