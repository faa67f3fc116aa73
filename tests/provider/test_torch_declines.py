# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the PyTorch engine declines, which it says without PyTorch."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from here_and_now import choose, engine, own_engines
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.errors import Decline, NotSupportedError
from hipdnn_iree.provider.engines.torch import served, served_by, torch_engine
from hipdnn_iree.provider.engines.torch.torch_op import RULES
from hipdnn_iree.provider.sweep.samples import sample_problems


def relu(data_type: str = "float", compute: str = "float") -> Graph:
    g = Graph("small", io_data_type=data_type, compute_data_type=compute)
    g.relu(g.tensor(dims=(4, 3), name="x")).set_output()
    return g


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_engine, "find_spec", lambda name: object())


def found(graph: Graph, target: str = "cpu") -> list[Decline]:
    return engine("torch").declines(graph.freeze(), Target.parse(target))


def one(graph: Graph, rule: str, port: str, target: str = "cpu") -> Any:
    (decline,) = found(graph, target)
    problem = decline.problem
    assert (decline.engine, problem.rule, problem.port) == ("TORCH_CPU_ENGINE", rule, port)
    assert rule in RULES
    assert problem.got
    assert problem.wanted
    return problem


def test_what_it_serves_and_where() -> None:
    assert found(relu()) == []
    assert found(relu(), "cpu:x86-64-v3") == []
    assert one(relu(), "TORCH-ENG-02", "target", "gfx942").got == "gfx942"


def test_without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_engine, "find_spec", lambda name: None)
    assert "hipdnn-iree[torch]" in one(relu(), "TORCH-ENG-01", "torch").hint
    # A graph of its own: choices are remembered, and other tests want this one served.
    g = Graph(io_data_type="float")
    g.relu(g.tensor(dims=(3, 11))).set_output()
    with pytest.raises(NotSupportedError, match="TORCH-ENG-01"):
        g.build("cpu", engine="torch")


def test_ops_types_and_ragged_tensors() -> None:
    g = Graph(io_data_type="float")
    x, w = g.tensor(dims=(1, 2, 4, 4)), g.tensor(dims=(1, 2, 4, 4))
    index = g.tensor(dims=(1, 2, 2, 2), data_type="int32")
    dx = g.resample_bwd(
        g.tensor(dims=(1, 2, 2, 2)),
        index=index,
        dx_dims=(1, 2, 4, 4),
        window=2,
        stride=2,
        resample_mode="maxpool",
    )
    g.add(g.add(x, w), dx, name="sum").set_output()
    assert "pointwise" in one(g, "TORCH-ENG-03", "op").wanted
    narrow = Graph(io_data_type="fp8_e4m3", compute_data_type="float")
    narrow.relu(narrow.tensor(dims=(4,), name="x")).set_output().set_data_type("float")
    assert one(narrow, "TORCH-ENG-04", "'x' (uid 1)").got == "fp8_e4m3"
    ragged = Graph(io_data_type="float")
    x, offsets = ragged.tensor(dims=(4,)), ragged.tensor(dims=(4,), data_type="int32")
    x.ragged_offset_uid = offsets.uid
    ragged.relu(x).set_output()
    assert {d.problem.rule for d in found(ragged)} == {"TORCH-ENG-05"}


def test_compute_types_and_modes() -> None:
    assert found(relu("int32", "int32")) == []
    product = Graph(io_data_type="int8", compute_data_type="int32")
    a, b = product.tensor(dims=(4, 4)), product.tensor(dims=(4, 4))
    product.matmul(a, b, name="product").set_output().set_data_type("int32")
    problem = one(product, "TORCH-ENG-06", "compute_data_type")
    assert (problem.node, problem.got) == ("product", "int32")
    dropped = Graph(io_data_type="float")
    q = dropped.tensor(dims=(1, 2, 4, 8))
    dropped.sdpa(q, q, q, dropout_probability=0.5, seed=1, offset=2).o.set_output()
    assert {(d.problem.rule, d.problem.port) for d in found(dropped)} == {
        ("TORCH-ENG-07", port) for port in ("dropout_probability", "seed", "offset")
    }
    rounded = relu("double", "double")
    next(iter(rounded.nodes)).outputs["out_0"].set_data_type("half")
    assert one(rounded, "TORCH-ENG-08", "out_0").got == "half from double"


def test_resizes_that_pytorch_does_otherwise() -> None:
    def resized(
        size: int, mode: str, coordinates: str = "half_pixel", kind: str = "float"
    ) -> Graph:
        g = Graph(io_data_type=kind, compute_data_type="float")
        x = g.tensor(dims=(1, 2, 4, 8))
        options = {"resample_mode": mode, "coordinates": coordinates, "size": (size, 8)}
        g.resample_fwd(x, name="n", **options).y.set_output()
        return g

    assert found(resized(7, "bilinear")) == found(resized(7, "bilinear", "align_corners")) == []
    assert found(resized(12, "nearest")) == found(resized(2, "nearest", kind="half")) == []
    assert one(resized(7, "nearest"), "TORCH-ENG-07", "size").got == "[7, 8]"
    for graph in (resized(7, "bilinear", "asymmetric"), resized(8, "nearest", "asymmetric")):
        assert one(graph, "TORCH-ENG-07", "coordinates").got == "asymmetric"
    assert one(resized(8, "nearest", kind="int8"), "TORCH-ENG-04", "x").got == "int8"


def test_it_is_chosen_by_name_only() -> None:
    assert not own_engines()["torch"].by_default
    assert choose(relu().freeze(), "cpu").name == "IREE_JIT_ENGINE"
    assert choose(relu().freeze(), "cpu", engine_name="torch").name == "TORCH_CPU_ENGINE"
    assert engine("torch").ops() == served()
    assert served_by("moe_grouped_matmul") is None
    assert served_by("torch_op") is None
    assert len(served()) == 22


def test_declining_says_where_and_what() -> None:
    for sample in sample_problems():
        for data_type in sample.dtypes[:2]:
            for decline in found(sample.graph(data_type)):
                problem = decline.problem
                assert problem.rule in RULES
                assert problem.port
                assert problem.got
                assert problem.wanted


def test_declining_imports_no_pytorch() -> None:
    text = """
import sys
from hipdnn_iree import Graph
g = Graph(io_data_type="float")
g.relu(g.tensor(dims=(4,))).set_output()
from hipdnn_iree import Target
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.provider.registry import engine
engine("torch", settings()).declines(g.freeze(), Target.parse("cpu"))
assert not {"torch", "iree", "torch_mlir", "numpy"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", text], check=True)
