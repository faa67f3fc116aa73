# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolution + bias + ReLU, channels-first: half precision in memory, float32 arithmetic.

python examples/conv_bias_relu.py              run on the CPU and verify
python examples/conv_bias_relu.py gfx942       compile for another target as well
"""

from _common import main
from hipdnn_iree import Graph


def build() -> Graph:
    """Return the graph: y = relu(conv(x, w) + bias)."""
    graph = Graph("conv_bias_relu", io_data_type="half", compute_data_type="float")
    x = graph.tensor(dims=(4, 32, 28, 28), name="x")  # N, C, H, W
    w = graph.tensor(dims=(64, 32, 3, 3), name="w")  # K, C, R, S
    bias = graph.tensor(dims=(1, 64, 1, 1), name="bias")
    y = graph.conv_fprop(x, w, padding=1, name="conv")
    y = graph.add(y, bias, name="bias")
    graph.relu(y, name="relu").set_output().set_name("y")
    return graph


if __name__ == "__main__":
    main(build)
