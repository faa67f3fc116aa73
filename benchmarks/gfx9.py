# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What IREE makes of ResNet's and BERT's layers for gfx9: ours beside the plain form of Fusilli.

    python benchmarks/gfx9.py                          gfx908, gfx90a, gfx942, gfx950: 15 minutes
    python benchmarks/gfx9.py --target gfx942 -k conv  some of it
    python benchmarks/gfx9.py --output FILE.json       benchmarks/results/gfx9.json is shown in
                                                       docs/reference/gfx9.md (scripts/gen_docs)

Everything is compiled and nothing is run: dispatches, fills, transient bytes, matrix instructions,
registers and spills are what can be seen without a GPU.  What must hold on gfx942 is checked; the
exit status is 1 when something is missed that `gfx9_workloads` does not give a reason for.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # this checkout
sys.path.insert(0, str(Path(__file__).resolve().parent))

from gfx9_plain import plain_flags, plain_module
from gfx9_workloads import WORKLOADS, Workload
from hipdnn_iree.graph_api.errors import HipdnnIreeError
from hipdnn_iree.jit.cache import versions
from hipdnn_iree.jit.compiler.client import default_compiler
from hipdnn_iree.jit.compiler.request import CompileRequest
from hipdnn_iree.jit.inspect import inspect_graph
from hipdnn_iree.jit.inspect.isa import Kernel, read_kernels
from hipdnn_iree.jit.options import BuildOptions, WorkerOptions
from hipdnn_iree.jit.settings import scope, settings
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.sweep.json_text import json_lines

Row = dict[str, Any]
TARGETS = ("gfx908", "gfx90a", "gfx942", "gfx950")
STRICT = "gfx942"


def kernel_figures(kernels: list[Kernel]) -> Row:
    """Return what the worst kernel takes, and the matrix instructions of all."""
    return {
        "mfma": sum(k.mfma_count for k in kernels),
        "mfma_kinds": sorted({name for k in kernels for name in k.mfma}),
        "spills": sum(k.vgpr_spills + k.sgpr_spills for k in kernels),
        "scratch_bytes": max((k.scratch_bytes for k in kernels), default=0),
        "vgprs": max((k.vgprs for k in kernels), default=0),
        "lds_bytes": max((k.lds_bytes for k in kernels), default=0),
        "workgroup": max((k.threads for k in kernels), default=0),
    }


def ours(workload: Workload, target: str, folder: Path) -> Row:
    """Compile as this project does."""
    frozen, options = workload.build().freeze(), BuildOptions.of(settings())
    found = inspect_graph(frozen, Target.parse(target), folder, options)
    return {
        **found.statistics,
        **kernel_figures(read_kernels(folder)),
        "moved_bytes": found.moved_bytes,
        "without_mfma": [n.nodes[0] for n in found.notices if n.rule == "INSPECT-01"],
    }


def plain(workload: Workload, target: str, folder: Path) -> Row:
    """Compile as Fusilli does."""
    request = CompileRequest(
        source=plain_module(workload.build(half=True).freeze()).encode(),
        flags=plain_flags(target),
        dump_dir=folder,
        want_statistics=True,
        label="the plain form",
    )
    result = default_compiler(WorkerOptions.of(settings())).compile(request)
    counts = (result.statistics or {})["stream-aggregate"]["execution"]
    return {
        "dispatches": counts["dispatch-count"],
        "fills": counts["fill-count"],
        "copies": counts["copy-count"],
        "transient_bytes": result.workspace_bytes,
        **kernel_figures(read_kernels(folder)),
    }


def measure(name: str, target: str) -> Row:
    """Return both forms of a workload; an error is a row with the key ``error``."""
    workload = WORKLOADS[name]
    row: Row = {}
    for form, compile_it in (("ours", ours), ("plain", plain)):
        if form == "plain" and not workload.plain:
            continue
        with tempfile.TemporaryDirectory(prefix="hipdnn-iree-") as made:
            begin = time.perf_counter()
            try:
                row[form] = compile_it(workload, target, Path(made))
            except HipdnnIreeError as error:
                row[form] = {"error": str(error).partition("\n")[0][:200]}
            row[form]["seconds"] = round(time.perf_counter() - begin, 2)
    return row


def misses(name: str, row: Mapping[str, Row]) -> Iterator[str]:
    """Yield what does not hold for a workload on gfx942."""
    workload, mine, other = WORKLOADS[name], row["ours"], row.get("plain", {})
    if "error" in mine:
        yield f"does not compile: {mine['error']}"
        return
    least = workload.dispatches
    if least is not None and mine["dispatches"] > least:
        yield f"{mine['dispatches']} dispatches instead of {least}"
    if least is not None and mine["fills"]:
        yield f"{mine['fills']} fills"
    if mine["spills"]:
        yield f"{mine['spills']} spilled registers"
    if mine["without_mfma"]:
        yield f"no matrix instructions in {', '.join(mine['without_mfma'])}"
    if other and "error" not in other:
        for what in ("dispatches", "fills", "transient_bytes"):
            if mine[what] > other[what]:
                yield f"{mine[what]} {what.replace('_', ' ')}, the plain form {other[what]}"


def table(rows: Mapping[str, Mapping[str, Row]], target: str) -> Iterator[str]:
    """Yield lines for people: ours, and the plain form's figures behind a bar where they differ."""
    keys = ("dispatches", "fills", "transient_bytes", "mfma", "vgprs", "lds_bytes", "workgroup")
    yield f"{target + ', compiled, not run':33}" + "".join(f"{k.split('_')[0]:>17}" for k in keys)
    for name, by_target in rows.items():
        if target not in by_target:
            continue
        mine, other = by_target[target]["ours"], by_target[target].get("plain", {})
        if "error" in mine:
            yield f"{name:33}{mine['error']}"
            continue
        cells = []
        for key in keys:
            same = key not in other or other[key] == mine[key]
            cells.append(f"{mine[key]}" if same else f"{mine[key]}|{other[key]}")
        yield f"{name:33}" + "".join(f"{cell:>17}" for cell in cells)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default=",".join(TARGETS), help="separated by commas")
    parser.add_argument("-k", metavar="PART", default="", help="only workloads with it in the name")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--output", type=Path, help="file to write the JSON to, also in between")
    return parser.parse_args()


def main() -> int:
    """Measure, print, and check what must hold."""
    options = arguments()
    about = {"what": "compiled, not run", **versions()}
    result: dict[str, Any] = {"about": about, "cases": {}, "missed": {}}
    cases: dict[str, dict[str, Row]] = result["cases"]
    names = [name for name in WORKLOADS if options.k in name]
    targets = options.target.split(",")
    unexplained = 0
    with scope(cache_mode="off"):
        for target in targets:
            for name in names:
                row = cases.setdefault(name, {})[target] = measure(name, target)
                print(f"{target} {name}", file=sys.stderr)
                if target != STRICT:
                    continue
                if found := list(misses(name, row)):
                    reason = WORKLOADS[name].reason
                    unexplained += not reason
                    result["missed"][name] = {"what": found, "reason": reason}
            if options.output is not None:
                options.output.parent.mkdir(parents=True, exist_ok=True)
                options.output.write_text(json_lines(result, 3) + "\n")
    if options.json:
        print(json.dumps(result))
        return int(unexplained > 0)
    for target in targets:
        print("\n".join(table(cases, target)), end="\n\n")
    for name, miss in result["missed"].items():
        print(f"{name}: {'; '.join(miss['what'])} ({miss['reason'] or 'NO REASON KNOWN'})")
    return int(unexplained > 0)


if __name__ == "__main__":
    sys.exit(main())
