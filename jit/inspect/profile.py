# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How long each dispatch takes on this CPU: measured by IREE's own tools, in their processes.

IREE records dispatches for its tools only: of the runtime's Python module a profile cannot be had,
and the HIP and CUDA drivers record none.  So ``iree-benchmark-module``, which comes with the
runtime, executes the code once more, and ``iree-profile`` reads what it has recorded.  Times are
by the clock of ``time.perf_counter_ns``, so that they can stand in one trace with ours.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...graph_api.dtypes import DataType
from ...graph_api.errors import DeviceError, NotSupportedError
from .. import scratch
from ..runtime.waiting import patient
from ..signature import ArgSpec, Signature
from ..trace import tell

__all__ = ["DispatchRun", "profile", "tell_runs"]

_LIMIT_S = 120.0
_SHARE = 1 << 30  # bytes of operands that are written for the tool at most

# IREE's names of element types, as the tools read them; others are bytes.
_NAMES: Mapping[DataType, str] = {
    DataType.FLOAT: "f32",
    DataType.HALF: "f16",
    DataType.BFLOAT16: "bf16",
    DataType.DOUBLE: "f64",
    DataType.INT32: "si32",
    DataType.INT64: "si64",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class DispatchRun:
    """One launch of a kernel.

    Attributes
    ----------
    name : str
        Entry point of the compiled code.
    begin_ns, end_ns : int
        By the clock of ``time.perf_counter_ns``.
    workgroups : tuple of int
        Along each axis.
    pid : int
        The process that executed it.
    """

    name: str
    begin_ns: int
    end_ns: int
    workgroups: tuple[int, ...]
    pid: int


def profile(
    vmfb: bytes | memoryview,
    signature: Signature,
    inputs: Sequence[bytes],
    *,
    driver: str,
    threads: int = 0,
    runs: int = 1,
) -> tuple[DispatchRun, ...]:
    """Execute code for a CPU in a process of IREE's, and return all launches in order.

    Parameters
    ----------
    vmfb : bytes-like
    signature : Signature
    inputs : sequence of bytes
        The memory of each input, in the order of the signature.
    driver : str
        ``"local-sync"`` or ``"local-task"``.
    threads : int
        Workers of ``local-task``; 0: as many as there are cores.
    runs : int
        Executions; the first of them meets cold caches.

    Raises
    ------
    NotSupportedError
        For scalars that are given at execution, and where the tools are missing.
    DeviceError
        If the tool fails.
    """
    tool, reader = _tools()
    with scratch.folder() as folder:
        code, made = Path(folder, "module.vmfb"), Path(folder, "profile")
        code.write_bytes(vmfb)
        words = [
            tool,
            f"--module={code}",
            f"--device={driver}",
            "--function=main",
            f"--benchmark_min_time={runs}x",
            "--device_profiling_mode=host-execution",
            f"--device_profiling_output={made}",
            *_arguments(Path(folder), signature, inputs),
        ]
        if threads and driver == "local-task":
            words.append(f"--task_topology_group_count={threads}")
        pid, _ = patient(_run)(words)  # the tool's threads, too, have that policy
        _, text = _run([reader, "dispatch", "--format=jsonl", "--dispatch_events", str(made)])
    rows = [json.loads(line) for line in text.splitlines()]
    return tuple(
        DispatchRun(
            name=str(row["key"]),
            begin_ns=row["start_host_time_ns"],
            end_ns=row["end_host_time_ns"],
            workgroups=tuple(row["workgroup_count"]),
            pid=pid,
        )
        for row in sorted(rows, key=_begin)
        if row["type"] == "host_dispatch_event" and row["valid"]
    )


def tell_runs(runs: Sequence[DispatchRun], nodes: Mapping[str, Sequence[str]]) -> None:
    """Add launches to what is recorded; those at the same time lie on lines of their own.

    Parameters
    ----------
    runs : sequence of DispatchRun
        In the order in which they began.
    nodes : mapping of str to sequence of str
        By name of a kernel, of each of its launches in an execution what it computes.
    """
    lanes: list[int] = []
    seen: dict[str, int] = {}
    for run in runs:
        lane = next((i for i, end in enumerate(lanes) if end <= run.begin_ns), len(lanes))
        lanes[lane : lane + 1] = [run.end_ns]
        number = seen[run.name] = seen.get(run.name, -1) + 1
        known = nodes.get(run.name, ())
        about = {
            "nodes": known[number % len(known)] if known else "",
            "workgroups": "x".join(map(str, run.workgroups)),
        }
        tell(
            run.name.removeprefix("main$async_"),
            "dispatch",
            run.begin_ns,
            run.end_ns,
            about,
            pid=run.pid,
            process="iree-benchmark-module: the same code once more",
            tid=run.pid + lane,
        )


def _begin(row: Mapping[str, Any]) -> int:
    return int(row.get("start_host_time_ns", 0))


def _tools() -> tuple[str, str]:
    """Return the paths of the tool that executes and of the one that reads profiles."""
    from ..bindings import load

    folder = os.path.dirname(str(load("iree._runtime_libs").__file__))
    found = [os.path.join(folder, name) for name in ("iree-benchmark-module", "iree-profile")]
    for path in found:
        if not os.access(path, os.X_OK):
            raise NotSupportedError(f"{path} is missing; it comes with iree-base-runtime")
    return found[0], found[1]


def _arguments(folder: Path, signature: Signature, inputs: Sequence[bytes]) -> list[str]:
    """Return the flags that give the tool every argument of the function."""
    given = iter(inputs)
    found, written = [], 0
    for number, spec in enumerate(signature.args):
        if spec.scalar:
            raise NotSupportedError("IREE's tool takes no scalars that are given at execution")
        text = _described(spec)
        if not spec.output:
            memory = next(given)
            written += len(memory)
            if written > _SHARE:
                raise NotSupportedError(f"inputs of more than {_SHARE} bytes are not profiled")
            path = folder / f"argument{number}.bin"
            path.write_bytes(memory)
            text += f"=@{path}"
        found.append(f"--input={text}")
    return [*found, f"--input=&{max(signature.workspace_bytes, 64)}xi8"]


def _described(spec: ArgSpec) -> str:
    shape = (spec.nbytes,) if spec.data_type.bits < 8 else spec.shape
    return "x".join([*map(str, shape), _NAMES.get(spec.data_type, "i8")])


def _run(words: Sequence[str]) -> tuple[int, str]:
    """Run a tool to its end; return its process id and what it has written."""
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            out, err = process.communicate(timeout=_LIMIT_S)
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        text = (err or out).decode("utf-8", "replace").strip().splitlines()
        raise DeviceError(
            f"{os.path.basename(words[0])} failed: {text[-1] if text else 'silently'}"
        )
    return process.pid, out.decode("utf-8", "replace")
