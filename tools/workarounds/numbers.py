# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inputs, expected results, and running a module: on the CPU, or gfx9 code by emulation."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import iree.runtime as rt
import ml_dtypes
import numpy as np
from hipdnn_iree.emulation.elf import code_objects, read_code_object
from hipdnn_iree.provider.emulated import emulated

from .schema import Check, read

__all__ = ["arrays", "difference", "expected", "perform"]

CALLS = 15  # the quickest of which is the time of a run: other programs only slow it down

# dtype in defect.toml: NumPy's, and IREE's element type
TYPES: Mapping[str, tuple[Any, rt.HalElementType]] = MappingProxyType(
    {
        "f16": (np.float16, rt.HalElementType.FLOAT_16),
        "bf16": (ml_dtypes.bfloat16, rt.HalElementType.BFLOAT_16),
        "f32": (np.float32, rt.HalElementType.FLOAT_32),
        "f64": (np.float64, rt.HalElementType.FLOAT_64),
        "i8": (np.int8, rt.HalElementType.SINT_8),
        "i16": (np.int16, rt.HalElementType.SINT_16),
        "i32": (np.int32, rt.HalElementType.SINT_32),
        "i64": (np.int64, rt.HalElementType.SINT_64),
        "u8": (np.uint8, rt.HalElementType.UINT_8),
        "bool": (np.bool_, rt.HalElementType.BOOL_8),
    }
)

# MLIR's own integers have no sign.
_SIGNLESS = (
    (rt.HalElementType.INT_8, np.int8),
    (rt.HalElementType.INT_16, np.int16),
    (rt.HalElementType.INT_32, np.int32),
    (rt.HalElementType.INT_64, np.int64),
)


def arrays(check: Check) -> dict[str, Any]:
    """Return the inputs by their names, in their own types."""
    found = {}
    for position, one in enumerate(check.inputs):
        random = np.random.default_rng(position if one.seed < 0 else one.seed)
        count = int(np.prod(one.shape))
        values = {
            "normal": random.standard_normal(count),
            "integers": random.integers(-3, 4, count),
            "iota": np.arange(count),
            "ones": np.ones(count),
            "zeros": np.zeros(count),
        }
        found[one.name] = values[one.fill].reshape(one.shape).astype(TYPES[one.dtype][0])
    return found


def _wide(x: Any) -> Any:
    """Return an array in the widest type of its kind."""
    return x.astype(np.int64 if x.dtype.kind in "iub" else np.float64)


def expected(check: Check) -> Any:
    """Return the value of the expression that a check has, in float64."""
    names = {name: _wide(x) for name, x in arrays(check).items()}
    # The expression is part of this repository, as a test is.
    return np.asarray(eval(check.expected, {"np": np}, names))


def difference(got: Any, wanted: Any) -> float:
    """Return the largest difference over the largest value; infinity where NaNs differ."""
    if got.shape != wanted.shape:
        return float("inf")
    finite = np.isfinite(wanted)
    same = np.where(finite, np.isfinite(got), (got == wanted) | (np.isnan(got) & np.isnan(wanted)))
    if not same.all():
        return float("inf")
    scale = np.abs(wanted[finite]).max(initial=0) or 1.0
    return float(np.abs(got[finite] - wanted[finite]).max(initial=0) / scale)


def perform(folder: Path, module: Path) -> None:
    """Run the module of a defect; write its results and the seconds of a call beside it."""
    defect = read(folder)
    check, driver = defect.check, "cuda" if defect.targets[0] == "cuda" else "local-task"
    call = _emulate if check.kind == "emulate" else partial(_call, driver=driver)
    results, seconds = call(check, module)
    np.savez(module.parent / "results.npz", *map(_wide, results))
    (module.parent / "seconds").write_text(str(seconds))


def _emulate(check: Check, module: Path) -> tuple[list[Any], float]:
    """Run a module by IREE's hip driver, on an emulated GPU of the kind that it is for."""
    arch = read_code_object(next(code_objects(module.read_bytes()))).arch
    with emulated(arch):
        return _call(check, module, "hip")


def _call(check: Check, module: Path, driver: str) -> tuple[list[Any], float]:
    """Run a module by a driver; functions with destinations get them first, a workspace last."""
    config = rt.Config(driver)
    device = config.device
    loaded = rt.VmModule.copy_buffer(config.vm_instance, module.read_bytes())
    context = rt.VmContext(config.vm_instance, modules=[config.default_vm_modules[0], loaded])
    function = loaded.lookup_function(check.entry)
    # Where scratch memory is an argument, its size stands with the function's other form.
    described = loaded.lookup_function(f"{check.entry}$async")
    size = described and described.reflection.get("iree.abi.transients.size.constant")
    given_outputs = check.outputs if size is not None or check.kind != "emulate" else ()
    targets = [_view(device, np.zeros(o.shape, TYPES[o.dtype][0]), o.dtype) for o in given_outputs]
    sources = zip(check.inputs, arrays(check).values(), strict=True)
    given = [*targets, *(_view(device, x, one.dtype) for one, x in sources)]
    if size is not None:
        kind = rt.MemoryType.DEVICE_LOCAL | rt.MemoryType.HOST_VISIBLE
        given.append(device.allocator.allocate_buffer(kind, rt.BufferUsage.DEFAULT, int(size)))
    elapsed = []
    for _ in range(CALLS if check.kind == "time" else 1):
        arguments, results = rt.VmVariantList(len(given)), rt.VmVariantList(1)
        for one in given:
            arguments.push_ref(one)
        begin = time.monotonic()
        context.invoke(function, arguments, results)
        elapsed.append(time.monotonic() - begin)
    views = targets or [results.get_as_object(i, rt.HalBufferView) for i in range(len(results))]
    return [_array(device, view) for view in views], min(elapsed)


def _view(device: Any, x: Any, dtype: str) -> Any:
    return device.allocator.allocate_buffer_copy(
        memory_type=rt.MemoryType.DEVICE_LOCAL | rt.MemoryType.HOST_VISIBLE,
        allowed_usage=rt.BufferUsage.DEFAULT | rt.BufferUsage.MAPPING,
        device=device,
        # Python's buffers know no bfloat16.
        buffer=np.ascontiguousarray(x).view(np.uint16 if dtype == "bf16" else x.dtype),
        element_type=TYPES[dtype][1],
    )


def _array(device: Any, view: Any) -> Any:
    kinds = {int(element): np.dtype(kind) for kind, element in TYPES.values()}
    kinds |= {int(element): np.dtype(kind) for element, kind in _SIGNLESS}
    kind = kinds[view.element_type]
    count = int(np.prod(view.shape)) * kind.itemsize  # as bytes: IREE's Python knows no bfloat16
    flat = rt.HalBufferView(view.get_buffer(), (count,), rt.HalElementType.UINT_8)
    raw = rt.DeviceArray(device, flat).to_host()
    return raw.view(kind).reshape(view.shape).copy()
