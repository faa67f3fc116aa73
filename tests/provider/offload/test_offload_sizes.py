# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules whose extents are known at execution: one program, and one code where engines have it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hipdnn_iree.graph_api.errors import BindError, NotSupportedError
from hipdnn_iree.provider.offload import SizedExecutor, module, sized
from hipdnn_iree.provider.offload.sizes import Family

V, W = "!torch.vtensor<[?,8],f32>", "!torch.vtensor<[8,4],f32>"
R = "!torch.vtensor<[?,4],f32>"

DENSE = f"""func.func @main(%x: {V}, %w: {W}, %s: {R}) -> {R} {{
  %int1 = torch.constant.int 1
  %0 = torch.aten.mm %x, %w : {V}, {W} -> {R}
  %1 = torch.aten.add.Tensor %0, %s, %int1 : {R}, {R}, !torch.int -> {R}
  %2 = torch.aten.relu %1 : {R} -> {R}
  return %2 : {R}
}}"""


def values(*dims: int) -> Any:
    return np.random.default_rng(sum(dims)).standard_normal(dims).astype(np.float32)


def family(found: SizedExecutor) -> Family:
    assert found.programs.family is not None
    return found.programs.family


def test_one_code_for_all_sizes() -> None:
    found = sized(module(DENSE))
    assert found.dims == (("batch", 8), (8, 4), ("batch", 4))
    ((name, (plan, rules)),) = family(found).plans.items()
    assert list(rules.values()) == [{"$product": [1, {"batch": 1}]}]
    w = values(8, 4)
    codes = set()
    for n in (1, 2, 17, 64, 4099, 5000):
        x, s = values(n, 8), values(n, 4)
        (y,) = found.run(x, w, s)
        wanted = np.maximum(x.astype(np.float64) @ w + s, 0)
        assert np.abs(y - wanted).max() <= 32 * 2.0**-24 * max(1, np.abs(wanted).max())
        codes.add(type(found.at({"batch": n}).execute.plans[name]).__name__)
    assert codes == {"SizedPlan", "IreePlan"}  # the latter above the range
    assert plan.with_sizes({"d0": 17}) is plan.with_sizes({"d0": 17})


def test_the_numbers_of_a_graph_do_not_depend_on_sizes() -> None:
    """A frozen graph has its nodes in an order that follows from dims."""
    x, v, y = "!torch.vtensor<[?,4],f32>", "!torch.vtensor<[4],f32>", "!torch.vtensor<[?,1,4],f32>"
    text = f"""func.func @main(%x: {x}, %v: {v}) -> {y} {{
      %int1 = torch.constant.int 1
      %0 = torch.aten.sigmoid %v : {v} -> {v}
      %1 = torch.aten.exp %x : {x} -> {x}
      %2 = torch.aten.mul.Tensor %1, %0 : {x}, {v} -> {x}
      %3 = torch.aten.neg %v : {v} -> {v}
      %4 = torch.aten.add.Tensor %2, %3, %int1 : {x}, {v}, !torch.int -> {x}
      %5 = torch.aten.unsqueeze %4, %int1 : {x}, !torch.int -> {y}
      return %5 : {y}
    }}"""
    found = sized(module(text))
    (graph,) = family(found).template["graphs"]
    for n in (3, 19):
        a, b = values(n, 4), values(4)
        wanted = np.exp(a) / (1 + np.exp(-b)) - b
        assert np.allclose(found.run(a, b)[0], wanted[:, None], atol=1e-4)
        assert graph in found.at({"batch": n}).execute.plans


def test_shapes_that_do_not_fit_one_another() -> None:
    found = sized(module(DENSE))
    with pytest.raises(BindError, match="OFFLOAD-09"):
        found.run(values(3, 8), values(8, 4), values(5, 4))
    with pytest.raises(BindError, match="OFFLOAD-09"):
        found.run(values(3, 7), values(8, 4), values(3, 4))
    with pytest.raises(BindError, match="OFFLOAD-08"):
        found.run(values(3, 8))
    with pytest.raises(BindError, match="OFFLOAD-08"):
        found.run(values(3, 8), values(8, 4).astype(np.float64), values(3, 4))


