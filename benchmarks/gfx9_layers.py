# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What IREE makes of every layer of suites/networks for gfx9: counts, registers, an estimate.

    python benchmarks/gfx9_layers.py                              gfx90a, gfx942, gfx950: many hours
    python benchmarks/gfx9_layers.py --target gfx942 --dtype half -k resnet50
    python benchmarks/gfx9_layers.py --list                       what there is to do, in its order

Everything is compiled and nothing is run; times are estimates of a model
(`jit/inspect/estimate.py`).  A row of benchmarks/results/gfx9_layers.jsonl is appended as soon as
it is known, and what the file has of the same IR, flags and versions is not done again.  The
smallest batches come first.  scripts/gen_docs makes docs/reference/gfx9_layers.md of the file.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # this checkout

from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.errors import CompileError
from hipdnn_iree.jit import support
from hipdnn_iree.jit.inspect import Dispatch, Inspection, inspect_graph
from hipdnn_iree.jit.options import BuildOptions, CompileOptions
from hipdnn_iree.jit.pipeline import ir_digest
from hipdnn_iree.jit.settings import scope, settings
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.sweep.sources import read_all
from hipdnn_iree.provider.sweep.suite import Case

Row = dict[str, Any]
Key = tuple[str, str, str]  # case, type, target
RESULTS = Path(__file__).resolve().parent / "results" / "gfx9_layers.jsonl"
TARGETS = ("gfx942", "gfx90a", "gfx950")
_BATCH = re.compile(r"_n(?P<n>\d+)")


class Layer(NamedTuple):
    """A layer of a network in one type, for a target."""

    case: Case
    dtype: DataType
    target: Target

    @property
    def key(self) -> Key:
        """What tells its rows from those of others."""
        return self.case.name, self.dtype.json, str(self.target)

    def declines(self) -> list[str]:
        """Return the rules that decline it."""
        graph = self.case.freeze(self.dtype)
        return sorted({p.rule for p in support.problems(graph, self.target)})

    def ir(self) -> str:
        """Return what decides the code; empty for a layer that is declined or not lowered."""
        with suppress(CompileError):
            if not self.declines():
                graph, options = self.case.freeze(self.dtype), CompileOptions.of(settings())
                return ir_digest(graph, self.target, options)
        return ""


def figures(found: Inspection) -> Row:
    """Return what a row says of compiled code."""
    once = [d for d in found.dispatches if not d.at_load]
    kernels = [d.kernel for d in once if d.kernel]
    longest = max(once, key=lambda d: d.estimate.seconds if d.estimate else 0.0)
    return {
        **found.statistics,
        "vgprs": max(k.vgprs for k in kernels),
        "spills": sum(k.vgpr_spills + k.sgpr_spills for k in kernels),
        "scratch_bytes": max(k.scratch_bytes for k in kernels),
        "lds_bytes": max(k.lds_bytes for k in kernels),
        "estimate_us": _us(found.estimate_s),
        "roofline_us": _us(found.seconds),
        "least_us": _us(found.least.seconds if found.least else None),
        "rules": sorted({n.rule for n in found.notices}),
        "longest": _longest(longest),
    }


def _longest(dispatch: Dispatch) -> Row:
    """Return figures of the kernel that the estimate says takes longest."""
    about: Row = {"name": re.sub(r"^main\$async_dispatch_\d+_", "", dispatch.name)}
    if (k := dispatch.kernel) is not None:
        about |= {"threads": k.threads, "workgroups": k.workgroups, "mfma": k.mfma_count}
    if dispatch.occupancy is not None:
        about |= {"waves_per_simd": dispatch.occupancy.waves_per_simd}
        about |= {"limited_by": list(dispatch.occupancy.limited_by)}
    if (h := dispatch.hot_loop) is not None:
        about |= {"mfma_share": round(h.mfma_share, 3), "loads": h.loads, "trips": h.trips}
    if (e := dispatch.estimate) is not None:
        about |= {"estimate_us": _us(e.seconds), "bound": e.bound}
        about |= {"arithmetic": round(e.arithmetic, 2), "unknown_loops": e.unknown_loops}
    return about


