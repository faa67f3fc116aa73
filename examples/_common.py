# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What every example does with its graph: show it, run it on the CPU, verify it, compile it."""

import sys
from collections.abc import Callable
from pathlib import Path

from hipdnn_iree import Graph


def main(build: Callable[..., Graph]) -> None:
    """Run an example; arguments are targets to compile for, or ``--json`` to rewrite the JSON."""
    graph = build()
    print(graph.freeze())  # checked, with all that was inferred
    if "--json" in sys.argv:
        path = Path(sys.argv[0]).with_suffix(".json")
        graph.save(path)
        print(f"wrote {path}")
        return

    plan = graph.build("cpu")  # once: compiled, or taken from the cache
    report = plan.verify()  # random inputs; each element against the float64 reference
    print(f"ran on {plan.target} by {plan.engine} (cache {plan.cache}): {report}")

    for target in sys.argv[1:]:
        code = build().build(target)
        print(f"compiled for {target} (cache {code.cache}): {code.statistics}")
    sys.exit(0 if report.ok else 1)
