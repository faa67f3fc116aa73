# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inputs of four kinds, what is expected of them, and what a wrong result looks like in a row."""

from __future__ import annotations

from typing import Any, get_args

import ml_dtypes
import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.reference import numpy_dtype, to_dtype
from hipdnn_iree.provider.selection.select import build
from hipdnn_iree.provider.sweep.checking import Data, Judge, inputs_of, judged
from hipdnn_iree.provider.verify import poisoned_outputs

KINDS: tuple[Data, ...] = get_args(Data)


def chain(kind: str = "float") -> FrozenGraph:
    g = Graph(io_data_type=kind, compute_data_type="float")
    x, w = g.tensor(dims=(2, 8, 9, 7)), g.tensor(dims=(12, 8, 3, 3))
    y = g.conv_fprop(x, w, padding=1)
    r = g.relu(g.add(y, g.tensor(dims=(1, 12, 1, 1))))
    r.set_output()
    g.matmul(g.tensor(dims=(5, 33)), g.tensor(dims=(33, 17))).set_output()
    return g.freeze()


def results(judge: Judge) -> dict[int, Any]:
    """Return what a perfect engine gives."""
    outputs = poisoned_outputs(judge.frozen)
    for uid, array in outputs.items():
        spec = judge.frozen.spec(uid)
        array[...] = to_dtype(judge.expected.values[uid], spec.data_type)
    return outputs


@pytest.mark.parametrize("kind", ["float", "half", "bfloat16"])
@pytest.mark.parametrize("data", KINDS)
@pytest.mark.parametrize("limit", [0, 1e9])
def test_right_and_wrong_results(data: Data, kind: str, limit: float) -> None:
    judge = judged(chain(kind), data=data, limit=limit)
    method = "float64" if limit else "blocked"
    outputs = results(judge)
    right = judge.check(outputs)
    assert right.ok
    assert (right.row["bad"], right.row["method"], right.row["data"]) == (0, method, data)
    assert right.row["elements"] == 2 * 12 * 9 * 7 + 5 * 17
    assert right.row["of_bound"] == 0  # whatever the rounding to the type of the result does
    assert right.row["seconds"] >= judge.seconds > 0
    uid = judge.frozen.outputs[0]
    finite = np.argwhere(np.isfinite(outputs[uid].astype(np.float64)))
    at = tuple(finite[len(finite) // 2])
    outputs[uid][at] = outputs[uid][at] + np.asarray(1).astype(outputs[uid].dtype)
    wrong = judge.check(outputs)
    assert not wrong.ok
    assert wrong.row["bad"] == 1
    assert wrong.row["of_bound"] is None or wrong.row["of_bound"] > 1
    outputs[uid][at] = np.nan
    assert judge.check(outputs).row["max_abs"] is None


@pytest.mark.parametrize("kind", ["float", "half", "bfloat16"])
@pytest.mark.parametrize("used", [0.5, 1.0])
def test_the_error_of_a_right_result_is_what_the_computation_needed(kind: str, used: float) -> None:
    """Half of the bound is half, and 1 the whole of it; the rounding of the result is no error."""
    judge = judged(chain(kind))
    outputs = poisoned_outputs(judge.frozen)
    for uid, array in outputs.items():
        signs = np.where(np.arange(array.size) % 2, used, -used).reshape(array.shape)
        values = judge.expected.values[uid] + signs * judge.expected.errors[uid]
        array[...] = to_dtype(values, judge.frozen.spec(uid).data_type)
    checked = judge.check(outputs)
    assert checked.ok
    # Of a narrow type only results that were rounded the other way tell anything.
    assert (0.8 if kind == "float" else 0) * used < checked.row["of_bound"] <= used * 1.0001
    assert checked.row["of_bound"] < 1 or used == 1


def values(frozen: FrozenGraph, data: Data) -> np.ndarray[Any, Any]:
    found = inputs_of(frozen, data, seed=3)
    assert {uid: (a.shape, a.strides) for uid, a in found.items()} == {
        uid: (a.shape, a.strides) for uid, a in inputs_of(frozen, "normal", seed=3).items()
    }
    return np.concatenate([array.astype(np.float64).ravel() for array in found.values()])


@pytest.mark.parametrize("kind", ["float", "half", "bfloat16"])
def test_kinds_of_data(kind: str) -> None:
    frozen = chain(kind)
    whole = values(frozen, "whole")
    assert set(whole) == {-2, -1, 0, 1, 2}
    special = values(frozen, "special")
    counts = [np.isnan(special).sum(), np.isposinf(special).sum(), np.isneginf(special).sum()]
    inputs = len(frozen.inputs)
    assert all(inputs - 1 <= count <= inputs for count in counts)  # two may fall on one element
    tiny = values(frozen, "denormal")
    dtype = numpy_dtype(frozen.spec(frozen.inputs[0]).data_type)
    normal = float(ml_dtypes.finfo(dtype).smallest_normal)
    share = ((np.abs(tiny) < normal) & (tiny != 0)).mean()
    assert 0.05 < share < 0.15
    repeated = [values(frozen, "special") for _ in range(2)]
    np.testing.assert_array_equal(*repeated)


def test_sums_of_whole_numbers_are_exact() -> None:
    judge = judged(chain(), data="whole", limit=0)
    for uid in judge.frozen.outputs:
        np.testing.assert_array_equal(judge.expected.low[uid], judge.expected.high[uid])


def test_operands_that_are_bound_to_a_range_keep_it() -> None:
    g = Graph(io_data_type="float", compute_data_type="float")
    x = g.tensor(dims=(4, 6))
    y = g.div(g.log(x), g.tensor(dims=(4, 6)))
    y.set_output()
    lengths = g.tensor(dims=(2, 1, 1, 1), data_type="int32")
    q = [g.tensor(dims=(2, 1, 5, 4)) for _ in range(3)]
    g.sdpa(*q, padding_mask=True, seq_len_q=lengths, seq_len_kv=lengths).o.set_output()
    frozen = g.freeze()
    for data in KINDS:
        found = inputs_of(frozen, data)
        by_dims = [(frozen.spec(uid), array) for uid, array in found.items()]
        for spec, array in by_dims:
            if spec.data_type.json == "int32":
                assert (array >= 1).all()
                assert (array <= 5).all()
        (logarithm,) = (a for s, a in by_dims if s.uid == frozen.nodes[0].inputs["in_0"])
        assert (logarithm > 0).all()


def test_an_engine_on_all_kinds() -> None:
    """IREE's results for whole numbers, NaN and infinity, and denormals are what is expected."""
    frozen = chain()
    plan = build(frozen, Target.parse("cpu"), settings(), engine="iree")
    for data in KINDS:
        for limit in (0, 1e9):
            judge = judged(frozen, data=data, limit=limit)
            outputs = poisoned_outputs(frozen)
            plan.execute({**judge.inputs, **outputs})
            found = judge.check(outputs)
            assert found.ok, f"{data}: {found.report}"
