"""What the sample problems of the two gradients of a convolution have in common."""

from __future__ import annotations

from typing import Any

from ...graph_api.dtypes import DataType
from ...graph_api.enums import ConvMode
from ...graph_api.graph import Graph
from .building import wide_type

__all__ = ["CASES", "Case", "Dims", "forward_extents", "result_type"]

Dims = tuple[int, ...]
Case = tuple[str, Dims, Dims, dict[str, Any], str]

# Name, image, filter, parameters of the forward convolution, tags.
CASES: tuple[Case, ...] = (
    ("ones", (1, 1, 1, 1), (1, 1, 1, 1), {}, "size1"),
    ("1x1", (2, 16, 5, 7), (8, 16, 1, 1), {}, ""),
    ("1x1_stride2_padded", (1, 8, 8, 7), (8, 8, 1, 1), {"stride": 2, "padding": 1}, "stride"),
    ("3x3_same", (2, 8, 9, 11), (16, 8, 3, 3), {"padding": 1}, "padding"),
    ("3x3_stride2", (2, 3, 11, 14), (5, 3, 3, 3), {"stride": 2, "padding": 1}, "stride prime"),
    (
        "asymmetric_all",
        (2, 6, 9, 10),
        (4, 3, 3, 2),
        {
            "pre_padding": (2, 0),
            "post_padding": (1, 3),
            "stride": (2, 1),
            "dilation": (1, 2),
            "conv_mode": ConvMode.CONVOLUTION,
        },
        "padding asymmetric stride dilation groups flipped",
    ),
    ("filter_above_image", (1, 4, 3, 3), (4, 4, 5, 5), {"padding": 2}, "padding"),
    ("groups2", (2, 8, 6, 6), (6, 4, 3, 3), {"padding": 1}, "groups"),
    ("depthwise", (2, 16, 8, 8), (16, 1, 3, 3), {"padding": 1}, "groups depthwise"),
    ("depthwise_x2_stride2", (1, 5, 8, 7), (10, 1, 3, 3), {"stride": 2}, "groups depthwise stride"),
    ("tile_plus1", (1, 17, 17, 17), (33, 17, 3, 3), {"padding": 1}, "tile padding"),
    ("1d_groups", (1, 4, 23), (4, 2, 3), {"dilation": 4, "stride": 2}, "1d dilation groups"),
)


def forward_extents(x: Dims, w: Dims, parameters: dict[str, Any]) -> Dims:
    """Return dims of the forward result, as another graph infers them."""
    g = Graph(io_data_type=DataType.FLOAT)
    y = g.conv_fprop(g.tensor(dims=x), g.tensor(dims=w), **parameters).set_output()
    g.freeze()
    assert y.dims is not None
    return y.dims


def result_type(data_type: DataType) -> DataType:
    """Return the type in which sums of products of a type are stored."""
    return data_type if data_type.is_float else wide_type(data_type)
