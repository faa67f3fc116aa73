# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rules of single tensors: dims, strides, scalar values."""

from __future__ import annotations

from collections.abc import Container, Iterator
from math import prod
from typing import TYPE_CHECKING

from .arguments import shown
from .dtypes import DataType
from .errors import Problem
from .layout import LayoutError, byte_runs, contiguous_strides, layout_of
from .tensor import Tensor
from .values import Scalar, stored

if TYPE_CHECKING:
    from .building import GraphBuilder

__all__ = [
    "EXTENTS",
    "MAX_RANK",
    "RULES",
    "check_tensor",
    "default_type",
    "fits",
    "label_of",
    "misplaced",
]

MAX_RANK = 8
EXTENTS = "extents of at least 1, below 2^63 bytes"
_INT64_MAX = 2**63 - 1

RULES: dict[str, str] = {
    "TENSOR-01": "uids are unique in the graph",
    "TENSOR-02": "a tensor that no node writes has dims",
    "TENSOR-03": "every tensor has a data type, its own or the graph's default",
    "TENSOR-04": "there is one stride per dim, and at most 8 dims",
    "TENSOR-05": "every extent is at least 1, and the tensor has less than 2^63 bytes",
    "TENSOR-06": "strides are not negative, elements do not overlap or interleave",
    "TENSOR-07": "a tensor that a node writes has a place for every element (no broadcast)",
    "TENSOR-08": "a compile-time scalar has dims (1,), a value its type can hold, and no producer",
    "TENSOR-09": "a virtual tensor is written by a node",
    "TENSOR-10": "the alignment is at least one byte; ragged offsets are a tensor of the graph",
    "TENSOR-11": "a scalar read at execution has one element of at least 8 bits, and no producer",
    "TENSOR-12": "of a tensor that a node writes, elements below 8 bits share no byte with a gap",
    "TENSOR-13": "the shape of a tensor is asked for once its dims follow",
}


def label_of(tensor: Tensor) -> str:
    """Return the name of a tensor for a message."""
    if tensor.name:
        return tensor.name
    return f"tensor {tensor.given_uid}" if tensor.given_uid is not None else "unnamed tensor"


def fits(dims: tuple[int, ...]) -> bool:
    """Whether all extents are positive and the elements fit into 63 bits of bytes."""
    return min(dims, default=1) >= 1 and prod(dims) * 8 <= _INT64_MAX


def check_tensor(
    graph: GraphBuilder, tensor: Tensor, uids: Container[int | None]
) -> Iterator[Problem]:
    """Yield the problems of what was given for a tensor; ``uids`` are those of the graph."""

    def problem(rule: str, got: object, wanted: str, hint: str = "") -> Problem:
        return Problem(rule=rule, port=label_of(tensor), got=str(got), wanted=wanted, hint=hint)

    produced = graph.is_produced(tensor)
    if tensor.value is not None:
        yield from _check_scalar(graph, tensor, tensor.value)
    if tensor.runtime_scalar:
        yield from _check_runtime_scalar(graph, tensor)
    if tensor.virtual and not produced:
        yield problem("TENSOR-09", "virtual, and no node writes it", "a writer, or a buffer")
    if not isinstance(tensor.alignment, int) or tensor.alignment < 1:
        yield problem("TENSOR-10", f"alignment {shown(tensor.alignment)}", "at least 1 byte")
    offsets = tensor.ragged_offset_uid
    if offsets is not None and offsets not in uids:
        yield problem("TENSOR-10", f"ragged offsets in uid {offsets}", "a tensor of this graph")
    if tensor.given_strides and max(map(abs, tensor.given_strides)) * 8 > _INT64_MAX:
        yield problem("TENSOR-05", f"strides {shown(tensor.given_strides)}", "less than 2^63 bytes")
        return
    if tensor.given_dims is None:
        if not produced:
            yield problem(
                "TENSOR-02",
                "no dims",
                "dims",
                'pass dims=(...) to tensor(); in a file, "dims": [...]',
            )
        return
    if len(tensor.given_dims) > MAX_RANK or not tensor.given_dims:
        yield problem("TENSOR-04", f"rank {len(tensor.given_dims)}", f"rank 1 to {MAX_RANK}")
        return
    if not fits(tensor.given_dims):
        hint = "graph.dynamic(...) is a size given at execution" if -1 in tensor.given_dims else ""
        yield problem("TENSOR-05", f"dims {list(tensor.given_dims)}", EXTENTS, hint)
        return
    if tensor.given_strides is None:
        return
    if len(tensor.given_strides) != len(tensor.given_dims):
        yield problem(
            "TENSOR-04",
            f"{len(tensor.given_strides)} strides for {len(tensor.given_dims)} dims",
            "one stride per dim",
        )
        return
    for problem_of in misplaced(tensor.given_dims, tensor.given_strides, written=produced):
        yield problem(*problem_of)