def _us(seconds: float | None) -> float | None:
    return None if seconds is None else float(f"{seconds * 1e6:.3g}")


def measure(layer: Layer) -> Row:
    """Return the row of a layer in one type; an error is a row with the key ``error``."""
    name, dtype, target = layer.key
    row: Row = {"case": name, "dtype": dtype, "target": target, "ir": layer.ir()}
    begin = time.perf_counter()
    if rules := layer.declines():
        row["error"] = f"declined: {', '.join(rules)}"
        return row
    try:
        with tempfile.TemporaryDirectory(prefix="hipdnn-iree-") as made:
            options = BuildOptions.of(settings())
            row |= figures(
                inspect_graph(layer.case.freeze(layer.dtype), layer.target, Path(made), options)
            )
    except CompileError as error:
        row["error"] = f"does not compile: {error}".partition("\n")[0][:200]
    return {**row, "seconds": round(time.perf_counter() - begin, 1)}


def layers(target: Target, dtypes: tuple[DataType, ...]) -> Iterator[Layer]:
    """Yield each layer in each type, the smallest batch of all first, networks in turns."""
    by_network: dict[str, dict[str, list[Case]]] = {}
    for case in read_all(["networks"]).cases:
        if case.serves(str(target)) and not case.broken:
            layer, network = _BATCH.sub("", case.name), case.name.partition(".")[0]
            by_network.setdefault(network, {}).setdefault(layer, []).append(case)
    for number in range(max(len(g) for layers in by_network.values() for g in layers.values())):
        columns = (
            [sorted(g, key=_batch)[number] for g in layers.values() if number < len(g)]
            for layers in by_network.values()
        )
        for cases in zip_longest(*columns):
            for case in filter(None, cases):
                for dtype in filter(dtypes.__contains__, case.dtypes):
                    yield Layer(case, dtype, target)


def _batch(case: Case) -> int:
    match = _BATCH.search(case.name)
    return int(match["n"]) if match else 0


def known(path: Path) -> dict[Key, Row]:
    """Return the last row of each case, type and target; a line that was cut off is none."""
    rows: dict[Key, Row] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
            row = json.loads(line)
            rows[row["case"], row["dtype"], row["target"]] = row
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", default=",".join(TARGETS), help="separated by commas")
    parser.add_argument("--dtype", default="half,bfloat16", help="as in graph files")
    parser.add_argument("-k", metavar="RE", default="", help="only cases with it in their name")
    parser.add_argument("--list", action="store_true", help="print what there is, and end")
    parser.add_argument("--limit-s", type=float, default=300, help="of one compilation")
    parser.add_argument("--memory", type=int, default=4 << 30, help="bytes of one compilation")
    parser.add_argument("--output", type=Path, default=RESULTS, help="JSON lines to append to")
    args = parser.parse_args()
    dtypes = tuple(map(DataType.parse, args.dtype.split(",")))
    todo = [
        layer
        for target in map(Target.parse, args.target.split(","))
        for layer in layers(target, dtypes)
        if re.search(args.k, layer.case.name)
    ]
    if args.list:
        print(*(" ".join(layer.key) for layer in todo), sep="\n")
        return 0
    limits = {"compiler_timeout_s": args.limit_s, "compiler_max_memory": args.memory}
    with args.output.open("a", encoding="utf-8") as file, scope(**limits):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # another one would do the same work
        before = known(args.output)
        for layer in todo:
            old = before.get(layer.key)
            if old is None or old["ir"] != layer.ir():
                row = measure(layer)
                print(json.dumps(row), file=file, flush=True)
                print(*layer.key, row.get("error", row.get("estimate_us")), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
