# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pooling and resizing: an input with other spatial dims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar, NamedTuple, Self

from .. import arguments
from ..dtypes import DataType
from ..enums import PaddingMode, ResampleMode, ResizeCoordinates
from ..errors import Problem
from ..tensor import Tensor
from .base import Axis, Follows, Inferred, Match, Op, OpSink, Port, Ports, filled, results
from .fields import Absent, Field, Kind, fields

Ints = tuple[int, ...]

AVERAGES = (ResampleMode.AVGPOOL_EXCLUDE_PADDING, ResampleMode.AVGPOOL_INCLUDE_PADDING)
POOLING = (ResampleMode.MAXPOOL, *AVERAGES)
RESIZES = (ResampleMode.BILINEAR, ResampleMode.NEAREST)

RESAMPLE_RULES: dict[str, str] = {
    "RESAMPLE-01": "the input has rank 3, 4 or 5: (N, C, spatial...)",
    "RESAMPLE-02": "window and stride have one value of at least 1 per spatial dim",
    "RESAMPLE-03": "paddings have one value of at least 0 per spatial dim",
    "RESAMPLE-04": "paddings are smaller than the window, so that each window holds an element",
    "RESAMPLE-05": "the window fits into the padded input",
    "RESAMPLE-06": "the mode is MAXPOOL, one of the averages, BILINEAR or NEAREST",
    "RESAMPLE-07": "padding is NEG_INF_PAD or ZERO_PAD for MAXPOOL, ZERO_PAD for averages",
    "RESAMPLE-08": "averages and BILINEAR have a floating compute type",
    "RESAMPLE-09": "an index belongs to MAXPOOL and is an integer that holds all positions",
    "RESAMPLE-10": "BILINEAR and NEAREST have windows and strides of 1 and no padding "
    "(hipDNN publishes no formula for others)",
    "RESAMPLE-11": "the dims of input and result of BILINEAR and NEAREST are known, "
    "with one N, one C and one rank",
    "RESAMPLE-12": "coordinates and size belong to BILINEAR and NEAREST",
}


RESAMPLE_FIELDS = (
    *fields(Kind.TENSOR, "index", absent=Absent.OMITTED),
    *fields(Kind.INTS, "pre_padding", "post_padding", "stride", "window"),
    Field(name="resample_mode", kind=Kind.ENUM, enum=ResampleMode),
    Field(name="padding_mode", kind=Kind.ENUM, enum=PaddingMode),
    Field(
        name="coordinates",
        kind=Kind.ENUM,
        enum=ResizeCoordinates,
        absent=Absent.OMITTED,
        assumed=ResizeCoordinates.HALF_PIXEL,
    ),
)
"""What both directions share."""


