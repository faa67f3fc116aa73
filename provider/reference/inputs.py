# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Buffers for a graph: random inputs within its domain, and outputs filled with a poison value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from ...graph_api.dtypes import DataType
from ...graph_api.frozen import FrozenGraph
from ...graph_api.tensor import TensorSpec
from . import context, execute, reference
from .base import Domain
from .convert import Array, int_range, numpy_dtype, to_dtype, widen

__all__ = ["ALIGNMENT", "domain_of", "in_memory", "poisoned_outputs", "random_inputs", "untouched"]

ALIGNMENT = 64
"""Bytes; what IREE needs to use host memory without a copy."""
_GUARD = 64
"""Elements of poison behind each buffer, so that reading beyond the end shows."""

# What no kernel writes by chance: quiet NaNs with a payload of their own, and odd integers.
_POISON = {
    DataType.HALF: 0x7E5A,
    DataType.BFLOAT16: 0x7FDA,
    DataType.FLOAT: 0x7FDAA55A,
    DataType.DOUBLE: 0x7FFDA55AA55AA55A,
    DataType.FP8_E8M0: 0xFF,
    DataType.FP8_E4M3_FNUZ: 0x80,
    DataType.FP8_E5M2_FNUZ: 0x80,
    DataType.FP8_E4M3: 0x7F,
    DataType.FP8_E5M2: 0x7F,
    DataType.BOOLEAN: 0xA5,
    # These have no NaN; odd values, and what the runtime fills packed memory with.
    DataType.INT4: 0x05,
    DataType.FP4_E2M1: 0x05,
    DataType.FP6_E2M3: 0x15,
    DataType.FP6_E3M2: 0x15,
    DataType.INT8: 0xA5,
    DataType.UINT8: 0xA5,
    DataType.INT32: 0xA5A5A5A5,
    DataType.INT64: 0xA5A5A5A5A5A5A5A5,
}


