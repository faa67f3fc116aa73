# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs of sweeps made by hand: rows as a sweep writes them, with times of a chosen noise."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hipdnn_iree.provider.sweep.row import (
    CheckFacts,
    CodeFacts,
    CompileFacts,
    Header,
    Row,
    Run,
    Status,
    TimeFacts,
    WorkFacts,
    encode,
    row_key,
)

MACHINE = {"cpu": "one", "processors": 2, "load": 0.5}


def header(**machine: Any) -> Header:
    """Return a header; keywords replace facts of the machine."""
    return Header(
        created="2026-11-23T03:00:00Z",
        argv=["hipdnn-iree", "sweep", "suite.yaml"],
        machine={**MACHINE, **machine},
        versions={"hipdnn-iree": "0.1.0"},
        options={"check": True},
    )


def times(rounds_us: Sequence[float], visits: Sequence[int] = ()) -> TimeFacts:
    """Return the times of rounds, of which so many were made at each visit."""
    middle = sorted(rounds_us)[len(rounds_us) // 2]
    return TimeFacts(
        median_us=middle,
        best_us=min(rounds_us),
        spread=0.02,
        rounds_us=list(rounds_us),
        calls=3 * len(rounds_us),
        visits=list(visits),
    )


def row(
    case: str,
    *,
    status: Status = "ok",
    engine: str = "iree",
    op: str = "matmul",
    dtype: str = "float",
    target: str = "cpu",
    rounds_us: Sequence[float] = (),
    visits: Sequence[int] = (),
    of_bound: float | None = 0.1,
    **more: Any,
) -> Row:
    """Return a row; with rounds one that was timed, and checked if it is right or wrong."""
    checked = status in ("ok", "wrong")
    flops, nbytes = 2_000_000, 60_000
    seconds = sorted(rounds_us)[len(rounds_us) // 2] / 1e6 if rounds_us else None
    about: dict[str, Any] = {
        "key": row_key(case, dtype, engine, target),
        "case": case,
        "suite": "suite.yaml",
        "source": "suite.yaml:3",
        "op": op,
        "tags": ["small"],
        "dtype": dtype,
        "digest": f"digest of {case} {dtype}",
        "engine": engine,
        "knobs": {},
        "target": target,
        "device": "cpu",
        "emulated": False,
        "status": status,
        "rules": [],
        "detail": "" if status == "ok" else f"{status} for a reason",
        "seconds": 1.25,
        "at": "2026-11-23T03:01:00Z",
        "compile": CompileFacts(
            seconds={"lower": 0.1, "compile": 0.4}, total_s=0.5, cache="miss", module_bytes=4096
        ),
        "code": CodeFacts(dispatches=1, transient_bytes=0) if checked else None,
        "check": CheckFacts(
            method="float64",
            data="normal",
            elements=1000,
            bad=0 if status == "ok" else 7,
            max_abs=1e-6,
            max_rel=1e-7,
            of_bound=of_bound,
            seconds=0.2,
        )
        if checked
        else None,
        "times": times(rounds_us, visits) if rounds_us else None,
        "work": WorkFacts(
            flops=flops,
            bytes=nbytes,
            tflops=flops / seconds / 1e12,
            gbytes_per_s=nbytes / seconds / 1e9,
            roofline=0.4,
        )
        if seconds
        else None,
    }
    return Row(**{**about, **more})


def run_of(rows: Iterable[Row], *, cut: str | None = None, **machine: Any) -> Run:
    """Return a run of rows under one header."""
    rows = tuple(rows)
    return Run(headers=(header(**machine),), rows=rows, header_of=(0,) * len(rows), cut=cut)


def write_run(path: Path, rows: Iterable[Row], *, tail: bytes = b"", **machine: Any) -> Path:
    """Write a run as a sweep does, and return its path."""
    path.write_bytes(b"".join([encode(header(**machine)), *map(encode, rows), tail]))
    return path


Noise = Callable[[random.Random], float]


def quiet(draw: random.Random) -> float:
    """Return a factor of a round's time: what else runs only ever adds."""
    return 1 + 0.01 * draw.expovariate(1) + 2 * (draw.random() < 0.02)


def timed_rows(
    medians_us: Mapping[str, float],
    seed: int,
    *,
    engines: Sequence[str] = ("iree", "torch"),
    rounds: int = 12,
    slower: Mapping[str, float] | None = None,
    inside: Noise = quiet,
    between: float = 0.01,
    shift: float = 1.0,
) -> list[Row]:
    """Return rows as two runs of one tree have them.

    Parameters
    ----------
    medians_us : mapping of str to float
        By case.
    seed : int
        Of this run.
    slower : mapping of str to float, optional
        Factors by the keys of rows.
    inside : callable
        Factor of a round.
    between : float
        Standard deviation of the logarithm of a factor that a row has for the whole run.
    shift : float
        Factor of all rows of this run.
    """
    draw = random.Random(seed)
    found = []
    for case, median_us in medians_us.items():
        common = [inside(draw) ** 0.5 for _ in range(rounds)]  # slows all engines of a round
        for engine in engines:
            key = row_key(case, "float", engine, "cpu")
            factor = shift * draw.lognormvariate(0, between) * (slower or {}).get(key, 1.0)
            found.append(
                row(
                    case,
                    engine=engine,
                    rounds_us=[round(median_us * factor * c * inside(draw), 2) for c in common],
                )
            )
    return found