@dataclass(frozen=True, kw_only=True)
class ResampleOp(Op):
    """Parameters and rules of both directions.

    Attributes
    ----------
    coordinates : ResizeCoordinates, optional
        Sampling positions of BILINEAR and NEAREST; None means HALF_PIXEL, which ``resolve``
        writes out.
    """

    resample_mode: ResampleMode
    padding_mode: PaddingMode = PaddingMode.NOT_SET
    window: Ints = ()
    stride: Ints = ()
    pre_padding: Ints = ()
    post_padding: Ints = ()
    coordinates: ResizeCoordinates | None = None

    @property
    def resizes(self) -> bool:
        """Whether the input is resized, to any size, rather than pooled by windows."""
        return self.resample_mode in RESIZES

    @property
    def averages(self) -> bool:
        """Whether elements are averaged rather than chosen."""
        return self.resample_mode in AVERAGES

    @property
    def padded(self) -> bool:
        """Whether there is any padding."""
        return any(self.pre_padding) or any(self.post_padding)

    def with_spatial_rank(self, rank: int) -> Self:
        """Return the op with shorthands written out."""
        coordinates = self.coordinates
        if self.resizes and coordinates is None:
            coordinates = ResizeCoordinates.HALF_PIXEL
        # Pooling without a window would be no pooling.
        window = filled(self.window, rank, 1) if self.window or self.resizes else ()
        return replace(
            self,
            coordinates=coordinates,
            window=window,
            stride=filled(self.stride, rank, 1),
            pre_padding=filled(self.pre_padding, rank, 0),
            post_padding=filled(self.post_padding, rank, 0),
        )

    def extents(self, size: Ints) -> Ints:
        """Return the result's spatial dims: ⌊(in + pre + post - window) / stride⌋ + 1."""
        return tuple(
            (n + pre + post - w) // s + 1
            for n, pre, post, w, s in zip(
                size, self.pre_padding, self.post_padding, self.window, self.stride, strict=True
            )
        )

    def check_windows(self, t: Ports, port: str, dims: Ints) -> Iterator[Problem]:
        """Yield the problems of the parameters for an input's dims."""
        if not 3 <= len(dims) <= 5:
            yield t.problem("RESAMPLE-01", port, f"rank {len(dims)}", "rank 3, 4 or 5")
            return
        yield from self._check_modes(t)
        rank, broken = len(dims) - 2, False
        for rule, least, ports in (
            ("RESAMPLE-02", 1, ("window", "stride")),
            ("RESAMPLE-03", 0, ("pre_padding", "post_padding")),
        ):
            for name in ports:
                values = getattr(self, name)
                if len(values) != rank or any(v < least for v in values):
                    wanted = f"{rank} value(s), one per spatial dim, each at least {least}"
                    yield t.problem(rule, name, list(values), wanted)
                    broken = True
        if broken:
            return
        if self.resizes:
            yield from self._check_neutral(t)
            return
        for name in ("pre_padding", "post_padding"):
            values = getattr(self, name)
            if any(p >= w for p, w in zip(values, self.window, strict=True)):
                wanted = f"less than the window {list(self.window)}"
                yield t.problem("RESAMPLE-04", name, list(values), wanted)
                broken = True
        if not broken and any(n < 1 for n in self.extents(dims[2:])):
            yield t.problem(
                "RESAMPLE-05",
                "window",
                f"{list(self.window)}, result would be {list(self.extents(dims[2:]))}",
                f"a window that fits into {port}'s {list(dims[2:])} with its padding",
            )

    def _check_neutral(self, t: Ports) -> Iterator[Problem]:
        for name, neutral in (
            ("window", 1),
            ("stride", 1),
            ("pre_padding", 0),
            ("post_padding", 0),
        ):
            values = getattr(self, name)
            if any(v != neutral for v in values):
                wanted = f"{neutral} in each dim: the dims of input and result decide"
                yield t.problem("RESAMPLE-10", name, list(values), wanted, "leave it out")

    def _check_modes(self, t: Ports) -> Iterator[Problem]:
        mode, padding = self.resample_mode, self.padding_mode
        if mode not in POOLING + RESIZES:
            wanted = "one of " + ", ".join(m.json for m in POOLING + RESIZES)
            yield t.problem("RESAMPLE-06", "resample_mode", mode.json, wanted)
            return
        if self.resizes:
            if mode is ResampleMode.BILINEAR:
                yield from self._check_compute(t)
            return
        if self.coordinates is not None:
            wanted = "none: the windows determine which elements are pooled"
            yield t.problem("RESAMPLE-12", "coordinates", self.coordinates.json, wanted)
        suits = [PaddingMode.ZERO_PAD] + [PaddingMode.NEG_INF_PAD] * (not self.averages)
        # An average that excludes padding does not read its value.
        blind = mode is ResampleMode.AVGPOOL_EXCLUDE_PADDING
        if self.padded and padding not in suits and not blind:
            wanted = "one of " + ", ".join(m.json for m in suits)
            yield t.problem("RESAMPLE-07", "padding_mode", padding.json, wanted)
        if self.averages:
            yield from self._check_compute(t)

    def _check_compute(self, t: Ports) -> Iterator[Problem]:
        if not t.compute.is_float:
            yield t.problem(
                "RESAMPLE-08",
                "compute_data_type",
                t.compute.json,
                f"a floating type for {self.resample_mode.name}",
                'pass compute_data_type="float"',
            )

    def check_index(self, t: Ports, dims: Ints) -> Iterator[Problem]:
        """Yield the problems of the index, if there is one."""
        if "index" not in t:
            return
        if self.resample_mode is not ResampleMode.MAXPOOL:
            yield t.problem("RESAMPLE-09", "index", "a tensor", "none: only MAXPOOL has one")
            return
        kind, last = t["index"].data_type, prod(dims[2:]) - 1
        if kind.value.kind != "int" or last >= 2 ** (kind.bits - 1):
            wanted = f"a signed integer type that holds {last}"
            yield t.problem("RESAMPLE-09", "index", kind.json, wanted, 'for example "int32"')

    def canonical(self) -> Self:
        """Return the op with one spelling for padding modes that mean the same."""
        blind = self.resample_mode is ResampleMode.AVGPOOL_EXCLUDE_PADDING or not self.padded
        return replace(self, padding_mode=PaddingMode.ZERO_PAD) if blind else self

    def follows(self, at: Axis) -> Follows:
        return at.to() if at.axis < 2 else "a window of several positions"


