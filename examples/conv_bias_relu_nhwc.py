# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolution + bias + ReLU, channels-last: dims stay (N, C, H, W), the strides say NHWC.

python examples/conv_bias_relu_nhwc.py [TARGET...]
"""

from _common import main
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.layout import channels_last_strides


def build(n: int = 4, c: int = 32, k: int = 64, size: int = 28) -> Graph:
    """Return the graph: y = relu(conv(x, w) + bias), x, w and y channels-last."""
    graph = Graph("conv_bias_relu_nhwc", io_data_type="half", compute_data_type="float")
    x_dims, w_dims = (n, c, size, size), (k, c, 3, 3)
    x = graph.tensor(dims=x_dims, strides=channels_last_strides(x_dims), name="x")
    w = graph.tensor(dims=w_dims, strides=channels_last_strides(w_dims), name="w")
    bias = graph.tensor(dims=(1, k, 1, 1), name="bias")
    y = graph.conv_fprop(x, w, padding=1, name="conv")  # takes the layout of x
    y = graph.add(y, bias, name="bias")
    graph.relu(y, name="relu").set_output().set_name("y")
    return graph


if __name__ == "__main__":
    main(build)
