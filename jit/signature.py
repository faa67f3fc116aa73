# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a compiled function takes: the arguments in order, and the workspace.

A signature is name-free and uid-free, as it is stored with cached code that many graphs share;
the frozen graph that asked for the code supplies uid and name of each argument by position.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from ..graph_api.dtypes import DataType
from ..graph_api.tensor import TensorSpec

__all__ = ["ArgSpec", "Signature"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ArgSpec:
    """One argument of the compiled function.

    Attributes
    ----------
    output : bool
        Whether the function writes it (outputs come first) rather than reads it.
    data_type : DataType
        Element type in memory.
    dims, strides : tuple of int
        Logical dims (N, C, spatial...) and their strides, in elements.
    shape : tuple of int
        Shape of the IR argument: the memory layout, outermost first.  Broadcast dims have
        extent 1; a tensor with padded strides is one flat dim that spans it.
    scalar : bool
        Whether it is one number, passed by value, that the host reads at each execution.
    """

    output: bool
    data_type: DataType
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    shape: tuple[int, ...]
    scalar: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the argument spans."""
        return self.data_type.nbytes(prod(self.shape))

    @classmethod
    def of(cls, spec: TensorSpec, *, output: bool = False) -> ArgSpec:
        """Return the argument for a tensor with a buffer."""
        layout = spec.layout
        return cls(
            output=output,
            data_type=spec.data_type,
            dims=spec.dims,
            strides=spec.strides,
            shape=(layout.span,) if layout.padded else layout.shape,
            scalar=spec.runtime_scalar,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form stored in manifests."""
        return {
            "output": self.output,
            "data_type": self.data_type.json,
            "dims": list(self.dims),
            "strides": list(self.strides),
            "shape": list(self.shape),
            "scalar": self.scalar,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> ArgSpec:
        """Read the JSON form; raises KeyError, TypeError or ValueError when it is damaged."""
        dims, strides = _numbers(data["dims"]), _numbers(data["strides"])
        flags = data["output"], data.get("scalar", False)
        if len(dims) != len(strides) or not all(type(flag) is bool for flag in flags):
            raise ValueError(f"dims {dims}, strides {strides}, flags {flags}")
        return cls(
            output=flags[0],
            data_type=DataType.parse(data["data_type"]),
            dims=dims,
            strides=strides,
            shape=_numbers(data["shape"]),
            scalar=flags[1],
        )


def _numbers(values: list[int]) -> tuple[int, ...]:
    """Return extents or strides; raises TypeError or ValueError when they are none."""
    if any(type(value) is not int or not 0 <= value < 2**63 for value in values):
        raise ValueError(f"{values}; wanted numbers from 0")
    return tuple(values)


@dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """Arguments (outputs first, then inputs) and the bytes of workspace the function wants."""

    args: tuple[ArgSpec, ...]
    workspace_bytes: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form stored in manifests."""
        return {
            "args": [a.as_dict() for a in self.args],
            "workspace_bytes": self.workspace_bytes,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Signature:
        """Read the JSON form; raises KeyError, TypeError or ValueError when it is damaged."""
        return cls(
            args=tuple(ArgSpec.from_dict(a) for a in data["args"]),
            workspace_bytes=_numbers([data["workspace_bytes"]])[0],
        )
