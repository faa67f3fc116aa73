"""Conversion to another data type: a readable name for pointwise IDENTITY."""

from __future__ import annotations

from .. import arguments
from ..dtypes import DataType
from ..enums import PointwiseMode
from ..tensor import Tensor
from .base import OpSink
from .pointwise import pointwise


def cast(graph: OpSink, x: Tensor, data_type: DataType | str, *, name: str = "") -> Tensor:
    """Convert a tensor to another data type.

    The node is pointwise IDENTITY, which hipDNN knows, with the result's type set.

    Parameters
    ----------
    x : Tensor
        Any dims, data type and layout.
    data_type : DataType or str
        The result's type.
    name : str
        Label of the node.

    Returns
    -------
    Tensor
        x in that type, converted once and without a detour through the compute type: rounded to
        nearest (floats), truncated and saturated (float to integer), saturated (integers), or
        ``≠ 0`` (BOOLEAN); in the layout of ``x`` unless strides are set.

    Raises
    ------
    GraphError
        At once for an argument of the wrong type.
    """
    kind = arguments.data_type(data_type, port="data_type", node=arguments.label(name, "cast"))
    return pointwise(graph, x, mode=PointwiseMode.IDENTITY, name=name).set_data_type(kind)
