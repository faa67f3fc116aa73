# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Running a module that was compiled for gfx9 on an emulated GPU, in a process of its own.

    python -m tools.survey.emulated_run JOB RESULT      (what `run` starts)

IREE's hip driver runs it, on the library of ``hipdnn_iree.emulation``; a crash or a kernel that
does not end is the child's.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ml_dtypes  # noqa: F401 (its types are known to NumPy by name)
import numpy as np
import numpy.typing as npt

__all__ = ["Reached", "RunError", "run"]

ROOT = Path(__file__).resolve().parents[2]
# NumPy's names and IREE's.
_ELEMENTS = {
    "bool": "BOOL_8",
    "int8": "SINT_8",
    "uint8": "UINT_8",
    "int16": "SINT_16",
    "int32": "SINT_32",
    "int64": "SINT_64",
    "float16": "FLOAT_16",
    "bfloat16": "BFLOAT_16",
    "float32": "FLOAT_32",
    "float64": "FLOAT_64",
    "float8_e4m3fn": "FLOAT_8_E4M3_FN",
    "float8_e5m2": "FLOAT_8_E5M2",
    "float8_e4m3fnuz": "FLOAT_8_E4M3_FNUZ",
    "float8_e5m2fnuz": "FLOAT_8_E5M2_FNUZ",
}
Array = npt.NDArray[Any]
Shape = tuple[int, ...]
Reached = dict[str, set[int]]


class RunError(RuntimeError):
    """The run failed; the text has the kernel, its address and the reason."""


def run(
    vmfb: Path,
    inputs: Sequence[Array | int | float],
    outputs: Sequence[tuple[Shape, Any]],
    *,
    function: str = "main",
    workspace_bytes: int | None = None,
    timeout_s: float = 600,
    destination_passing: bool | None = None,
    reached: Reached | None = None,
) -> list[Array]:
    """Execute a function and return its outputs.

    Parameters
    ----------
    vmfb : Path
    inputs : sequence of ndarray, int or float
        Numbers are passed by value.
    outputs : sequence of (shape, dtype)
        Functions that write into buffers of the caller get these first, full of 0xFF, then the
        inputs, then the workspace; others return them.
    function : str
    workspace_bytes : int, optional
        By default what the module says.
    timeout_s : float
    destination_passing : bool, optional
        Whether it writes into the caller's buffers; by default if it takes a workspace.
    reached : dict, optional
        Where the addresses of the instructions that were executed go, by the kernel's name.

    Raises
    ------
    RunError
        If a kernel fails, or the child ends without a result.
    TimeoutError
        If it takes longer.
    """
    job = {
        "vmfb": str(vmfb),
        "inputs": [x if _is_number(x) else np.ascontiguousarray(x) for x in inputs],
        "outputs": [(tuple(shape), np.dtype(dtype)) for shape, dtype in outputs],
        "function": function,
        "workspace": workspace_bytes,
        "destinations": destination_passing,
    }
    with TemporaryDirectory(prefix="hipdnn-iree-emulated-") as name:
        given, found = Path(name, "job"), Path(name, "result")
        given.write_bytes(pickle.dumps(job))
        try:
            done = subprocess.run(
                [sys.executable, "-m", "tools.survey.emulated_run", str(given), str(found)],
                cwd=ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"the emulated run took more than {timeout_s:g} s") from None
        if not found.exists():
            raise RunError(f"the emulated run ended with {done.returncode}: {done.stderr[-2000:]}")
        result = pickle.loads(found.read_bytes())
    if isinstance(result, str):
        raise RunError(result)
    arrays, executed = result
    if reached is not None:
        reached.update(executed)
    return list(arrays)