def misplaced(
    dims: tuple[int, ...], strides: tuple[int, ...], *, written: bool, bits: int = 8
) -> Iterator[tuple[str, str, str, str]]:
    """Yield rule, what was found, what is allowed and a hint for strides that a tensor cannot have.

    Parameters
    ----------
    dims, strides : tuple of int
        Of equal length.
    written : bool
        Whether a node writes the tensor.
    bits : int
        Of an element that has memory.
    """
    try:
        layout = layout_of(dims, strides)
    except LayoutError as error:
        yield "TENSOR-06", str(error), "dense, padded or broadcast strides", "copy it to one"
        return
    if layout.span * 8 > _INT64_MAX:
        yield "TENSOR-05", f"a span of {layout.span} elements", "less than 2^63 bytes", ""
    if not written or not (layout.broadcast or layout.padded):
        return
    got = f"strides {list(strides)} for dims {list(dims)}"
    example = f"for example {list(contiguous_strides(dims))}"
    if layout.broadcast:
        yield "TENSOR-07", got, "no stride 0 (gaps are allowed)", example
    elif bits < 8 and byte_runs(layout, bits) is None:
        yield "TENSOR-12", f"{got} of {bits} bits", "gaps that begin and end with a byte", example


def _check_scalar(graph: GraphBuilder, tensor: Tensor, value: Scalar) -> Iterator[Problem]:
    def problem(got: object, wanted: str, hint: str = "") -> Problem:
        port = label_of(tensor)
        return Problem(rule="TENSOR-08", port=port, got=str(got), wanted=wanted, hint=hint)

    if tensor.given_dims is None or any(d != 1 for d in tensor.given_dims):
        yield problem(f"dims {shown(tensor.given_dims)}", "dims (1,) for a compile-time scalar")
    if graph.is_produced(tensor) or tensor.virtual:
        yield problem("a value and a writer", "a scalar that no node writes")
    data_type = default_type(graph, tensor)
    if data_type is not DataType.UNSET and stored(value, data_type) is None:
        hint = 'data_type="float", say, is the type of the scalar alone'
        yield problem(shown(value), f"a number that {data_type.json} can hold", hint)


def _check_runtime_scalar(graph: GraphBuilder, tensor: Tensor) -> Iterator[Problem]:
    def problem(got: object, wanted: str) -> Problem:
        return Problem(rule="TENSOR-11", port=label_of(tensor), got=str(got), wanted=wanted)

    if tensor.given_dims is not None and any(d != 1 for d in tensor.given_dims):
        got = f"dims {shown(list(tensor.given_dims))}"
        yield problem(got, "one element for a scalar read at execution")
    if graph.is_produced(tensor) or tensor.virtual:
        yield problem("a writer", "a scalar that no node writes")
    data_type = default_type(graph, tensor)
    if 0 < data_type.bits < 8:
        yield problem(data_type.json, "a type of at least 8 bits")


def default_type(graph: GraphBuilder, tensor: Tensor) -> DataType:
    """Return a tensor's own data type, or the graph's for its kind; UNSET when there is none."""
    if tensor.given_type is not DataType.UNSET:
        return tensor.given_type
    if not tensor.virtual:
        return graph.io_data_type
    if graph.intermediate_data_type is not DataType.UNSET:
        return graph.intermediate_data_type
    candidates = (graph.compute_data_type, graph.io_data_type)
    found = next((t for t in candidates if t is not DataType.UNSET), DataType.UNSET)
    maker = graph.maker(tensor)
    if maker and maker.compute_data_type.is_float and not found.is_float:
        return maker.compute_data_type  # or the fractions of a single float step would be lost
    return found
