# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sweeps on many machines: the extra ``cluster``, by way of a scheduler of dask.distributed.

Each task is given to one worker, and this process keeps the account: it knows which tasks a lost
worker had, gives them to another one once, and tells a crash the second time.  The scheduler's own
rule (three more tries, and also for tasks that had not begun) is never reached.

Code that a worker compiles comes back with its answers, is kept in the cache of this machine, and
goes with later tasks of the same graph to workers that have not got it.  Tasks of one graph and
target never run at the same time, so nothing is compiled twice.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any
from uuid import uuid4

from ...graph_api.errors import DeviceError, HipdnnIreeError, SettingError
from ...jit.options import CacheOptions
from ...jit.pipeline import store
from ...jit.target import Target
from .case_task import CaseTask
from .cluster_worker import About, Served, about, serve
from .machine import versions
from .process_pool import Ended, Limits, Result, Timed

__all__ = ["ClusterPool"]

GPU = "GPU"
"""The resource that a worker has for each of its GPUs."""

_CONNECT_S = 15.0
_LOOK_S = 0.5  # between two looks at what has ended
_WORKERS_S = 1.0  # between two looks at which workers there are
_NO_WORKER_S = 60.0  # after which a sweep without any worker ends
_SHARE = 0.8  # of a worker's memory, for all of its processes together
_HOW = "dask worker ADDRESS --nthreads 1, and --resources GPU=1 for each GPU"

Content = tuple[str, str]
"""Digest of a graph, and a target."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Worker:
    """A worker as the scheduler tells it."""

    address: str
    host: str
    threads: int
    gpus: int
    memory: int


@dataclass(kw_only=True, slots=True, eq=False)
class _Todo:
    """A task, as it was given and as it travels, and how many workers were lost with it."""

    task: CaseTask
    sent: CaseTask
    content: Content
    limits: Limits
    on_gpu: bool
    lost: int = 0
    worker: _Worker | None = None


@dataclass(slots=True)
class _Code:
    """Compiled code of one graph and target: entries of this machine's cache, and who has them."""

    digests: list[str] = field(default_factory=list)
    workers: set[str] = field(default_factory=set)


