# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sweeps on the workers of dask.distributed: the same rows as here, whatever happens to workers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import misbehaving
import pytest
from hipdnn_iree import DataType
from hipdnn_iree.graph_api.errors import DeviceError, SettingError
from hipdnn_iree.jit.options import CacheOptions
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.provider.sweep import cluster as cluster_module
from hipdnn_iree.provider.sweep.case_task import CaseTask, SweepOptions
from hipdnn_iree.provider.sweep.cluster import ClusterPool
from hipdnn_iree.provider.sweep.process_pool import Limits
from hipdnn_iree.provider.sweep.row import Row, read_run
from hipdnn_iree.provider.sweep.run_file import RunFile
from hipdnn_iree.provider.sweep.runner import header, sweep
from hipdnn_iree.provider.sweep.suite import Case, read

LIMITS = Limits(timeout_s=60)
SUITE = """
cases:
  - {name: "add_{n}", for: {n: [3, 4, 5, 6, 7, 8]}, tensors: {x: {dims: [n, 3]}},
     nodes: [{op: add, in: [x, 2], out: y}]}
  - {name: bad, tensors: {a: {dims: [5, 4]}}, nodes: [{op: matmul, in: [a, [3, 2]], out: c}]}
"""


def pool_of(address: str) -> ClusterPool:
    return ClusterPool(address, LIMITS, CacheOptions.of(settings()))


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(SettingError, match=r"pip install 'hipdnn-iree\[cluster\]'"):
        pool_of("tcp://127.0.0.1:1")


@pytest.fixture(scope="module")
def local() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=4, threads_per_worker=1, dashboard_address=":0", silence_logs="CRITICAL"
    ) as found:
        yield found


def tasks(*cases: Case, engine: str = "reference", **options: Any) -> Iterator[CaseTask]:
    for case in cases:
        yield CaseTask(
            case=case,
            engines=(engine,),
            target="cpu",
            threads=1,
            options=SweepOptions(devices=(), **options),
        )


def case(name: str, build: Callable[[DataType], Any] = misbehaving.fine) -> Case:
    return Case(name=name, dtypes=(DataType.FLOAT,), build=build)


def swept(path: Path, todo: Iterator[CaseTask], address: str = "") -> dict[str, Row]:
    """Do the tasks here, or in a cluster, and return all rows by their case."""
    pool = pool_of(address) if address else None
    try:
        with RunFile(path, header([], {}, pool)) as run:
            sweep(todo, run, jobs=2, limits=LIMITS, cluster=pool)
    finally:
        if pool is not None:
            pool.close()
    return {row.case: row for row in read_run(path).rows}


def without_times(row: Row) -> dict[str, Any]:
    check = row.check and {
        f: getattr(row.check, f) for f in ("method", "elements", "bad", "max_abs")
    }
    names = ("key", "suite", "op", "digest", "device", "status", "rules", "detail", "work")
    return {"check": check, **{name: getattr(row, name) for name in names}}


# First: all four workers are there, and have not started the processes that see the variable.
def test_nothing_is_compiled_twice(local: Any, tmp_path: Path) -> None:
    """Each worker has a cache of its own, and three cases have one graph."""
    client = local.get_client()
    try:
        for number, address in enumerate(client.scheduler_info(n_workers=-1)["workers"]):
            place = str(tmp_path / f"cache{number}")
            change = f"import os; os.environ['HIPDNN_IREE_CACHE_DIR'] = {place!r}"
            client.run(exec, change, workers=[address])
        cases = [case("a"), case("b"), case("other", misbehaving.other), case("c")]
        todo = tasks(*cases, engine="iree", check=False)
        rows = swept(tmp_path / "run.jsonl", todo, local.scheduler_address)
    finally:
        client.close()
    states = {name: row.compile.cache for name, row in rows.items() if row.compile is not None}
    assert sorted(states[name] for name in "abc") == ["hit", "hit", "miss"]
    assert states["other"] == "miss"
    # Those that have it are more than the one that has compiled it.
    holders = {path.parents[2].name for path in tmp_path.glob("cache*/v*/*/*") if path.is_file()}
    assert len(holders) > 2


def test_the_same_rows_though_a_worker_is_lost(local: Any, tmp_path: Path) -> None:
    marker = tmp_path / "lost"
    cases = list(read(SUITE, check="keep").by_type())
    cases.insert(2, case("unlucky", partial(misbehaving.lose_worker, marker, 1)))
    here = swept(tmp_path / "here.jsonl", tasks(*cases))
    assert not marker.exists()
    there = swept(tmp_path / "there.jsonl", tasks(*cases), local.scheduler_address)
    assert marker.read_text() == "lost\n"
    assert len(there) == len(cases) == 8
    assert {n: without_times(row) for n, row in there.items()} == {
        n: without_times(row) for n, row in here.items()
    }
    head = read_run(tmp_path / "there.jsonl").headers[0]
    assert head.machine["processors"] == len(os.sched_getaffinity(0))


def test_a_case_that_loses_two_workers_is_a_crash(local: Any, tmp_path: Path) -> None:
    marker = tmp_path / "lost"
    unlucky = case("unlucky", partial(misbehaving.lose_worker, marker, 9))
    todo = tasks(case("a"), unlucky, case("b"))
    rows = swept(tmp_path / "run.jsonl", todo, local.scheduler_address)
    assert marker.read_text() == "lost\n" * 2
    assert {name: row.status for name, row in rows.items()} == {
        "a": "ok",
        "unlucky": "crash",
        "b": "ok",
    }
    assert rows["unlucky"].detail.startswith("two workers were lost with it")


def test_times_are_taken_with_the_machine_alone(local: Any, tmp_path: Path) -> None:
    todo = tasks(case("a"), case("b"), perf=True, seconds=0.0)
    rows = swept(tmp_path / "run.jsonl", todo, local.scheduler_address)
    assert all(row.times is not None for row in rows.values())
    assert all(row.work and row.work.roofline for row in rows.values())


def test_other_versions_are_refused(local: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = cluster_module.versions()
    monkeypatch.setattr(cluster_module, "versions", lambda: {**ours, "lowering": "another"})
    with pytest.raises(SettingError, match=r"versions differ.*worker tcp://.* has lowering .*"):
        pool_of(local.scheduler_address)


def test_a_cluster_that_cannot_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(cluster_module, "_CONNECT_S", 0.5)
    with pytest.raises(SettingError, match=r"tcp://127.0.0.1:1: no scheduler answers there"):
        pool_of("tcp://127.0.0.1:1")
    with (
        distributed.LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as empty,
        pytest.raises(SettingError, match="it has no workers"),
    ):
        pool_of(empty.scheduler_address)


def test_without_workers_a_sweep_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(cluster_module, "_NO_WORKER_S", 0.5)
    with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as one:
        pool = pool_of(one.scheduler_address)
        one.scale(0)
        with pytest.raises(DeviceError, match="no worker is left"):
            list(pool.results(tasks(case("a"))))
        pool.close()
