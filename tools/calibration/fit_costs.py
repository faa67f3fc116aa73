# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fit the estimates of convolutions' strategies to measured times, and say what they are worth.

    scripts/fit_costs tests/data/strategies/*.jsonl
    scripts/fit_costs --run RUN --suite SUITE.yaml >> ROWS.jsonl

The first prints the table of ``jit/ops/conv_rates.py``, ``group_cost.py``, ``wgrad_cost.py`` or
``dgrad_cost.py``, as the rows of that op have it, and the regret of the choice: with the table in
the source, with the fitted one, and with one that is fitted to seven eighths of the rows and judged
by the last eighth, in turn.  The second makes rows of what a sweep has measured:

    hipdnn-iree sweep SUITE.yaml --perf --strategies --engines iree,torch --seconds 0.1 -o RUN

Times are fitted in the logarithm; one that is taken for too short counts ``--caution`` times, as
it is what makes a rule choose wrongly.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import exp, isnan, log, nan
from pathlib import Path
from statistics import mean
from typing import Any, cast

import numpy as np
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.ops.conv_dgrad import ConvDgrad
from hipdnn_iree.graph_api.ops.conv_fprop import ConvFprop
from hipdnn_iree.graph_api.ops.conv_wgrad import ConvWgrad
from hipdnn_iree.graph_api.ops.sdpa import Sdpa
from hipdnn_iree.jit.cpu_machine import cpu_machine
from hipdnn_iree.jit.ops import (
    attention_cost,
    conv_cost,
    dgrad_cost,
    group_cost,
    matmul_cost,
    wgrad_cost,
)
from hipdnn_iree.jit.ops.conv_cost import rates_of
from hipdnn_iree.jit.ops.conv_rates import Rates, nanoseconds
from hipdnn_iree.jit.ops.convolution import is_last
from hipdnn_iree.jit.ops.multiply_types import multiply_type
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.sweep.row import read_run
from hipdnn_iree.provider.sweep.sources import read_all

Key = tuple[str, bool, bool]
GROUPS = "conv_fprop of groups"


def tables(target: Target) -> dict[str, Rates]:
    """Return the estimates of each op for a target, as they are in the source."""
    machine = cpu_machine(target)
    products = {
        (name, last, narrow): one
        for narrow in (False, True)
        for name, one in matmul_cost.product_nanoseconds(machine, narrow=narrow).items()
        for last in (False, True)
    }
    return {
        "conv_fprop": nanoseconds(machine),
        "matmul": products,
        GROUPS: _of_all(group_cost.group_nanoseconds(machine)),
        "conv_dgrad": _of_all(dgrad_cost.rates(machine)),
        "conv_wgrad": wgrad_cost.NANOSECONDS,
        "sdpa": {
            (name, False, narrow): one
            for narrow in (False, True)
            for name, one in attention_cost.attention_nanoseconds(machine, narrow=narrow).items()
        },
    }


def _of_all(rates: Mapping[str, Mapping[str, float]]) -> Rates:
    """Return the rates of strategies for both layouts and widths."""
    kinds = list(product((False, True), repeat=2))
    return {(name, last, narrow): one for name, one in rates.items() for last, narrow in kinds}


# What is fitted to both layouts, as rows are few or the layout does not matter; to all rows.
_BOTH = ("direct", "correlated", matmul_cost.GEMM)
_ALL = (dgrad_cost.FLIPPED, dgrad_cost.PATCHES, dgrad_cost.GEMM_COL2IM)
_THREADS = 2


def _is_of_all(op: str, name: str) -> bool:
    return op == GROUPS or (op == "matmul" and name != matmul_cost.GEMM)


# A quantity that is never so large a part of an estimate is left out.
_COUNTS = 0.12
_FOLDS, _ROUNDS = 8, 60
# The most that time over estimate of one row counts in the mean.
_OFF = 8.0


@dataclass(frozen=True, kw_only=True)
class Row:
    """A convolution, matmul or attention, what its strategies do, and their microseconds."""

    op: str
    last: bool
    narrow: bool
    found: Mapping[str, Mapping[str, float]]
    times: Mapping[str, float]
    torch: float

    @classmethod
    def of(cls, row: Mapping[str, Any], target: Target) -> Row:
        """Return one of a line of a file."""
        kind = DataType.parse(row["type"])
        multiplied = multiply_type(target, DataType.FLOAT, kind, kind)
        last = row.get("last", False)
        narrow = (kind if "q" in row else multiplied).bits < DataType.FLOAT.bits
        op, found = next(find for key, find in _FOUND.items() if key in row)(
            row, target, multiplied
        )
        names = {
            name: other if (other := _PREPARED.get(name, "")) in found else name
            for name in row["us"]
        }
        times = {names[name]: us for name, us in row["us"].items() if names[name] in found}
        return cls(
            op=op,
            last=last,
            narrow=narrow,
            found={name: n for name, n in found.items() if name in times},
            times=times,
            torch=row["us"].get("torch", nan),
        )

    def estimates(self, rates: Rates) -> dict[str, float]:
        """Return nanoseconds by the name of the strategy."""
        known = {
            name: rates_of(rates, name, last=self.last, narrow=self.narrow) for name in self.found
        }
        return {
            name: sum(n * one.get(what, 0.0) for what, n in self.found[name].items())
            for name, one in known.items()
            if one
        }


_Found = tuple[str, Mapping[str, Mapping[str, float]]]

# What is one strategy to the rule, and another thing to do.
_PREPARED = {dgrad_cost.FLIPPED: dgrad_cost.PATCHES}


def _forward(row: Mapping[str, Any], target: Target, multiplied: DataType) -> _Found:
    x, w, last = tuple(row["x"]), tuple(row["w"]), row["last"]
    one, narrow = x[1] == w[1], multiplied.bits < DataType.FLOAT.bits
    find = conv_cost.quantities if one else group_cost.group_quantities
    return "conv_fprop" if one else GROUPS, find(target, x, w, _op(row), last=last, narrow=narrow)


def _dgrad(row: Mapping[str, Any], target: Target, multiplied: DataType) -> _Found:
    op, (dy, w, dx) = _op(row), (tuple(row[port]) for port in ("dy", "w", "dx"))
    gradient = ConvDgrad(
        pre_padding=op.pre_padding,
        post_padding=op.post_padding,
        stride=op.stride,
        dilation=op.dilation,
        dx_dims=dx,
    )
    last = row["last"]
    found = dgrad_cost.dgrad_quantities(target, dy, w, gradient, multiplied, last=last)
    return "conv_dgrad", found


def _wgrad(row: Mapping[str, Any], target: Target, _: DataType) -> _Found:
    x, dy, w = (tuple(row[port]) for port in ("x", "dy", "w"))
    found = wgrad_cost.wgrad_quantities(target, x, dy, w, _op(row), last=row["last"])
    return "conv_wgrad", found


def _matmul(row: Mapping[str, Any], target: Target, multiplied: DataType) -> _Found:
    (m, k), n = row["a"], row["b"][1]
    along, narrow = (row["a_strides"][1] == 1, row["b_strides"][0] == 1), multiplied.bits < 32
    one = matmul_cost.Product(1, m, k, n, along, (False, False), row["followed"], narrow)
    return "matmul", matmul_cost.product_quantities(target, one)


def _attention(row: Mapping[str, Any], target: Target, _: DataType) -> _Found:
    q, k, v = (tuple(row[port]) for port in ("q", "k", "v"))
    one = attention_cost.Attention.of(q, k, v, DataType.parse(row["type"]))
    return "sdpa", attention_cost.attention_quantities(target, one)


def _op(row: Mapping[str, Any]) -> ConvFprop:
    padding, stride, dilation = (tuple(row[k]) for k in ("padding", "stride", "dilation"))
    return ConvFprop(pre_padding=padding, post_padding=padding, stride=stride, dilation=dilation)


# By what only such rows have; the first that does.
_FOUND: dict[str, Callable[[Mapping[str, Any], Target, DataType], _Found]] = {
    "a": _matmul,
    "q": _attention,
    "dx": _dgrad,
    "dy": _wgrad,
    "x": _forward,
}


def nonnegative(a: Any, b: Any) -> Any:
    """Return x >= 0 with the least ||a x - b||, by cyclic descent (Franc et al., 2005)."""
    scale = np.sqrt((a * a).sum(0))
    scale[scale == 0] = 1
    gram, x = (a / scale).T @ (a / scale), np.zeros(a.shape[1])
    slope = -((a / scale).T @ b)
    for _ in range(2000):
        before = x.copy()
        for i in range(len(x)):
            new = max(0.0, x[i] - slope[i] / max(gram[i, i], 1e-12))
            slope += (new - x[i]) * gram[:, i]
            x[i] = new
        if np.abs(x - before).max() < 1e-9:
            break
    return x / scale


def fitted(rows: Sequence[Row], known: Rates, caution: float) -> dict[Key, dict[str, float]]:
    """Return nanoseconds of each quantity; what no row has stays as it is.

    The rows are of one op, whose rates are known.  Those of `direct` that have "singly" are left
    out, as its vectors depend on more.
    """
    rates: dict[Key, dict[str, float]] = {}
    for key, old in known.items():
        name, last, narrow = key
        both, every = name in _BOTH, name in _ALL or _is_of_all(rows[0].op, name)
        widens = name in conv_cost.WIDENING and not narrow and (name, last, True) not in known
        mine = [
            row
            for row in rows
            if (every or widens or row.narrow == narrow)
            and (both or every or row.last == last)
            and name in row.found
            and not (name == "direct" and "singly" in row.found[name])
        ]
        if len(mine) > len(old):
            counted = {what for row in mine for what, n in row.found[name].items() if n}
            kept = {what: ns for what, ns in old.items() if what not in counted}
            rates[key] = _one(mine, name, caution) | kept
        else:
            rates[key] = dict(old)
    return rates


def _one(rows: Sequence[Row], name: str, caution: float) -> dict[str, float]:
    names = sorted({what for row in rows for what in row.found[name]})
    counts = np.array([[row.found[name].get(what, 0) for what in names] for row in rows], float)
    a = counts / (np.array([row.times[name] for row in rows]) * 1e3 * _THREADS)[:, None]
    weight = np.ones(len(rows))
    x = np.zeros(len(names))
    for _ in range(_ROUNDS):
        x = nonnegative(a * weight[:, None], weight)
        share = np.maximum(a @ x, 1e-3)
        off = np.log(share)
        # |log share| instead of (share - 1)^2, and more of it where the estimate is too short.
        weight = np.sqrt(
            np.minimum(np.abs(off) / np.maximum((share - 1) ** 2, 1e-4), 50)
            * np.where(off < 0, caution, 1)
        )
    parts = counts * x
    largest = (parts / np.maximum(parts.sum(1, keepdims=True), 1)).max(0)
    told = zip(names, x, largest, strict=True)
    kept = {what: ns for what, ns, part in told if part > _COUNTS}
    # The choice is to be good in the mean: what is known less well is taken for longer.
    estimates = sum(counts[:, i] * kept.get(what, 0.0) for i, what in enumerate(names))
    off = np.array([row.times[name] for row in rows]) * 1e3 * _THREADS / np.maximum(estimates, 1)
    scale = float(np.minimum(off, _OFF).mean())
    return {what: float(f"{scale * ns:.2g}") for what, ns in kept.items()}


def judged(rows: Iterable[Row], rates: Rates) -> list[tuple[float, float]]:
    """Return of each row the time of the choice to that of the best, and to PyTorch's."""
    found = []
    for row in rows:
        estimates = row.estimates(rates)
        chosen = row.times[min(estimates, key=estimates.__getitem__)]
        found.append((chosen / min(row.times.values()), chosen / row.torch))
    return found


def told(found: Sequence[tuple[float, float]]) -> str:
    """Return a line of what choices are worth."""
    regret, ratio = zip(*found, strict=True)
    known = [one for one in ratio if not isnan(one)] or [nan]
    near = [sum(r <= most for r in regret) / len(regret) for most in (1.1, 2)]
    return (
        f"regret {exp(mean(map(log, regret))):.3f}, at most {max(regret):.2f}; within 1.1: "
        f"{near[0]:.0%}, within 2: {near[1]:.0%}; of PyTorch's time "
        f"{exp(mean(map(log, known))):.3f}, at most {max(known):.1f}"
    )


def rows_of(run: Path, suite: str, seed: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield a row of each case whose strategies a sweep has timed, with its ``--seed``."""
    cases = {case.name: case for case in read_all([suite], seed=seed).by_type("cpu")}
    found: dict[str, dict[str, float]] = {}
    for one in read_run(run).rows:
        if one.times is not None:
            names = [text for key, text in one.knobs.items() if key.endswith(".strategy")]
            for name in names or [one.engine]:
                found.setdefault(one.case, {})[name] = round(one.times.median_us, 1)
    for case, times in found.items():
        graph = cases[case].build(cases[case].dtypes[0]).freeze()
        node, kind = graph.nodes[0], cases[case].dtypes[0].json
        op, given = node.op, {port: graph.spec(uid) for port, uid in node.inputs.items()}
        if "torch" not in times:
            continue
        dims = {port: spec.dims for port, spec in given.items()}
        if isinstance(op, Sdpa) and len(graph.nodes) == 1 and "page_table_k" not in dims:
            yield {**{port: dims[port] for port in ("q", "k", "v")}, "type": kind, "us": times}
        if not isinstance(op, ConvFprop | ConvDgrad | ConvWgrad):
            continue
        if isinstance(op, ConvDgrad):
            dims["dx"] = op.dx_dims
        if isinstance(op, ConvWgrad):
            dims["w"] = op.dw_dims
        if op.pre_padding == op.post_padding:
            yield {
                **dims,
                "padding": op.pre_padding,
                "stride": op.stride,
                "dilation": op.dilation,
                "last": is_last(given["dy" if isinstance(op, ConvDgrad) else "x"]),
                "type": kind,
                "us": times,
            }


def _report(op: str, rows: Sequence[Row], known: Rates, caution: float) -> None:
    """Print the table of an op, and what choices by it are worth."""
    rates = fitted(rows, known, caution)
    print(op)
    for key, one in rates.items():
        print(f"{key}: {one}")
    others: list[tuple[float, float]] = []
    for i in range(_FOLDS):
        rest = [row for j, row in enumerate(rows) if j % _FOLDS != i]
        others += judged(rows[i::_FOLDS], fitted(rest, known, caution))
    print(f"as it is      {told(judged(rows, known))}")
    print(f"fitted        {told(judged(rows, rates))}")
    print(f"on other rows {told(others)}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", type=Path, help="files of rows")
    parser.add_argument("--run", type=Path, help="what sweep --strategies -o has written")
    parser.add_argument("--suite", help="the suite of --run")
    parser.add_argument("--seed", type=int, help="the sweep's seed, if it was given one")
    parser.add_argument("--target", default="cpu:znver5", help="what the rows were measured on")
    parser.add_argument("--caution", type=float, default=2.0)
    args = parser.parse_args(argv)
    if args.run:
        if not args.suite:
            parser.error("--run needs --suite, which has the dims")
        for row in rows_of(args.run, args.suite, args.seed):
            print(json.dumps(row))
        return 0
    if not args.rows:
        parser.error("no files of rows")
    target = Target.parse(args.target)
    lines = [line for path in args.rows for line in path.read_text().splitlines()]
    every = [Row.of(cast(dict[str, Any], json.loads(line)), target) for line in lines]
    for op, known in tables(target).items():
        if rows := [row for row in every if row.op == op]:
            _report(op, rows, known, args.caution)
    return 0