@dataclass(frozen=True, kw_only=True)
class ResampleFwd(ResampleOp):
    """y = the largest or the average element of each window, or the input resized.

    Attributes
    ----------
    size : tuple of int
        The result's spatial dims, for BILINEAR and NEAREST; ``resolve`` takes them from y where
        they are not given.
    generate_index : bool
        Whether the index is an output; follows from the connections.
    """

    generate_index: bool = False
    size: Ints = ()

    NAME: ClassVar[str] = "resample_fwd"
    ELSEWHERE: ClassVar[tuple[str, ...]] = (
        "avg_pool2d",
        "interpolate",
        "max_pool2d",
        "maxpool",
        "pool",
        "pooling",
        "upsample",
    )
    INPUTS: ClassVar[tuple[Port, ...]] = (Port("x"),)
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("y"), Port("index", optional=True))
    LIKE: ClassVar[Mapping[str, str]] = {"y": "x", "index": "x"}
    RULES: ClassVar[Mapping[str, str]] = RESAMPLE_RULES
    TYPE_NAME: ClassVar[str] = "ResampleFwdAttributes"
    WIRE_CODE: ClassVar[int | None] = 19
    MATCH: ClassVar[Match | None] = Match(
        priority=20,
        criteria=(("resample_mode", "resample_mode"), ("padding_mode", "padding_mode")),
    )
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *fields(Kind.TENSOR, "x", "y"),
        *RESAMPLE_FIELDS,
        # False by default in older schemas; both mean that an index decides.
        Field(name="generate_index", kind=Kind.BOOL, absent=Absent.OMITTED),
    )

    def computes(self) -> bool:
        return self.resample_mode is not ResampleMode.NEAREST

    def resolve(self, t: Ports) -> Self:
        rank = max(len(t.dims("x")) - 2, 0)
        size = self.size
        if self.resizes:
            size = filled(size, rank, 1) if size else (t.given("y") or ())[2:]
        return replace(self.with_spatial_rank(rank), generate_index="index" in t, size=size)

    def at(
        self, before: Mapping[str, Ints], after: Mapping[str, Ints]
    ) -> tuple[Self, Mapping[str, Ints]]:
        same = before["x"][2:] == after["x"][2:]
        if not self.resizes or self.size or not same:
            return self, {}
        return self, {"y": (*after["x"][:2], *before["y"][2:])}

    def check(self, t: Ports) -> Iterator[Problem]:
        x = t.dims("x")
        yield from self.check_windows(t, "x", x)
        if not self.resizes:
            if self.size:
                wanted = "none: windows and strides determine the result's dims"
                yield t.problem("RESAMPLE-12", "size", list(self.size), wanted)
        elif len(x) < 3:
            return
        elif not self.size:
            hint = "pass size=..., or set_dim on the result"
            yield t.problem("RESAMPLE-11", "y", "no dims", "the result's dims", hint)
        elif len(self.size) != len(x) - 2 or any(n < 1 for n in self.size):
            wanted = f"{len(x) - 2} extent(s) of at least 1, as x {list(x)} has spatial dims"
            yield t.problem("RESAMPLE-11", "size", list(self.size), wanted)

    def check_outputs(self, t: Ports) -> Iterator[Problem]:
        yield from self.check_index(t, t.dims("x"))

    def settle(self, t: Ports) -> Self:
        return self.canonical()

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        x = t.dims("x")
        dims = (*x[:2], *(self.size if self.resizes else self.extents(x[2:])))
        found = {"y": Inferred(dims=dims)}
        if "index" in t:
            found["index"] = Inferred(dims=dims, data_type=DataType.INT32)
        return found


def coordinates_of(value: ResizeCoordinates | str | None, node: str) -> ResizeCoordinates | None:
    """Return coordinates given as an argument; None stays."""
    if value is None:
        return None
    return arguments.mode(ResizeCoordinates, value, port="coordinates", node=node)


@results
class Resampled(NamedTuple):
    """Results of ``Graph.resample_fwd``."""

    y: Tensor
    index: Tensor | None  # type: ignore[assignment]  # hides tuple.index, as hipDNN names it so


