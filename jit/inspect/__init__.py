# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the compiler made of a graph: kernels, tiles, registers, traffic, and what to expect.

Nothing is run.  ``inspect_graph`` (module ``report``) combines five sources:

- `flow`: which graph nodes each dispatch serves and what it reads and writes (compiler IR),
- `config`: pipeline, tiles and workgroup that the compiler chose (compiler IR),
- `jit.inspect.isa`: registers, LDS, spills, instructions (assembly),
- `machine` and `roofline`: limits of the architecture and figures of the product (datasheets),
- `assembly`, `units` and `estimate`: loops of a kernel, what its instructions cost, and an estimate
  of its time from them.
"""

from __future__ import annotations

from .notices import Notice
from .report import Dispatch, Inspection, inspect_graph

__all__ = ["Dispatch", "Inspection", "Notice", "inspect_graph"]
