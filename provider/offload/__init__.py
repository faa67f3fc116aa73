# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules in the torch dialect, or of ONNX ops, through hipDNN graphs.

The pipeline outlines what engines serve as hipDNN graphs, builds their plans, and leaves a
function of buffers that executes them by name (docs/offload.md shows the IR)::

    from hipdnn_iree.provider.offload import offload, outline

    found = outline(text, "cpu")              # steps a to d: nothing is compiled
    for region in found.regions:              # region.graph is a FrozenGraph
        region.operands, region.results       # "arg0", "hipdnn_graph_0#0", "rest_3#0"
        region.inputs, region.outputs         # the graph's uids for them
        region.nodes                          # ONNX or FX nodes in it
    for remark in found.declined:             # what stays, and why
        remark.op, remark.location, remark.rule, remark.reason

    module = offload(text, "cpu")             # all steps; plans in module.graphs
    (y,) = module.executor().run(x, w, b)

    every = sized(module(text))            # "?" among the dims of arguments
    (y,) = every.run(x, w, b)                 # one code for all sizes where engines have it

==========================================  ====  =============================================
pass                                        step  module
==========================================  ====  =============================================
``convert-torch-onnx-to-torch``, ``cse``    a, b  torch-mlir's own
``hipdnn-offload``                          c     `partition`, `region`, ``passes/outline``
``canonicalize``, ``cse``                   d     ``passes/outline`` closes regions again
``hipdnn-graph-to-executable``              e     `pipeline`, ``passes/executables``
``hipdnn-backend-legalize``                 f     `pipeline`, ``passes/legalize``
``eliminate-empty-tensors``                 g     ``passes/bufferize``
``one-shot-bufferize``                      h     ``passes/bufferize``
``hipdnn-finalize-memrefs``                 i     ``passes/finalize``
==========================================  ====  =============================================

``aten`` is the table of ops: what is claimed, and what it becomes.  MLIR is only touched in a
worker process (``passes``).  A finished module is a `finished.Program`; `sizes` makes one for
sizes that are only known at execution.
"""

from __future__ import annotations

from .api import Outlined, OutlinedFunction, Region, Rest, module, offload, outline
from .executor import Executor
from .finished import Executable
from .pipeline import PASSES, PIPELINE, Module
from .program import Remark
from .sized import SizedExecutor, fix_sizes, sized

__all__ = [
    "PASSES",
    "PIPELINE",
    "Executable",
    "Executor",
    "Module",
    "Outlined",
    "OutlinedFunction",
    "Region",
    "Remark",
    "Rest",
    "SizedExecutor",
    "fix_sizes",
    "module",
    "offload",
    "outline",
    "sized",
]