def _buffer(spec: TensorSpec) -> Array:
    """Return poisoned memory for a tensor, as an array of its dims and strides."""
    dtype = numpy_dtype(spec.data_type)
    elements = spec.layout.span + _GUARD
    raw = np.empty(elements * dtype.itemsize + ALIGNMENT, dtype=np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    raw = raw[start : start + elements * dtype.itemsize]
    pattern = _POISON.get(spec.data_type, 0).to_bytes(dtype.itemsize, "little")
    raw.reshape(-1, dtype.itemsize)[:] = np.frombuffer(pattern, dtype=np.uint8)
    strides = tuple(s * dtype.itemsize for s in spec.strides)
    return np.ndarray(spec.dims, dtype=dtype, buffer=raw.data, strides=strides)


def poisoned_outputs(frozen: FrozenGraph) -> dict[int, Array]:
    """Return a buffer for every output, by uid, in which elements never written will show.

    Each has the output's dims, strides and data type, and is aligned to 64 bytes.
    """
    return {uid: _buffer(frozen.spec(uid)) for uid in frozen.outputs}


def untouched(array: Array, data_type: DataType) -> Array:
    """Return which elements still hold the poison."""
    size = array.dtype.itemsize
    if data_type not in _POISON:
        return np.zeros(array.shape, dtype=bool)
    bits = np.ascontiguousarray(array).view(f"u{size}")
    return np.asarray(bits == _POISON[data_type])


def random_inputs(frozen: FrozenGraph, seed: int = 0) -> dict[int, Array]:
    """Return random values for every input, for which the graph is well conditioned.

    Parameters
    ----------
    frozen : FrozenGraph
    seed : int
        Graphs that are equal get equal values for equal seeds; inputs of one graph differ.

    Returns
    -------
    dict of int to ndarray
        By uid: logical dims, the input's data type and its real strides.  Gaps of padded tensors
        and the memory behind each tensor hold NaN (or odd integers); the base is aligned to
        64 bytes.  Every consumer of an input is defined there and not catastrophically
        sensitive (divisors are away from 0, comparisons have ties, products stay near 1).
    """
    domains = {uid: domain_of(frozen, uid) for uid in frozen.inputs}
    attempt = _draw(frozen, domains, seed)
    if not _may_leave_itsdomain_of(frozen):
        return attempt
    # Some node takes the logarithm (or the like) of a computed value.  Positive and smaller
    # inputs usually bring it into its domain; the first inputs that do so are taken.
    for change in (_same, _positive, _small, _small_positive):
        attempt = _draw(frozen, {u: change(d) for u, d in domains.items()}, seed)
        if _is_finite(frozen, attempt):
            return attempt
    return _draw(frozen, domains, seed)


def _same(domain: Domain) -> Domain:
    return domain


def _positive(domain: Domain) -> Domain:
    return replace(domain, low=max(domain.low, domain.high / 8))


def _small(domain: Domain) -> Domain:
    if domain.away:
        return domain
    return replace(domain, low=domain.low / 8, high=domain.high / 8, grid=domain.grid / 8)


def _small_positive(domain: Domain) -> Domain:
    return _positive(_small(domain))


_WITHOUT_LIMITS = Domain(ints=(-100, 100))


def domain_of(frozen: FrozenGraph, uid: int) -> Domain:
    """Return the values that suit every consumer of an input."""
    found = Domain(low=-math.inf, high=math.inf)
    for node in frozen.nodes:
        ref = reference(node.op.NAME)
        for port, source in node.inputs.items():
            if source == uid and ref is not None and not ref.unsupported(node.op):
                found = found.meet(ref.domain(node.op, port, context(frozen, node)))
    return found.meet(_WITHOUT_LIMITS) if math.isinf(found.high) else found


def _may_leave_itsdomain_of(frozen: FrozenGraph) -> bool:
    """Whether a computed value feeds an operand that does not take every value."""
    for node in frozen.nodes:
        ref = reference(node.op.NAME)
        if ref is None or ref.unsupported(node.op):
            return False
        for port, uid in node.inputs.items():
            limits = ref.domain(node.op, port, context(frozen, node))
            if uid not in frozen.inputs and limits.strict:
                return True
    return False


def _is_finite(frozen: FrozenGraph, inputs: Mapping[int, Array]) -> bool:
    # Outputs in range of their types: an infinity or NaN inside would show in them.
    results = execute(frozen, inputs)
    return all(
        np.isfinite(widen(to_dtype(results[u], t), t)).all()
        for u in frozen.outputs
        if (t := frozen.spec(u).data_type).is_float
    )


def _draw(frozen: FrozenGraph, domains: Mapping[int, Domain], seed: int) -> dict[int, Array]:
    arrays = {}
    for number, uid in enumerate(frozen.inputs):
        spec, domain = frozen.spec(uid), domains[uid]
        rng = np.random.default_rng([seed, number])
        array = _buffer(spec)
        memory = in_memory(array, spec)
        memory[...] = _values(rng, memory.shape, spec.data_type, domain)
        arrays[uid] = array
    return arrays


def in_memory(array: Array, spec: TensorSpec) -> Array:
    """Return a view with each element once: a broadcast tensor has one for many logical ones."""
    shared = tuple(slice(1) if stride == 0 else slice(None) for stride in spec.strides)
    return np.asarray(array[shared])


def _values(
    rng: np.random.Generator, shape: tuple[int, ...], data_type: DataType, domain: Domain
) -> Array:
    if data_type is DataType.FP8_E8M0:
        # Positive, and from 1/16 of the largest on.
        return to_dtype(domain.high * 2.0 ** -rng.integers(0, 5, shape), data_type)
    if data_type.is_float:
        values = _reals(rng, shape, domain)
    else:
        values = _integers(rng, shape, data_type, domain)
    if domain.zeros:
        values[rng.random(shape) < domain.zeros] = 0
    return to_dtype(values, data_type)


def _reals(rng: np.random.Generator, shape: tuple[int, ...], domain: Domain) -> Array:
    if domain.grid:
        steps = (math.ceil(domain.low / domain.grid), math.floor(domain.high / domain.grid))
        values = rng.integers(*steps, shape, endpoint=True) * domain.grid
    else:
        values = rng.uniform(domain.low, domain.high, shape)
    if domain.away:
        # The sign stays, the magnitude moves into [away, top].
        sign = np.where(values < 0, -1.0, 1.0)
        top = np.where(values < 0, -domain.low, domain.high)
        values = sign * (domain.away + np.abs(values) * (1 - domain.away / top))
    return values


def _integers(
    rng: np.random.Generator, shape: tuple[int, ...], data_type: DataType, domain: Domain
) -> Array:
    low, high = int_range(data_type)
    low, high = max(low, domain.ints[0]), min(high, domain.ints[1])
    values = rng.integers(low, high, shape, endpoint=True)
    if domain.away:
        values[values == 0] = min(1, high)
    return values