def _execute(job: dict[str, Any]) -> tuple[list[Array], Reached]:
    """Run the job in this process; return the outputs, and what was executed."""
    import iree.runtime as rt
    from hipdnn_iree.emulation.elf import code_objects, read_code_object
    from hipdnn_iree.provider.emulated import emulated

    vmfb = Path(job["vmfb"]).read_bytes()
    arch = next((read_code_object(code).arch for code in code_objects(vmfb)), "gfx942")
    with emulated(arch) as library:
        device = rt.get_driver("hip").create_default_device()
        instance = rt.VmInstance()
        module = rt.VmModule.copy_buffer(instance, vmfb)
        context = rt.VmContext(instance, modules=[rt.create_hal_module(instance, device), module])
        workspace = _workspace(module, job["function"], job["workspace"])
        into = job["destinations"]
        into = workspace is not None if into is None else into
        targets = [_put(rt, device, np.full(s, 0xFF, np.uint8)) for s in _sizes(job["outputs"])]
        views = [_view(rt, t, *o) for t, o in zip(targets, job["outputs"], strict=True)]
        views = views if into else []
        count = len(views) + len(job["inputs"]) + 1
        arguments, results = rt.VmVariantList(count), rt.VmVariantList(1)
        for view in views:
            arguments.push_ref(view)
        for x in job["inputs"]:
            if _is_number(x):
                (arguments.push_float if isinstance(x, float) else arguments.push_int)(x)
                continue
            raw = x.reshape(-1).view(np.uint8)
            arguments.push_ref(_view(rt, _put(rt, device, raw), x.shape, x.dtype))
        if workspace is not None:
            arguments.push_ref(_new(rt, device, workspace))
        context.invoke(module.lookup_function(job["function"]), arguments, results)
        if not into:
            shown = [results.get_as_object(i, rt.HalBufferView) for i in range(len(results))]
            targets = [view.get_buffer() for view in shown]
        pairs = zip(targets, job["outputs"], strict=True)
        found = [_get(rt, device, buffer, *described) for buffer, described in pairs]
        return found, library.executed()


def _is_number(x: Any) -> bool:
    return isinstance(x, int | float)


def _workspace(module: Any, function: str, given: int | None) -> int | None:
    """Return the bytes of the workspace argument; None if the function takes none."""
    described = module.lookup_function(f"{function}$async")
    facts = described.reflection if described else {}
    if not any(name.startswith("iree.abi.transients.size") for name in facts):
        return None
    return int(facts["iree.abi.transients.size.constant"]) if given is None else given


def _sizes(outputs: Sequence[tuple[Shape, np.dtype[Any]]]) -> list[int]:
    return [int(np.prod(shape, dtype=np.int64)) * dtype.itemsize for shape, dtype in outputs]


def _new(rt: Any, device: Any, nbytes: int) -> Any:
    kind, usage = int(rt.MemoryType.DEVICE_LOCAL), int(rt.BufferUsage.DEFAULT)
    return device.allocator.allocate_buffer(kind, usage, nbytes)


def _put(rt: Any, device: Any, raw: Array) -> Any:
    """Return a buffer of the device with these bytes."""
    if not raw.size:
        return _new(rt, device, 0)
    kind, usage = int(rt.MemoryType.DEVICE_LOCAL), int(rt.BufferUsage.DEFAULT)
    element = rt.HalElementType.UINT_8
    return device.allocator.allocate_buffer_copy(kind, usage, device, raw, element).get_buffer()


def _view(rt: Any, buffer: Any, shape: Shape, dtype: np.dtype[Any]) -> Any:
    return rt.HalBufferView(buffer, shape, getattr(rt.HalElementType, _ELEMENTS[dtype.name]))


def _get(rt: Any, device: Any, buffer: Any, shape: Shape, dtype: np.dtype[Any]) -> Array:
    nbytes = _sizes([(shape, dtype)])[0]
    if not nbytes:
        return np.empty(shape, dtype)
    flat = rt.HalBufferView(buffer, (nbytes,), rt.HalElementType.UINT_8)
    raw: Array = rt.DeviceArray(device, flat).to_host()
    return raw.view(dtype).reshape(shape).copy()


def main(job: str, result: str) -> None:
    """Run a job and write its outputs, or the text of its error."""
    try:
        found: Any = _execute(pickle.loads(Path(job).read_bytes()))
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
    Path(result).write_bytes(pickle.dumps(found))
    os._exit(0)  # IREE's device may not be freed before its buffers, whose order is Python's


if __name__ == "__main__":
    main(*sys.argv[1:])