def resample_fwd(
    graph: OpSink,
    x: Tensor,
    *,
    resample_mode: ResampleMode | str,
    window: Sequence[int] | int = (),
    size: Sequence[int] | int = (),
    stride: Sequence[int] | int = (),
    pre_padding: Sequence[int] | int = (),
    post_padding: Sequence[int] | int = (),
    padding_mode: PaddingMode | str = PaddingMode.NOT_SET,
    coordinates: ResizeCoordinates | str | None = None,
    generate_index: bool = False,
    compute_data_type: DataType | str = DataType.UNSET,
    name: str = "",
) -> Resampled:
    """Pool an input, reducing each window to one element, or resize it.

    Window o of a spatial dim covers the positions ``o · stride - pre_padding`` and the
    ``window - 1`` after it.  The formulas are those of hipDNN's CPU reference.

    BILINEAR and NEAREST have neither windows nor padding: the dims of input and result determine
    which elements are read.  hipDNN and cuDNN name these modes and publish no formula.  Here
    element o of a result's dim of ``out`` elements is sampled at position p of the input's ``n``:

    =============  ==================================  ==============  ==========================
    coordinates    p                                   NEAREST takes   as PyTorch's
    =============  ==================================  ==============  ==========================
    HALF_PIXEL     ``(o + 1/2) · n / out - 1/2``       ``⌊p + 1/2⌋``   ``align_corners=False``,
                                                                       ``nearest-exact``
    ALIGN_CORNERS  ``o · (n - 1) / (out - 1)``,        ``⌊p + 1/2⌋``   ``align_corners=True``
                   0 for one element
    ASYMMETRIC     ``o · n / out``                     ``⌊p⌋``         ``nearest``
    =============  ==================================  ==============  ==========================

    BILINEAR (linear in one dim, trilinear in three) weighs the elements on both sides of p, the
    nearer one more, after p was clamped to the input.  There is no antialiasing when shrinking.

    Parameters
    ----------
    x : Tensor
        Input, dims (N, C, spatial...), one to three spatial dims, any layout.
    resample_mode : ResampleMode or str
        MAXPOOL; AVGPOOL_INCLUDE_PADDING, the sum over the window divided by its size; or
        AVGPOOL_EXCLUDE_PADDING, divided by how many elements of x it covers; BILINEAR; NEAREST.
    window, stride : int or sequence of int
        Size and stride of the windows; one value counts for all spatial dims, strides are 1
        when not given.  Leave them out (or 1) for BILINEAR and NEAREST.
    size : int or sequence of int
        The result's spatial dims for BILINEAR and NEAREST; one value counts for all.  ``set_dim``
        on the result does the same.
    pre_padding, post_padding : int or sequence of int
        Positions before and after the input that windows may cover; less than the window.
    padding_mode : PaddingMode or str
        The value of padding: ZERO_PAD or, for MAXPOOL, NEG_INF_PAD, which is never chosen.
    coordinates : ResizeCoordinates or str, optional
        Sampling positions of BILINEAR and NEAREST: HALF_PIXEL when not given.
    generate_index : bool
        Whether to return which element MAXPOOL chose.
    compute_data_type : DataType or str
        Type to compare and to add in; the graph's when unset.  NEAREST computes nothing.
    name : str
        Label of the node.

    Returns
    -------
    Resampled
        y, dims (N, C, ...) with ``(in + pre + post - window) // stride + 1`` in each spatial dim,
        or the size, and, if asked for, the index (INT32 unless another type is set; y's dims):
        the position of the chosen element in x's spatial dims, counted row by row; the first of
        several equal ones, -1 for padding.  Both in the layout of ``x`` unless strides are set.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type; at ``validate`` for broken rules (RESAMPLE-…).

    Examples
    --------
    >>> from hipdnn_iree.graph_api.graph import Graph
    >>> g = Graph(io_data_type="half", compute_data_type="float")
    >>> x = g.tensor(dims=(1, 64, 28, 28), name="x")
    >>> y = g.resample_fwd(x, resample_mode="bilinear", size=(56, 56)).y.set_output()
    >>> pooled = g.resample_fwd(x, resample_mode="maxpool", window=2, stride=2).y.set_output()
    >>> frozen = g.freeze()
    >>> frozen.tensors[y.uid].dims, frozen.tensors[pooled.uid].dims
    ((1, 64, 56, 56), (1, 64, 14, 14))
    """
    node = arguments.label(name, ResampleFwd.NAME)
    index = arguments.flag(generate_index, port="generate_index", node=node)
    op = ResampleFwd(
        resample_mode=arguments.mode(ResampleMode, resample_mode, port="resample_mode", node=node),
        padding_mode=arguments.mode(PaddingMode, padding_mode, port="padding_mode", node=node),
        window=arguments.integers(window, port="window", node=node),
        stride=arguments.integers(stride, port="stride", node=node),
        pre_padding=arguments.integers(pre_padding, port="pre_padding", node=node),
        post_padding=arguments.integers(post_padding, port="post_padding", node=node),
        coordinates=coordinates_of(coordinates, node),
        size=arguments.integers(size, port="size", node=node),
    )
    outputs = ["y", "index"] if index else ["y"]
    found = graph.add_node(op, {"x": x}, outputs=outputs, compute=compute_data_type, name=name)
    return Resampled(found["y"], found.get("index"))
