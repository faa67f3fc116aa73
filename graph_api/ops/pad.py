# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A tensor padded with a constant, or with its edges cropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import ClassVar, Self

from .. import arguments
from ..dtypes import DataType
from ..errors import Problem
from ..tensor import Tensor
from ..values import stored
from .base import Axis, Follows, Inferred, Op, OpSink, Port, Ports, filled
from .fields import Field, Kind, fields, inputs, outputs

Ints = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Pad(Op):
    """y = x with ``pre_padding`` values before and ``post_padding`` behind, in each dim.

    Attributes
    ----------
    pre_padding : tuple of int
        Elements before the first, one number per dim; a negative one cuts as many off.
    post_padding : tuple of int
        Elements behind the last, one number per dim; a negative one cuts as many off.
    value : float
        The padding value; float32, like all parameters that are numbers.
    """

    pre_padding: Ints = ()
    post_padding: Ints = ()
    value: float = 0.0

    NAME: ClassVar[str] = "pad"
    INPUTS: ClassVar[tuple[Port, ...]] = (Port("x"),)
    OUTPUTS: ClassVar[tuple[Port, ...]] = (Port("y"),)
    LIKE: ClassVar[Mapping[str, str]] = {"y": "x"}
    RULES: ClassVar[Mapping[str, str]] = {
        "PAD-01": "pre_padding and post_padding have one value per dim of x",
        "PAD-02": "at least one element of x remains in each dim",
        "PAD-03": "value is a finite float32 number that x's data type can hold",
    }
    TYPE_NAME: ClassVar[str] = "PadAttributes"
    FIELDS: ClassVar[tuple[Field, ...]] = (
        *inputs("x"),
        *outputs("y"),
        *fields(Kind.INTS, "pre_padding", "post_padding"),
        Field(name="value", kind=Kind.FLOAT, default=0.0),
    )

    def computes(self) -> bool:
        return False

    def resolve(self, t: Ports) -> Self:
        rank = len(t.dims("x"))
        # JSON holds float32: what the code does must not depend on the way it took.
        rounded = stored(self.value, DataType.FLOAT)
        return replace(
            self,
            pre_padding=filled(self.pre_padding, rank, 0),
            post_padding=filled(self.post_padding, rank, 0),
            value=self.value if rounded is None else float(rounded),
        )

    def check(self, t: Ports) -> Iterator[Problem]:
        x = t.dims("x")
        given = {"pre_padding": self.pre_padding, "post_padding": self.post_padding}
        wrong = {port: values for port, values in given.items() if len(values) != len(x)}
        for port, values in wrong.items():
            yield t.problem("PAD-01", port, list(values), f"{len(x)} values, one per dim of x")
        data_type = t["x"].data_type
        held = [stored(self.value, kind) for kind in (DataType.FLOAT, data_type)]
        if not all(number is not None and isfinite(number) for number in held):
            wanted = f"a finite number that float32 and {data_type.json} hold"
            yield t.problem("PAD-03", "value", self.value, wanted)
        if wrong:
            return
        for axis, (n, pre, post) in enumerate(zip(x, *given.values(), strict=True)):
            # Frames may not make up for what is cut off: both ends are cut from x itself.
            if n + min(pre, 0) + min(post, 0) < 1:
                yield t.problem(
                    "PAD-02",
                    "pre_padding",
                    f"{pre} and {post} in dim {axis}",
                    f"at most {n - 1} elements cut off x's {n}",
                )

    def infer(self, t: Ports) -> Mapping[str, Inferred]:
        dims = tuple(
            pre + n + post
            for n, pre, post in zip(t.dims("x"), self.pre_padding, self.post_padding, strict=True)
        )
        return {"y": Inferred(dims=dims, data_type=t["x"].data_type)}

    def follows(self, at: Axis) -> Follows:
        kept = self.pre_padding[at.axis] == self.post_padding[at.axis] == 0
        return at.to() if kept else "it is padded or cut"


def pad(
    graph: OpSink,
    x: Tensor,
    *,
    pre_padding: Sequence[int] | int = (),
    post_padding: Sequence[int] | int = (),
    value: float = 0.0,
    name: str = "",
) -> Tensor:
    """Pad a tensor with a constant, or crop its edges.

    Parameters
    ----------
    x : Tensor
        Any dims, data type and layout.
    pre_padding, post_padding : int or sequence of int
        Elements before the first and behind the last one, per dim (one number counts for all
        dims); a negative number cuts off as many elements.
    value : float
        The padding value: a finite number, rounded to float32 and then to x's data type.
    name : str
        Label of the node.

    Returns
    -------
    Tensor
        y with ``pre + n + post`` elements per dim, in x's data type unless another one is set,
        then converted; in the layout of ``x`` unless strides are set.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type; at ``validate`` for broken rules (PAD-…).
    """
    node = arguments.label(name, Pad.NAME)
    op = Pad(
        pre_padding=arguments.integers(pre_padding, port="pre_padding", node=node),
        post_padding=arguments.integers(post_padding, port="post_padding", node=node),
        value=arguments.real(value, port="value", node=node) or 0.0,
    )
    return graph.add_node(op, {"x": x}, name=name)["y"]
