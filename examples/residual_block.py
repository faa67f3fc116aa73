# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A residual block of a channels-last network: two convolutions and the sum with the input.

python examples/residual_block.py [TARGET...]
"""

from _common import main
from hipdnn_iree import Graph, Tensor
from hipdnn_iree.graph_api.layout import channels_last_strides


def build(n: int = 2, c: int = 64, size: int = 28) -> Graph:
    """Return the graph: y = relu(x + conv(relu(conv(x, w1) + b1), w2) + b2)."""
    graph = Graph("residual_block", io_data_type="half", compute_data_type="float")
    dims, taps = (n, c, size, size), (c, c, 3, 3)
    x = graph.tensor(dims=dims, strides=channels_last_strides(dims), name="x")

    def layer(value: Tensor, i: int) -> Tensor:
        w = graph.tensor(dims=taps, strides=channels_last_strides(taps), name=f"w{i}")
        b = graph.tensor(dims=(1, c, 1, 1), name=f"b{i}")
        return graph.add(graph.conv_fprop(value, w, padding=1, name=f"conv{i}"), b)

    # The value between the convolutions is stored in half precision, as a real network does.
    h = graph.relu(layer(x, 1)).set_data_type("half")
    graph.relu(graph.add(layer(h, 2), x, name="skip")).set_output().set_name("y")
    return graph


if __name__ == "__main__":
    main(build)
