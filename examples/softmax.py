# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Softmax of rows as max, sub, exp, sum and div: one kernel, float32 inside, half outside.

python examples/softmax.py [TARGET...]
"""

from _common import main
from hipdnn_iree import Graph


def build(rows: int = 64, columns: int = 1024) -> Graph:
    """Return the graph: y = exp(x - max(x)) / sum(exp(x - max(x))), along each row."""
    graph = Graph("softmax", io_data_type="half", compute_data_type="float")
    x = graph.tensor(dims=(rows, columns), name="x")
    largest = graph.reduction(x, mode="max", axes=1, name="max")
    e = graph.exp(graph.sub(x, largest, name="shift"), name="exp")
    total = graph.reduction(e, mode="add", axes=1, name="sum")
    graph.div(e, total, name="divide").set_output().set_name("y")
    return graph


if __name__ == "__main__":
    main(build)
