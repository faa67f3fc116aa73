# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Gradients of pooling and of resizing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from .. import arguments
from ..dtypes import DataType
from ..enums import PaddingMode, ResampleMode, ResizeCoordinates
from ..errors import Problem
from ..tensor import Tensor
from .base import Inferred, OpSink, Port, Ports
from .fields import Field, Kind, fields
from .resample_fwd import RESAMPLE_FIELDS, RESAMPLE_RULES, ResampleOp, coordinates_of

Ints = tuple[int, ...]

BACKWARD_RULES: dict[str, str] = {
    "POOLBWD-01": "MAXPOOL has the index of the forward op, with dy's dims",
    "POOLBWD-02": "pooling an input of dx's dims gives dy's dims",
}


@dataclass(frozen=True, kw_only=True)
class ResampleBwd(ResampleOp):
    """dx = the adjoint of pooling or of resizing, applied to dy.

    Attributes
    ----------
    dx_dims : tuple of int
        The result's dims; filled in when the graph is frozen.
    """

    dx_dims: Ints = ()

    NAME: ClassVar[str] = "resample_bwd"
    INPUTS: ClassVar[tuple[Port, ...]] = (Port("dy"), Port("index", optional=True))
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("dx"),)
    LIKE: ClassVar[Mapping[str, str]] = {"dx": "dy"}
    RULES: ClassVar[Mapping[str, str]] = RESAMPLE_RULES | BACKWARD_RULES
    TYPE_NAME: ClassVar[str] = "ResampleBwdAttributes"
    WIRE_CODE: ClassVar[int | None] = 21
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *fields(Kind.TENSOR, "dy", "dx"),
        *RESAMPLE_FIELDS,
    )

    def resolve(self, t: Ports) -> Self:
        return self.with_spatial_rank(max(len(t.dims("dy")) - 2, 0))

    def input_dims(self, t: Ports) -> Ints:
        """Return dx's dims: those given, else those of the smallest input with so many windows."""
        if (given := t.given("dx")) is not None:
            return given
        dy = t.dims("dy")
        spatial = (
            (n - 1) * s + w - pre - post
            for n, s, w, pre, post in zip(
                dy[2:], self.stride, self.window, self.pre_padding, self.post_padding, strict=True
            )
        )
        return (*dy[:2], *spatial)

    def at(
        self, before: Mapping[str, Ints], after: Mapping[str, Ints]
    ) -> tuple[Self, Mapping[str, Ints]]:
        if not self.resizes or before["dy"][2:] != after["dy"][2:]:
            return self, {}
        dims = (*after["dy"][:2], *before["dx"][2:])
        return replace(self, dx_dims=dims if self.dx_dims else ()), {"dx": dims}

    def _check_resize(self, t: Ports) -> Iterator[Problem]:
        dy, dx = t.dims("dy"), t.given("dx")
        yield from self.check_windows(t, "dy", dy)
        if dx is None:
            hint = "give dx_dims, or set_dim on the result"
            yield t.problem("RESAMPLE-11", "dx", "no dims", "the input's dims", hint)
        elif len(dx) != len(dy) or dx[:2] != dy[:2]:
            wanted = f"rank {len(dy)} and [N, C] = {list(dy[:2])}, as dy"
            yield t.problem("RESAMPLE-11", "dx", f"dims {list(dx)}", wanted)
        else:
            yield from self.check_index(t, dx)

    def check(self, t: Ports) -> Iterator[Problem]:
        if self.resizes:
            yield from self._check_resize(t)
            return
        dy = t.dims("dy")
        if t.given("dx") is None and any(
            len(v) != len(dy) - 2
            for v in (self.window, self.stride, self.pre_padding, self.post_padding)
        ):
            # Without dx's dims, and with a wrong number of values, there is nothing to go by.
            yield from self.check_windows(t, "dy", dy)
            return
        dx = self.input_dims(t)
        broken = list(self.check_windows(t, "dx", dx))
        yield from broken
        if broken:
            return
        wanted = (*dx[:2], *self.extents(dx[2:]))
        if len(dx) != len(dy) or dy != wanted:
            yield t.problem(
                "POOLBWD-02",
                "dy",
                f"dims {list(dy)}",
                f"dims {list(wanted)}, as dx {list(dx)} and the windows give",
            )
        if self.resample_mode is ResampleMode.MAXPOOL:
            index = t.given("index")
            if index != dy:
                got = "nothing" if index is None else f"dims {list(index)}"
                hint = "resample_fwd(..., generate_index=True) returns it"
                yield t.problem("POOLBWD-01", "index", got, f"dims {list(dy)}, as dy", hint)
                return
        yield from self.check_index(t, dx)

    def settle(self, t: Ports) -> Self:
        return replace(self.canonical(), dx_dims=t.dims("dx"))

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        return {"dx": Inferred(dims=self.input_dims(t))}


def resample_bwd(
    graph: OpSink,
    dy: Tensor,
    *,
    resample_mode: ResampleMode | str,
    window: Sequence[int] | int = (),
    index: Tensor | None = None,
    dx_dims: Sequence[int] | None = None,
    stride: Sequence[int] | int = (),
    pre_padding: Sequence[int] | int = (),
    post_padding: Sequence[int] | int = (),
    padding_mode: PaddingMode | str = PaddingMode.NOT_SET,
    coordinates: ResizeCoordinates | str | None = None,
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> Tensor:
    """Return the gradient of the input that ``resample_fwd`` pooled or resized.

    MAXPOOL gives each element of dy to the element of dx that the index names (to none for -1,
    and none outside of its window); averages distribute it evenly over the window, over all of
    it (INCLUDE) or over the part inside the input (EXCLUDE).  Contributions add up where windows
    overlap.  The formulas are those of hipDNN's CPU reference.

    BILINEAR and NEAREST are linear maps of the input; their gradient is the transposed map.

    Parameters
    ----------
    dy : Tensor
        Gradient of the result, dims (N, C, ...) of the forward result, any layout.
    resample_mode, window, stride, pre_padding, post_padding, padding_mode, coordinates
        Those of the forward op; see ``resample_fwd``.
    index : Tensor, optional
        What ``resample_fwd`` chose; MAXPOOL needs it.
    dx_dims : sequence of int, optional
        The input's dims; ``set_dim`` on the result does the same.  Without them, the smallest
        input that has so many windows: ``(out - 1) · stride + window - pre - post`` in each dim.
        BILINEAR and NEAREST need them.
    compute_data_type : DataType or str
        Type to add in; the graph's when unset.
    name : str
        Label of the node.

    Returns
    -------
    Tensor
        dx, in the layout of ``dy`` unless strides are set.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type; at ``validate`` for broken rules (RESAMPLE-…,
        POOLBWD-…).
    """
    node = arguments.label(name, ResampleBwd.NAME)
    op = ResampleBwd(
        resample_mode=arguments.mode(ResampleMode, resample_mode, port="resample_mode", node=node),
        padding_mode=arguments.mode(PaddingMode, padding_mode, port="padding_mode", node=node),
        window=arguments.integers(window, port="window", node=node),
        stride=arguments.integers(stride, port="stride", node=node),
        pre_padding=arguments.integers(pre_padding, port="pre_padding", node=node),
        post_padding=arguments.integers(post_padding, port="post_padding", node=node),
        coordinates=coordinates_of(coordinates, node),
    )
    inputs = {"dy": dy} | ({} if index is None else {"index": index})
    result = graph.add_node(op, inputs, compute=compute_data_type, name=name)["dx"]
    return result if dx_dims is None else result.set_dim(dx_dims)
