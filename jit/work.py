# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How much work a graph is: arithmetic and memory traffic, counted from shapes alone.

What the counts are for: the choice of the runtime driver, rankings of engines, rooflines.  They
say what the *definition* of an op asks for, not what some code does: padding, repacking and work
done twice do not count, and masked attention scores do, as IREE computes all of them.

- ``matrix_flops``: multiplications and additions of matmuls and convolutions, two per pair.
  Matrix units can do them.
- ``other_flops``: all other arithmetic, in operations of about the cost of an addition.  A
  function such as exp counts for what its polynomial takes (`ops.counts`).
- ``nbytes``: each tensor once; a broadcast dim once; compile-time scalars not at all.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from ..graph_api.frozen import FrozenGraph, FrozenNode
from ..graph_api.tensor import TensorSpec
from .ops import info

__all__ = ["Work", "cpu_us", "graph_work", "node_work", "pays_threads", "tensor_bytes"]


class Work(NamedTuple):
    """Counts for a node or a graph.

    Attributes
    ----------
    matrix_flops : int
        Arithmetic of matmuls and convolutions.
    other_flops : int
        All other arithmetic.
    nbytes : int
        Bytes that must be read and written at least.  A node's are those of all its tensors; a
        graph's those of its inputs and outputs only, as if everything between was fused.
    """

    matrix_flops: int = 0
    other_flops: int = 0
    nbytes: int = 0

    @property
    def flops(self) -> int:
        """All arithmetic."""
        return self.matrix_flops + self.other_flops

    @property
    def intensity(self) -> float:
        """Operations per byte: what a roofline is read at; 0 where no byte moves."""
        return self.flops / self.nbytes if self.nbytes else 0.0


def tensor_bytes(spec: TensorSpec) -> int:
    """Return the bytes that a tensor's elements take, those of a broadcast dim once."""
    if spec.value is not None:
        return 0
    stored = (d for d, s in zip(spec.dims, spec.strides, strict=True) if s or spec.virtual)
    return spec.data_type.nbytes(prod(stored))


def node_work(graph: FrozenGraph, node: FrozenNode) -> Work:
    """Return the work of one node that stands alone.

    Parameters
    ----------
    graph : FrozenGraph
        Graph that the node is of.  Dynamic dims count with their examples.
    """
    ports = {**node.inputs, **node.outputs}
    dims = {port: graph.tensors[uid].dims for port, uid in ports.items()}
    known = info(node.op.NAME)
    matrix, other = known.work(node.op, dims)
    written = sum(tensor_bytes(graph.tensors[u]) for u in set(node.outputs.values()))
    read = sum(tensor_bytes(graph.tensors[u]) for u in set(node.inputs.values()))
    return Work(matrix, other, written + (min(read, written) if known.reads_part else read))


def graph_work(graph: FrozenGraph) -> Work:
    """Return the work of a whole graph; its bytes are those of inputs and outputs only."""
    nodes = [node_work(graph, node) for node in graph.nodes]
    return Work(
        sum(w.matrix_flops for w in nodes),
        sum(w.other_flops for w in nodes),
        sum(tensor_bytes(graph.tensors[u]) for u in (*graph.inputs, *graph.outputs)),
    )


# Operations and bytes a microsecond on one core, by what they are done for; see `cpu_us`.
# (`OpInfo.matrix_rate` has those of matmuls and convolutions.)
_OTHER_RATE, _BYTE_RATE = 110e3, 100e3
_NODE_US = 0.5  # of each node, for starting its loops
_CALL_US = 1.5


def cpu_us(graph: FrozenGraph) -> float:
    """Return about how many microseconds a run of the IREE engine takes on one core.

    Notes
    -----
    Rates are those of one core of a Zen 4 EPYC with AVX-512 and of this project's code for it
    (float32): of 38 graphs of 2 to 1,000 microseconds (matmuls, convolutions,
    chains, functions, norms, attention, sums) the estimate was 0.42 to 1.67 times the time
    measured, 1.04 times in the median.  Data types, layouts and caches do not enter.
    """
    total = _CALL_US + graph_work(graph).nbytes / _BYTE_RATE
    for node in graph.nodes:
        work = node_work(graph, node)
        rate = info(node.op.NAME).matrix_rate
        total += _NODE_US + work.matrix_flops / rate + work.other_flops / _OTHER_RATE
    return total


# Where an estimate on one core is shorter, worker threads cost more than they save: waking them
# takes 6 to 30 microseconds.  Measured on two cores of a busy machine, 38 graphs: the fastest of
# 25 rounds was shorter with threads from 45 microseconds on, always from 70 on (to 1.8 times).
_THREADS_US = 60.0


def pays_threads(graph: FrozenGraph) -> bool:
    """Return whether a run on a CPU is long enough for several threads."""
    return cpu_us(graph) >= _THREADS_US