def test_what_follows_a_size_is_a_rule() -> None:
    """Reshapes with products of sizes, and an op that only IREE compiles."""
    a, b, c = (f"!torch.vtensor<[{d}],f32>" for d in ("?,?,6", "?,6", "?,?,2,3"))
    text = f"""func.func @main(%x: {a}, %w: !torch.vtensor<[6,6],f32>) -> ({b}, {c}) {{
      %int0 = torch.constant.int 0
      %int1 = torch.constant.int 1
      %int2 = torch.constant.int 2
      %int3 = torch.constant.int 3
      %int6 = torch.constant.int 6
      %n = torch.aten.size.int %x, %int0 : {a}, !torch.int -> !torch.int
      %t = torch.aten.size.int %x, %int1 : {a}, !torch.int -> !torch.int
      %nt = torch.aten.mul.int %n, %t : !torch.int, !torch.int -> !torch.int
      %l = torch.prim.ListConstruct %nt, %int6 : (!torch.int, !torch.int) -> !torch.list<int>
      %0 = torch.aten.view %x, %l : {a}, !torch.list<int> -> {b}
      %1 = torch.aten.mm %0, %w : {b}, !torch.vtensor<[6,6],f32> -> {b}
      %2 = torch.aten.triu %1, %int0 : {b}, !torch.int -> {b}
      %m = torch.prim.ListConstruct %n, %t, %int2, %int3 :
        (!torch.int, !torch.int, !torch.int, !torch.int) -> !torch.list<int>
      %3 = torch.aten.view %1, %m : {b}, !torch.list<int> -> {c}
      return %2, %3 : {b}, {c}
    }}"""
    found = sized(module(text), dims={0: ("n", "t", 6)})
    assert family(found).symbols == ("n", "t")
    w = values(6, 6)
    for n, t in ((1, 1), (3, 5), (2, 31)):
        x = values(n, t, 6)
        flat, cut = found.run(x, w)
        wanted = x.reshape(-1, 6).astype(np.float64) @ w
        assert np.allclose(flat, np.triu(wanted), atol=1e-4)
        assert np.allclose(cut, wanted.reshape(n, t, 2, 3), atol=1e-4)


def test_a_bound_within_the_range_is_no_rule() -> None:
    """A slice that is cut off at 100 is another program above: each size takes its own way."""
    r = "!torch.vtensor<[?,4],f32>"
    text = f"""func.func @main(%x: {r}) -> {r} {{
      %int0 = torch.constant.int 0
      %int1 = torch.constant.int 1
      %int100 = torch.constant.int 100
      %0 = torch.aten.slice.Tensor %x, %int0, %int0, %int100, %int1 :
        {r}, !torch.int, !torch.int, !torch.int, !torch.int -> {r}
      %1 = torch.aten.relu %0 : {r} -> {r}
      return %1 : {r}
    }}"""
    found = sized(module(text, engine="reference"))
    assert found.programs.family is None
    for n in (3, 120):
        x = values(n, 4)
        assert np.array_equal(found.run(x)[0], np.maximum(x[:100], 0))


def test_sizes_are_rounded_up_to_buckets() -> None:
    found = sized(module(DENSE), buckets=(4, 16))
    ((_, (plan, _)),) = family(found).plans.items()
    w = values(8, 4)
    for n in (1, 3, 4, 11, 30):  # the last one is in no bucket
        x, s = values(n, 8), values(n, 4)
        (y,) = found.run(x, w, s)
        assert np.allclose(y, np.maximum(x @ w + s, 0), atol=1e-4)
    assert [one.bucket for one in plan.used()] == [{"d0": 4}, {"d0": 16}]  # type: ignore[attr-defined]


def test_a_family_is_data() -> None:
    found = sized(module(DENSE))
    every = family(found)
    record = json.loads(json.dumps(every.as_json()))
    assert every.build is not None
    again = Family.from_json(record).prepared(every.build)
    assert again.at({"batch": 5})[0] == every.at({"batch": 5})[0]


def test_a_function_that_is_not_there() -> None:
    with pytest.raises(NotSupportedError, match="wanted one"):
        sized(module(DENSE), function="other")
