# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An 8-bit matrix product, exact in 32 bits, scaled and stored in 8 bits again.

python examples/int8_matmul.py [TARGET...]
"""

from _common import main
from hipdnn_iree import Graph


def build(m: int = 128, k: int = 256, n: int = 64) -> Graph:
    """Return the graph: acc = a · b in int32; c = int8(acc · scale), truncated and saturated."""
    graph = Graph("int8_matmul", io_data_type="int8", compute_data_type="int32")
    a = graph.tensor(dims=(m, k), name="a")
    b = graph.tensor(dims=(k, n), name="b")
    acc = graph.matmul(a, b, name="matmul").set_output().set_data_type("int32").set_name("acc")
    scaled = graph.mul(acc, 1 / 512, compute_data_type="float", name="scale")
    scaled.set_output().set_data_type("int8").set_name("c")
    return graph


if __name__ == "__main__":
    main(build)
