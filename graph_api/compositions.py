# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Conveniences of ``Graph`` that are compositions of hipDNN's ops: they add only nodes it knows."""

from __future__ import annotations

from math import prod

from . import arguments
from .dtypes import DataType
from .errors import GraphError
from .op_methods import OpMethods
from .script_line import refused
from .tensor import Tensor

__all__ = ["RULES", "Compositions"]

RULES: dict[str, str] = {
    "COMPOSE-01": "the dims of x are known where the nodes depend on them",
    "COMPOSE-02": "w of linear is a matrix; its dims are known",
    "COMPOSE-03": "the axis of a softmax is one of x's",
}


class Compositions(OpMethods):
    """Base of ``Graph``: methods that add more than one node."""

    def softmax(
        self,
        x: Tensor,
        axis: int = -1,
        *,
        compute_data_type: DataType | str = DataType.UNSET,
        name: str = "",
    ) -> Tensor:
        """Return exp(x - m) / Σ exp(x - m) with the maximum m, both along an axis.

        Five nodes, which become one kernel.

        Parameters
        ----------
        x : Tensor
            Of known dims, floats.
        axis : int
            Axis of x to sum along; negative ones count from the end.
        compute_data_type : DataType or str
            Type to compute in; the graph's when unset.
        name : str
            Prefix of the nodes' labels.

        Returns
        -------
        Tensor
            x's dims.

        Raises
        ------
        GraphError
            For an axis that x has not (COMPOSE-03), and for dims that are not known yet
            (COMPOSE-01).
        """
        label = arguments.label(name, "softmax")
        rank = len(_known(x, label, "x", "COMPOSE-01"))
        number = arguments.integer(axis, port="axis", node=label)
        if number is None or not -rank <= number < rank:
            wanted = f"an axis from {-rank} to {rank - 1}"
            raise _refused("COMPOSE-03", label, "axis", arguments.shown(axis), wanted)
        kind, axes = compute_data_type, (number % rank,)
        largest = self.reduction(
            x, mode="max", axes=axes, compute_data_type=kind, name=_part(name, "max")
        )
        shifted = self.sub(x, largest, compute_data_type=kind, name=_part(name, "shift"))
        powers = self.exp(shifted, compute_data_type=kind, name=_part(name, "exp"))
        total = self.reduction(
            powers, mode="add", axes=axes, compute_data_type=kind, name=_part(name, "sum")
        )
        return self.div(powers, total, compute_data_type=kind, name=_part(name, "divide"))

    def linear(
        self,
        x: Tensor,
        w: Tensor,
        bias: Tensor | None = None,
        *,
        compute_data_type: DataType | str = DataType.UNSET,
        name: str = "",
    ) -> Tensor:
        """Return x · w + bias over the last dim of x.

        A matmul and an addition; for x of another rank than 2 also two reshapes, of it and of the
        result.  In a graph with dynamic dims, whose sizes these would fix, it is one of w.

        Parameters
        ----------
        x : Tensor
            Dims (..., in), known.
        w : Tensor
            Dims (in, out).  A matrix that is stored as (out, in) has dims (in, out) all the same,
            and strides (1, in).
        bias : Tensor, optional
            Dims (out,), or others that broadcast to the result's.
        compute_data_type : DataType or str
            Type to accumulate in; the graph's when unset.
        name : str
            Prefix of the nodes' labels.

        Returns
        -------
        Tensor
            Dims (..., out).

        Raises
        ------
        GraphError
            For dims that are not known yet (COMPOSE-01, -02), for w that is no matrix
            (COMPOSE-02), and for dims that do not fit (MATMUL-02, PW-03).
        """
        label = arguments.label(name, "linear")
        dims = _known(x, label, "x", "COMPOSE-01")
        matrix = _known(w, label, "w", "COMPOSE-02")
        if len(matrix) != 2:
            wanted = "dims (in, out)"
            raise _refused("COMPOSE-02", label, "w", f"dims {list(matrix)}", wanted)
        kind, wide = compute_data_type, len(dims) > 2 and bool(x.graph.symbols)
        flat = wide or len(dims) == 2
        rows = x if flat else self.reshape(x, dim=(prod(dims[:-1]), dims[-1]))
        if wide:
            w = self.reshape(w, dim=(1,) * (len(dims) - 2) + matrix)
        y = self.matmul(rows, w, compute_data_type=kind, name=_part(name, "mm"))
        if not flat:
            y = self.reshape(y, dim=(*dims[:-1], matrix[1]))
        if bias is None:
            return y
        return self.add(y, bias, compute_data_type=kind, name=_part(name, "bias"))


def _part(name: str, part: str) -> str:
    return f"{name}.{part}" if name else ""


def _known(tensor: Tensor, label: str, port: str, rule: str) -> tuple[int, ...]:
    dims = tensor.dims if isinstance(tensor, Tensor) else None
    if dims:
        return dims
    raise _refused(rule, label, port, arguments.shown(tensor), "a tensor whose dims are known")


def _refused(rule: str, label: str, port: str, got: str, wanted: str) -> GraphError:
    told = {"rule": rule, "node": label, "port": port, "got": got, "wanted": wanted}
    return refused("the nodes cannot be made", **told)
