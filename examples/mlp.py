# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A two-layer perceptron: matmul + bias + GELU, matmul + bias.

python examples/mlp.py [TARGET...]
"""

from _common import main
from hipdnn_iree import Graph


def build(tokens: int = 128, width: int = 256, hidden: int = 1024) -> Graph:
    """Return the graph: y = gelu(x · w1 + b1) · w2 + b2."""
    graph = Graph("mlp", io_data_type="half", compute_data_type="float")
    x = graph.tensor(dims=(tokens, width), name="x")
    w1 = graph.tensor(dims=(width, hidden), name="w1")
    b1 = graph.tensor(dims=(1, hidden), name="b1")
    # Stored as (width, hidden), read as its transpose: only the strides differ.
    w2 = graph.tensor(dims=(hidden, width), strides=(1, hidden), name="w2")
    b2 = graph.tensor(dims=(1, width), name="b2")
    h = graph.gelu_approx_tanh(graph.add(graph.matmul(x, w1, name="up"), b1), name="gelu")
    # Stored in half precision, so that the second product also runs on half-precision operands.
    h.set_data_type("half")
    y = graph.add(graph.matmul(h, w2, name="down"), b2)
    y.set_output().set_name("y")
    return graph


if __name__ == "__main__":
    main(build)