class ClusterPool:
    """The workers of a cluster, as `process_pool.ProcessPool` is those of this machine.

    Parameters
    ----------
    address : str
        Of the scheduler, such as ``tcp://head:8786``.
    limits : Limits
        Of each part of a task.
    cache : CacheOptions
        Where compiled code is kept on this machine.
    share_memory : bool
        Whether the limit of memory is each worker's own, a share of what it may have.

    Attributes
    ----------
    machine : dict
        What the workers' machines are, for the header of a run.

    Raises
    ------
    SettingError
        If the extra is not installed, nothing answers at the address, there is no worker, or
        versions differ.
    """

    def __init__(
        self, address: str, limits: Limits, cache: CacheOptions, *, share_memory: bool = False
    ) -> None:
        self.limits = limits
        self._store = store(cache)
        self._share = share_memory
        self._client = _connected(address)
        self._code: dict[Content, _Code] = {}
        self._given: Counter[str] = Counter()
        self._looked = 0.0
        try:
            self._workers = self._look()
            if not self._workers:
                raise SettingError(f"--scheduler {address}: it has no workers; start some: {_HOW}")
            self.machine = _same(self._client)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> ClusterPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Leave the scheduler; workers go on waiting for others."""
        self._client.close(timeout=5)

    @property
    def jobs(self) -> int:
        """How many tasks run at one time."""
        return sum(worker.threads for worker in self._workers.values())

    def results(
        self,
        tasks: Iterable[CaseTask] = (),
        *,
        timed: Timed[CaseTask] | None = None,
        alone: bool = False,
    ) -> Iterator[Result[CaseTask]]:
        """Yield what comes of every part of every task; see `ProcessPool.results`.

        Raises
        ------
        DeviceError
            If the scheduler is gone, or no worker is left for a minute.
        """
        source, first = iter(tasks), deque() if timed is None else timed
        waiting: deque[_Todo] = deque()
        running: dict[Any, _Todo] = {}
        since = time.monotonic()  # when something ran last
        try:
            while True:
                while first:
                    waiting.appendleft(_todo(*first.pop()))
                self._start(source, waiting, running, alone)
                if running:
                    since = time.monotonic()
                elif not waiting:
                    return
                elif time.monotonic() - since > _NO_WORKER_S:
                    raise DeviceError(
                        f"no worker is left for {len(waiting)} or more tasks; start some ({_HOW}), "
                        "and go on with --resume"
                    )
                for future in self._ended(running):
                    yield from self._results(future, running.pop(future), waiting)
        finally:
            for future in running:
                future.cancel()

    # --- which worker does what ---------------------------------------------------------------

    def _start(
        self,
        source: Iterator[CaseTask],
        waiting: deque[_Todo],
        running: dict[Any, _Todo],
        alone: bool,
    ) -> None:
        """Give tasks to all workers that are free."""
        given = True
        while given:
            given = False
            for worker in self._free(running, alone):
                todo = self._next(source, waiting, running, worker)
                if todo is not None:
                    todo.worker, given = worker, True
                    self._given[worker.address] += 1
                    running[self._submit(todo, worker)] = todo
                    break

    def _free(self, running: Mapping[Any, _Todo], alone: bool) -> list[_Worker]:
        """Return the workers that may take one more task, the one with least to do first."""
        busy = Counter(todo.worker.address for todo in running.values() if todo.worker)
        hosts = {todo.worker.host for todo in running.values() if todo.worker}
        free = []
        for worker in self._look().values():
            room = worker.gpus or worker.threads  # a process for each GPU
            if alone:
                room = int(worker.host not in hosts)
            if busy[worker.address] < room:
                free.append(worker)
        given = self._given
        return sorted(free, key=lambda worker: (busy[worker.address], given[worker.address]))

    def _next(
        self,
        source: Iterator[CaseTask],
        waiting: deque[_Todo],
        running: Mapping[Any, _Todo],
        worker: _Worker,
    ) -> _Todo | None:
        """Return a task for a worker: none whose graph is being compiled elsewhere."""
        under_way = {todo.content for todo in running.values()}
        gpus = any(other.gpus for other in self._workers.values())

        def fits(todo: _Todo) -> bool:
            return todo.content not in under_way and (worker.gpus > 0 or not (todo.on_gpu and gpus))

        for todo in waiting:
            if fits(todo):
                waiting.remove(todo)
                return todo
        while len(waiting) < 2 * self.jobs + len(running):
            task = next(source, None)
            if task is None:
                return None
            todo = _todo(task, self.limits)
            if fits(todo):
                return todo
            waiting.append(todo)
        return None

    def _submit(self, todo: _Todo, worker: _Worker) -> Any:
        """Give a task to a worker, with the code that it lacks."""
        known = self._code.setdefault(todo.content, _Code())
        kept = () if worker.address in known.workers else map(self._store.export, known.digests)
        known.workers.add(worker.address)
        limits = todo.limits
        if self._share:
            limits = replace(limits, memory=int(_SHARE * worker.memory / worker.threads))
        return self._client.submit(
            serve,
            todo.sent,
            limits,
            tuple(entry for entry in kept if entry is not None),
            key=f"hipdnn-iree-{uuid4().hex}",
            workers=[worker.address],
            allow_other_workers=False,
            resources={GPU: 1} if worker.gpus and todo.on_gpu else None,
            pure=False,
            retries=0,
        )

    # --- what comes back -------------------------------------------------------------------------

    def _ended(self, running: Mapping[Any, _Todo]) -> list[Any]:
        """Return the futures that have ended, or whose worker is gone, after at most a while."""
        from distributed import wait

        if running:
            with suppress(TimeoutError), self._client.as_current():
                wait(list(running), timeout=_LOOK_S, return_when="FIRST_COMPLETED")
        else:
            time.sleep(_LOOK_S)
        here = self._look()
        return [
            future
            for future, todo in running.items()
            if future.done() or (todo.worker and todo.worker.address not in here)
        ]

    def _results(
        self, future: Any, todo: _Todo, waiting: deque[_Todo]
    ) -> Iterator[Result[CaseTask]]:
        """Yield the parts of a task that has ended, or take it back."""
        worker = todo.worker
        assert worker is not None
        if future.status == "finished":
            served: Served = future.result()
            self._keep(todo, worker, served)
            for part, (answer, seconds) in enumerate(served.answers):
                yield Result(task=todo.task, part=part, answer=answer, seconds=seconds)
            return
        error = future.exception(timeout=_CONNECT_S) if future.status == "error" else None
        future.cancel()
        if error is None or type(error).__name__ == "KilledWorker":
            todo.lost += 1
            if todo.lost == 1:
                waiting.appendleft(todo)
                return
            why = f"two workers were lost with it, the last one {worker.address}"
        else:
            why = f"the worker {worker.address} failed: {type(error).__name__}: {error}"
        for part in range(todo.task.parts):
            end = Ended(reason="crash", detail=why.partition("\n")[0], step="worker", log=why)
            yield Result(task=todo.task, part=part, answer=end, seconds=0.0)

    def _keep(self, todo: _Todo, worker: _Worker, served: Served) -> None:
        code = self._code.setdefault(todo.content, _Code())
        for digest, data in served.code:
            if self._store.adopt(data):
                code.digests.append(digest)
        if served.code:
            code.workers = {worker.address}

    def _look(self) -> dict[str, _Worker]:
        """Return the workers that there are, as of a moment ago at most."""
        if time.monotonic() - self._looked < _WORKERS_S:
            return self._workers
        client = self._client
        try:
            found = client.sync(client.scheduler.identity)["workers"]
        except Exception as error:  # whatever the network says
            raise DeviceError(f"the scheduler is gone: {error}; go on with --resume") from error
        self._workers = {
            address: _Worker(
                address=address,
                host=str(known["host"]),
                threads=int(known["nthreads"]),
                gpus=min(int(known["resources"].get(GPU, 0)), int(known["nthreads"])),
                memory=int(known["memory_limit"] or 0),
            )
            for address, known in found.items()
            if known.get("status", "running") == "running"
        }
        self._looked = time.monotonic()
        return self._workers


def _todo(task: CaseTask, limits: Limits) -> _Todo:
    """Return a task as it goes to another machine."""
    case, target, options = task.case, Target.parse(task.target), task.options
    digest, sent = case.name, task
    with suppress(HipdnnIreeError, OSError):  # its row tells that
        digest = case.freeze().digest
        sent = replace(task, case=case.portable())
    executed = options.check or options.perf
    return _Todo(
        task=task,
        sent=sent,
        content=(digest, task.target),
        limits=limits,
        on_gpu=executed and not target.is_cpu and not (options.emulate and target.is_gfx9),
    )


def _connected(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError as error:
        raise SettingError(
            f"--scheduler needs dask.distributed ({error}): pip install 'hipdnn-iree[cluster]'"
        ) from None
    try:
        return Client(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        text = " ".join(str(error).split())[:300]
        raise SettingError(
            f"--scheduler {address}: no scheduler answers there ({text}); wanted the address "
            "that `dask scheduler` prints, such as tcp://head:8786"
        ) from None


def _same(client: Any) -> dict[str, Any]:
    """Return what the machines of all workers have in common, or raise where versions differ."""
    found: dict[str, Any] = client.run(about, on_error="return")
    said = client.get_versions()
    ours = _of_dask(said["client"]) | versions()
    theirs = {"the scheduler": _of_dask(said["scheduler"])}
    for address, answer in found.items():
        if not isinstance(answer, About):
            raise SettingError(
                f"the worker {address} cannot work for this sweep: {type(answer).__name__}: "
                f"{answer}; install hipdnn-iree {ours['hipdnn-iree']} there"
            )
        theirs[f"the worker {address}"] = _of_dask(said["workers"][address]) | answer.versions
    differences = [
        f"{who} has {name} {have.get(name)}, this process {ours[name]}"
        for who, have in theirs.items()
        for name in have
        if have.get(name) != ours.get(name)
    ]
    if differences:
        raise SettingError("versions differ in the cluster: " + "; ".join(differences))
    return _in_common([answer.machine for answer in found.values()])


def _of_dask(said: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the versions that matter for talking to each other."""
    packages = said["packages"]
    return {name: packages.get(name) for name in ("distributed", "dask", "msgpack")} | {
        "python": ".".join(str(packages["python"]).split(".")[:3])
    }


def _in_common(machines: list[dict[str, Any]]) -> dict[str, Any]:
    """Return each property, or all its values where machines differ."""
    common: dict[str, Any] = {}
    for name in machines[0]:
        values = list({str(one.get(name)): one.get(name) for one in machines}.values())
        common[name] = values[0] if len(values) == 1 else sorted(values, key=str)
    return common
