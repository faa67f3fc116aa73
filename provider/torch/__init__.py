# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""PyTorch modules through hipDNN graphs: a backend of ``torch.compile``.

::

    model = torch.compile(model, backend="hipdnn_iree")          # no import of ours is needed
    model = hipdnn_iree.provider.torch.compile(model, (example,))  # compiled before it returns

    for report in hipdnn_iree.provider.torch.reports():
        print(report)                                            # ops by engine, and what stays

A traced graph takes the way of any module (`provider.offload`): what engines serve becomes hipDNN
graphs, each with a plan of the engine that is chosen for it.  The rest stays where it was, in
PyTorch.  Weights stay tensors: they are arguments of plans.

==================  ================================================================
``dynamo``          the backend: from Dynamo's graph, forward and backward, to a call
``decompositions``  how ops that have no form here are written by others
``fold``            what depends on constants alone, computed once
``split``           which nodes of a graph are served, as parts that are one call each
``part``            a part: its executor, on the memory of torch's tensors
``fx_module``       an FX graph as a module in the torch dialect
``report``          what became of a graph
==================  ================================================================
"""

from __future__ import annotations

from .dynamo import backend, compile
from .report import Report, reports

__all__ = ["Report", "backend", "compile", "reports"]
