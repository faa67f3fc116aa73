# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checking gfx9 kernels by emulation; most of it with a stand-in for what executes them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.errors import FormatError, SettingError
from hipdnn_iree.jit.pipeline import signature_of
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.sweep.suite import Case
from hipdnn_iree.provider.verify import random_inputs

from tools.survey.emulated_run import RunError
from tools.survey.emulation import (
    emulate,
    from_memory,
    in_memory,
)
from tools.survey.pool import survey
from tools.survey.record import alone, load
from tools.survey.trials import Trial, cases

GFX942 = Target.parse("gfx942")


class Pretender:
    """Stands for emulation: knows only how to negate; tired, or with one element wrong if told."""

    def __init__(self) -> None:
        self.broken = self.tired = False

    def __call__(
        self, vmfb: Path, inputs: Any, outputs: Any, *, timeout_s: float, **how: Any
    ) -> Any:
        assert vmfb.is_file()
        assert how["destination_passing"]
        (shape, dtype), (x,) = *outputs, inputs
        assert x.shape == shape
        assert x.dtype == dtype
        if self.tired:
            raise TimeoutError(f"took more than {timeout_s} s")
        y = np.negative(x)
        if self.broken:
            y.reshape(-1)[0] += 1
        return [y]


def _negated(strides: tuple[int, ...] | None = None) -> Case:
    def build(data_type: DataType) -> Graph:
        graph = Graph(io_data_type=data_type)
        graph.neg(graph.tensor(dims=(2, 3, 4, 5), strides=strides)).set_output()
        return graph

    return Case(name="pointwise.negated", build=build)


@pytest.mark.parametrize("strides", [None, (60, 1, 15, 3)], ids=["nchw", "nhwc"])
def test_right_wrong_and_tired(strides: tuple[int, ...] | None) -> None:
    run = Pretender()
    case = Trial(_negated(strides), DataType.HALF, GFX942)
    found = emulate(case, run, timeout_s=5)
    assert (found.status, found.note, found.error) == ("emulated-ok", "", 0.0)
    assert found.op == "pointwise"
    assert found.dispatches == 1
    assert found.ir == case.ir_digest()

    run.broken = True
    found = emulate(case, run, timeout_s=5)
    assert found.status == "wrong"
    assert "1 of 120 elements wrong" in found.note

    def race(*_: object, **__: object) -> list[Any]:
        raise RunError(
            "RuntimeError: hip.cc:7: (719): main_0 at 0x1904, ds_read_b32: race on LDS byte 0x10"
        )

    found = emulate(case, race, timeout_s=5)
    assert (found.status, found.note) == (
        "accused",
        "main_0 at 0x1904, ds_read_b32: race on LDS byte 0x10",
    )

    run.tired = True
    found = emulate(case, run, timeout_s=5)
    assert (found.status, found.note) == ("cannot-emulate", "took more than 5 s")


def test_declined_is_not_compiled() -> None:
    def build(data_type: DataType) -> Graph:
        graph = Graph(io_data_type=data_type)
        dy, x = graph.tensor(dims=(1, 6, 3, 3)), graph.tensor(dims=(1, 4, 5, 4))
        graph.conv_wgrad(dy, x, dw_dims=(6, 2, 3, 1), stride=2, padding=1).set_output()
        return graph

    def nothing(*args: Any, **more: Any) -> Any:
        raise AssertionError("not to be called")

    sample = Case(name="conv_wgrad.one_tap", build=build)
    found = emulate(Trial(sample, DataType.FLOAT, GFX942), nothing, timeout_s=5)
    assert (found.status, found.note, found.ir) == ("declined", "IREE-CONV-02", "")


@pytest.mark.parametrize(
    ("dims", "strides"),
    [((2, 3), (3, 1)), ((2, 3), (1, 2)), ((2, 3), (8, 2)), ((2, 3), (0, 1))],
    ids=["dense", "turned", "gaps", "broadcast"],
)
def test_memory_there_and_back(dims: tuple[int, ...], strides: tuple[int, ...]) -> None:
    graph = Graph(io_data_type="float")
    x = graph.tensor(dims=dims, strides=strides)
    graph.neg(x).set_output()
    frozen = graph.freeze()
    (spec,) = (s for s in signature_of(frozen).args if not s.output)
    (array,) = random_inputs(frozen, seed=3).values()
    memory = in_memory(array, spec)
    assert memory.shape == spec.shape
    np.testing.assert_array_equal(from_memory(memory, spec), array)


def test_cases_are_chosen() -> None:
    sample = _negated()
    targets = [GFX942, Target.parse("gfx90a")]
    assert [c.name for c in cases(targets, [DataType.HALF], "neg", [sample])] == [
        "pointwise.negated half gfx942",
        "pointwise.negated half gfx90a",
    ]
    assert not list(cases(targets, [], "conv", [sample]))


def _script(*args: str | Path) -> subprocess.CompletedProcess[str]:
    checkout = Path(__file__).parents[2]
    command = [sys.executable, checkout / "scripts" / "emulate", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_script_records_and_resumes(tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    chosen = ("--target", "gfx942", "-k", "pointwise.neg", "--dtype", "half", "--json")
    first = _script(*chosen, "--record", record)
    assert first.returncode == 0, first.stderr
    found = json.loads(first.stdout)["findings"]
    assert {row["status"] for row in found} == {"emulated-ok"}
    for row in found:
        code = row["code"]
        assert code["kernels"] == code["launched"] == 1
        assert code["instructions"] == sum(code["met"].values()) > 5
        assert code["met"]["s_endpgm"] == 1
        assert set(code["missed"]) <= {"s_nop"}  # the padding behind the end
    assert json.loads(record.read_text())["findings"] == sorted(found, key=lambda r: r["case"])
    again = _script(*chosen, "--record", record)
    assert json.loads(again.stdout)["findings"] == found
    assert again.stderr.count("(before)") == len(found)


def test_two_surveys_do_not_share_a_record(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    with alone(path), pytest.raises(SettingError, match="another survey"):
        list(survey([], lambda case: {}, record=path))
    assert not list(survey([], lambda case: {}, record=path))


def test_what_is_no_record(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    assert load(path) == load(None) == {}
    for text in ("", "{}", "[]", '{"findings": [{"case": "a"}]}'):
        path.write_text(text)
        with pytest.raises(FormatError, match=r"record\.json is no record"):
            load(path)


@pytest.mark.parametrize(
    ("args", "says"),
    [(["--target", "cpu"], "emulation is for gfx9"), (["--target", "gfx1"], "unknown target")],
)
def test_script_refuses(args: list[str], says: str) -> None:
    done = _script(*args)
    assert done.returncode
    assert says in done.stderr


def test_scalars_that_the_host_reads_are_passed_by_value() -> None:
    def build(data_type: DataType) -> Graph:
        graph = Graph(io_data_type=data_type)
        scaled = graph.mul(graph.tensor(dims=(3, 5)), graph.runtime_scalar(data_type="half"))
        graph.add(scaled, graph.runtime_scalar(data_type="int32")).set_output()
        return graph

    case = Trial(Case(name="pointwise.scaled", build=build), DataType.HALF, GFX942)
    found = emulate(case, timeout_s=200)
    assert (found.status, found.note) == ("emulated-ok", "")
