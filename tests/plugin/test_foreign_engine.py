# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Engines of plugins of others: choice, results, refusals, memory, and what they release."""

from __future__ import annotations

import ctypes
import gc
import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from here_and_now import open_plugin
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.errors import (
    BindError,
    CompileError,
    DeviceError,
    NotSupportedError,
    SettingError,
)
from hipdnn_iree.graph_api.formats.flatbuffer.schema_types import Era
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.provider.engines.foreign import places
from hipdnn_iree.provider.engines.reference_engine import ReferenceEngine

Naive = Callable[..., Path]
CPU = Target.parse("cpu")


@pytest.fixture(autouse=True)
def own_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HIPDNN_PLUGIN_DIR", str(tmp_path / "none"))


def chain() -> FrozenGraph:
    """Grouped convolution with bias and relu, channels last, and its product with a constant."""
    g = Graph("chain", io_data_type="float")
    x = g.tensor(dims=(2, 4, 6, 5), strides=(120, 1, 20, 4), name="x")
    w = g.tensor(dims=(6, 2, 3, 2), name="w")
    b = g.tensor(dims=(1, 6, 1, 1), name="b")
    y = g.conv_fprop(x, w, pre_padding=(1, 0), post_padding=(1, 0), stride=(2, 1))
    factor = g.scalar(2.5, data_type="float")
    g.mul(g.relu(g.add(y, b)).set_output(), factor).set_output().set_name("scaled")
    return g.freeze()


def product() -> FrozenGraph:
    g = Graph("product", io_data_type="float")
    a = g.tensor(dims=(4, 3, 5), name="a")
    b = g.tensor(dims=(1, 5, 7), strides=(35, 1, 5), name="b")
    g.matmul(a, b).set_output().set_name("c")
    return g.freeze()


def unary(op: str = "relu", data_type: str = "float") -> FrozenGraph:
    g = Graph(op, io_data_type=data_type)
    getattr(g, op)(g.tensor(dims=(3, 4), name="x")).set_output().set_name("y")
    return g.freeze()


def operands(graph: FrozenGraph) -> dict[int, Any]:
    from hipdnn_iree.provider.reference.inputs import random_inputs

    return random_inputs(graph, 3)


def check(graph: FrozenGraph, results: dict[int, Any], inputs: dict[int, Any]) -> None:
    expected = ReferenceEngine(settings()).build(graph, CPU).run(inputs, copy=True)
    for uid, wanted in expected.items():
        np.testing.assert_allclose(results[uid], wanted, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "flag"),
    [(chain, ""), (product, ""), (unary, ""), (chain, "-DN25"), (unary, "-DN25")],
)
def test_results(make: Callable[[], FrozenGraph], flag: str, naive: Naive) -> None:
    """In both wire formats; buffers of the caller in any strides, poisoned outputs."""
    (engine,) = open_plugin(naive("naive", *filter(None, [flag])))
    assert engine.era is (Era.N25 if flag else Era.NODE)
    assert (engine.NAME, engine.id) == (
        ("naive_loops:4242", 4242) if flag else ("TEST_NAIVE_ENGINE", -3881685492516736198)
    )
    assert (engine.version(), engine.api_version()) == ("0.1", "1.0.0" if flag else "1.3.0")
    graph = make()
    assert engine.declines(graph, CPU) == []
    plan = engine.build(graph, CPU)
    assert (plan.engine, plan.engine_id, plan.cache) == (engine.NAME, engine.id, "off")
    inputs = operands(graph)
    check(graph, plan.run(inputs), inputs)
    # Misaligned and in other strides; the workspace is the caller's.
    odd = {uid: np.full(array.shape[::-1], 7.0, np.float32).T for uid, array in inputs.items()}
    for uid, array in odd.items():
        array[...] = inputs[uid]
    outputs = {}
    for uid in graph.outputs:
        dims = graph.tensors[uid].dims
        memory = np.full(int(np.prod(dims)) + 1, np.nan, np.float32)
        outputs[uid] = memory[1:].reshape(dims)
    space = np.full(plan.workspace_bytes + 64, 0xFF, np.uint8)
    call = plan.bind({**odd, **outputs}, space if plan.workspace_bytes else None, copy=True)
    call()
    check(graph, outputs, inputs)
    for array in odd.values():
        np.multiply(array, 2.0, out=array)
    call()  # reads the inputs anew
    check(graph, outputs, odd)


def test_buffers_are_judged_as_everywhere(naive: Naive) -> None:
    (engine,) = open_plugin(naive())
    plan = engine.build(unary(), CPU)
    with pytest.raises(BindError) as caught:
        plan.execute({"x": np.zeros((4, 3), np.float64)})
    assert {p.rule for p in caught.value.problems} == {"BIND-01", "BIND-04", "BIND-05"}
    with pytest.raises(BindError, match="BIND-02"):
        plan.run({"x": np.zeros((3, 4), np.float32), 99: 1})


def test_engine_is_found_pinned_and_listed(naive: Naive, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner
    from here_and_now import candidates
    from hipdnn_iree.provider.cli.app import app

    monkeypatch.setenv("HIPDNN_IREE_PLUGINS", str(naive()))
    g = Graph("pinned", io_data_type="float")
    g.relu(g.tensor(dims=(3, 4), name="x")).set_output().set_name("y")
    for name in ("TEST_NAIVE_ENGINE", "test_naive", "0xCA217B9C50C0B33A", "-3881685492516736198"):
        assert g.build("cpu", engine=name).engine == "TEST_NAIVE_ENGINE"
    assert g.build("cpu").engine == "IREE_JIT_ENGINE"
    assert g.build("cpu", prefer="test_naive").engine == "TEST_NAIVE_ENGINE"
    served = {c.name: c.served for c in candidates(g.freeze(), "cpu")}
    assert served["TEST_NAIVE_ENGINE"]
    h = Graph("declined", io_data_type="float")
    h.exp(h.tensor(dims=(3, 4), name="x")).set_output()
    with pytest.raises(NotSupportedError, match="the plugin said: this pointwise mode is not"):
        h.build("cpu", engine="test_naive")
    # Plans for other shapes, and those of a dynamic dim, are the same engine's.
    n = g.build("cpu", engine="test_naive").with_shapes({"x": (5, 2)})
    assert (n.engine, n.graph.tensors[n.graph.inputs[0]].dims) == ("TEST_NAIVE_ENGINE", (5, 2))
    d = Graph("dynamic", io_data_type="float")
    d.relu(d.tensor(dims=(d.dynamic("n", range=(1, 64), example=3), 4), name="x")).set_output()
    plan = d.build("cpu", engine="test_naive")
    for size in (5, 2):
        (y,) = plan.run({"x": np.full((size, 4), -1.0, np.float32)}).values()
        assert y.shape == (size, 4)
        assert not y.any()
    found = CliRunner().invoke(app, ["engines", "--json"])
    (row,) = [r for r in json.loads(found.stdout)["engines"] if r["alias"] == "test_naive"]
    assert row["source"] == str(naive())
    assert (row["api_version"], row["version"], row["default"]) == ("1.3.0", "0.1", False)


def test_probing_on_the_command_line(naive: Naive, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner
    from hipdnn_iree.provider.cli import engines
    from hipdnn_iree.provider.cli.app import app

    paths = naive(), naive("crash_on_create")
    monkeypatch.setenv("HIPDNN_IREE_PLUGINS", ":".join(map(str, paths)))
    found = json.loads(CliRunner().invoke(app, ["engines", "--probe", "--json"]).stdout)
    assert found.keys() == {"schema_version", "command", *engines.JSON}
    assert found["hipdnn"]["problems"][0]["rule"] == "BACKEND-01"
    fine, crashed = sorted(found["plugins"], key=lambda plugin: not plugin["usable"])
    assert (fine["path"], fine["usable"], fine["era"]) == (str(paths[0]), True, "node")
    assert [e["id_hex"] for e in fine["engines"]] == ["0xCA217B9C50C0B33A"]
    assert (crashed["usable"], crashed["problems"][0]["rule"]) == (False, "FOREIGN-04")
    text = CliRunner().invoke(app, ["engines", "--probe"]).stdout
    assert "2 plugin files" in text
    assert "naive loops 0.1, API 1.3.0: TEST_NAIVE_ENGINE" in text
    assert "hipdnnEnginePluginCreate: [FOREIGN-04] got the process was ended by SIGSEGV" in text


# ------------------------------------------------------------------ refusals


def test_declined_before_the_plugin_is_asked(naive: Naive) -> None:
    (engine,) = open_plugin(naive())
    (reason,) = engine.declines(unary(), Target.parse("gfx942"))
    assert (reason.problem.rule, reason.problem.wanted) == ("FOREIGN-08", "cpu")
    (old,) = open_plugin(naive("api_old"))
    g = Graph("scaled", io_data_type="float")
    scale = g.tensor(dims=(1, 1), name="scale")
    scale.runtime_scalar = True
    g.mul(g.tensor(dims=(3, 4), name="x"), scale).set_output()
    scalar = g.freeze()
    (reason,) = old.declines(scalar, CPU)
    assert (reason.problem.rule, reason.problem.wanted) == ("FOREIGN-09", "1.2.0")
    (reason,) = engine.declines(scalar, CPU)
    assert reason.problem.rule == "FOREIGN-10"
    g = Graph("overridable", io_data_type="float")
    g.relu(g.tensor(dims=(3, 4), name="x")).set_output()
    g.is_override_shape_enabled = True
    assert engine.declines(g.freeze(), CPU) == []
    (fixed,) = open_plugin(naive("fixed", "-DFIXED"))
    (reason,) = fixed.declines(g.freeze(), CPU)
    assert reason.problem.rule == "FOREIGN-09"
    assert "ExecuteOpGraphWithOverrides" in reason.problem.port
    (n25,) = open_plugin(naive("n25", "-DN25"))
    rules = {d.problem.rule for d in n25.declines(unary(data_type="int8"), CPU)}
    assert rules == {"WIRE-13"}


ANSWERS = {
    "applicable_fails": "INTERNAL_ERROR.*no mood for graphs",
    "null_error": "status 3 .INTERNAL_ERROR",
    "strange_id": "engine ids 0x4d",
    "too_many_ids": "99 engines of 1",
    "null_details": "0 bytes at 0x0",
    "garbage_details": "no EngineDetails",
    "other_details": "details of engine 0x1",
}


@pytest.mark.parametrize("way", ANSWERS)
def test_wrong_answers_are_reasons(way: str, naive: Naive) -> None:
    (engine,) = open_plugin(naive(way))
    (reason,) = engine.declines(unary(), CPU)
    assert reason.problem.rule == "FOREIGN-11"
    assert re.search(ANSWERS[way], str(reason)), str(reason)


def test_failures_of_plans(naive: Naive) -> None:
    for way, text in (("build_fails", "the loops are tangled"), ("null_context", "null context")):
        (engine,) = open_plugin(naive(way))
        assert engine.declines(unary(), CPU) == []
        with pytest.raises(CompileError, match=text):
            engine.build(unary(), CPU)
    (engine,) = open_plugin(naive("execute_fails"))
    with pytest.raises(DeviceError, match=r"INTERNAL_ERROR.*a loop did not end"):
        engine.build(unary(), CPU).run({"x": np.zeros((3, 4), np.float32)})
    (engine,) = open_plugin(naive("same_handle"))
    first = engine.build
    with pytest.raises(CompileError, match=r"which .* has given out"):
        # The handle for questions is the same one.
        first(unary(), CPU)
    (engine,) = open_plugin(naive())
    with pytest.raises(SettingError, match="no knob 'tiles'; it has: none for this graph"):
        engine.build(unary(), CPU, {"tiles": "3"})


ISOLATED = {
    "crash_on_applicable": ("graph", "GetApplicableEngineIds: .*SIGSEGV"),
    "hang_on_applicable": ("graph", "GetApplicableEngineIds: .*no answer within"),
    "huge_workspace": ("graph", "GetWorkspaceSize: .*18446744073709551615 bytes"),
    "exit_on_build": ("build", "CreateExecutionContext: .*status 3"),
    "crash_on_execute": ("run", "ExecuteOpGraph: .*SIGSEGV"),
    "hang_on_execute": ("run", "ExecuteOpGraph: .*no answer within"),
    "execute_fails": ("run", "a loop did not end"),
    "naive": ("run", ""),
}


@pytest.mark.parametrize("way", ISOLATED)
def test_trial_in_a_process_of_its_own(
    way: str, naive: Naive, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the setting asks for is done there first; the answer is remembered."""
    stage, text = ISOLATED[way]
    path = naive(way)
    monkeypatch.setenv("HIPDNN_IREE_FOREIGN_ISOLATE", stage)
    monkeypatch.setenv("HIPDNN_IREE_FOREIGN_TIMEOUT_S", "2" if "hang" in way else "30")
    (engine,) = open_plugin(path)
    found = "\n".join(map(str, engine.declines(chain(), CPU)))
    assert bool(found) == bool(text)
    assert re.search(text, found), found
    if "crash" in way:
        (again,) = open_plugin(path)
        monkeypatch.setattr("hipdnn_iree.provider.engines.foreign.probe._converse", None)
        assert "\n".join(map(str, again.declines(chain(), CPU))) == found


def test_override_shapes(naive: Naive) -> None:
    """One context runs all shapes; each plan of `with_shapes` has its own dims and strides."""
    (engine,) = open_plugin(naive())
    g = Graph("overridable", io_data_type="float")
    g.relu(g.tensor(dims=(3, 4), name="x")).set_output().set_name("y")
    g.is_override_shape_enabled = True
    plan = engine.build(g.freeze(), CPU)
    other = plan.with_shapes({"x": ((6, 5), (1, 6)), "y": ((6, 5), (5, 1))})
    assert getattr(other, "session", None) is getattr(plan, "session", 0)
    for each in (other, plan, other):
        (uid,) = each.graph.inputs
        inputs = operands(each.graph)
        (y,) = each.run(inputs).values()
        np.testing.assert_array_equal(y, np.maximum(inputs[uid], 0))


def test_plugin_that_is_replaced(fresh_naive: Naive) -> None:
    """An engine keeps the library that it has; the new file of that name needs a new process."""
    path = fresh_naive()
    (first,) = open_plugin(path)
    inputs = operands(unary())
    plan = first.build(unary(), CPU)
    fresh_naive("naive", "-DN25")
    (second,) = open_plugin(path)
    assert (first.id, second.id) == (-3881685492516736198, 4242)
    (reason,) = second.declines(unary(), CPU)
    assert (reason.problem.rule, reason.problem.hint) == ("FOREIGN-05", "start a new process")
    for one in (plan, first.build(unary(), CPU)):
        check(unary(), one.run(inputs), inputs)
    (third,) = open_plugin(fresh_naive("other"))
    fresh_naive("other", "-DN25")
    (reason,) = third.declines(unary(), CPU)
    assert (reason.problem.rule, reason.problem.got) == ("FOREIGN-05", "another plugin")
    (path.parent / "other.so").unlink()
    (reason,) = third.declines(product(), CPU)
    assert reason.problem.rule == "FOREIGN-02"


def test_threads_and_release(fresh_naive: Naive) -> None:
    """Plans run at the same time, each on its own handle; all of it is given back."""
    from hipdnn_iree.provider.engines.foreign import plugin_calls as calls

    path = fresh_naive()
    (engine,) = open_plugin(path)
    graph = chain()
    inputs = operands(graph)

    def handles() -> int:
        return list(calls._live.values()).count(path)

    plans = [engine.build(graph, CPU) for _ in range(3)]
    assert handles() == 4  # one for questions
    failures: list[BaseException] = []

    def work(plan: Any) -> None:
        try:
            for _ in range(5):
                check(graph, plan.run(inputs), inputs)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(p,)) for p in (*plans, *plans)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    bound = plans[0].bind({**inputs, **plans[0].run(inputs)})
    del plans, threads
    gc.collect()
    assert handles() == 2  # one plan is still bound
    bound()
    del bound
    gc.collect()
    assert handles() == 1


def test_knobs_of_plugins() -> None:
    """Each kind and range, as choices and as what is taken."""
    from hipdnn_iree.graph_api.formats.flatbuffer.engine_messages import Knob, Range
    from hipdnn_iree.provider.engines.foreign.foreign_knobs import as_engine_knobs, values

    knobs = [
        Knob(id="p.tile", default=16, range=Range(values=(16, 32))),
        Knob(id="p.steps", default=4, range=Range(low=0, high=1000, step=4)),
        Knob(id="p.share", default=0.5, range=Range(low=0.0, high=1.0)),
        Knob(id="p.mode", default="a", range=Range(values=("a", "b"), max_length=1)),
        Knob(id="p.path", default="", range=Range(max_length=3)),
        Knob(id="global.deterministic", default=1, range=Range(low=0, high=1)),
        Knob(id="p.old", default=1, deprecated=True),
    ]
    found = {k.name: k for k in as_engine_knobs(knobs)}
    assert "p.old" not in found
    assert [(k.choices, k.tried, k.open) for k in found.values()] == [
        (("16", "32"), ("16", "32"), False),
        (("4", "0", "1000"), ("4",), True),
        (("0.5", "0.0", "1.0"), ("0.5",), True),
        (("a", "b"), ("a", "b"), False),
        (("",), ("",), True),
        (("1", "0"), ("1",), False),
    ]
    given = {"p.tile": "0x20", "p.steps": "8", "p.share": "0.25", "p.path": "xyz", "p.old": "7"}
    assert values("E", knobs, given) == {
        **{"p.tile": 32, "p.steps": 8, "p.share": 0.25},
        **{"p.path": "xyz", "p.old": 7},
    }
    bad = {"p.tile": "17", "p.steps": "9", "p.share": "nan", "p.mode": "c", "p.path": "long"}
    with pytest.raises(SettingError) as caught:
        values("E", knobs, {**bad, "p.none": "1"})
    lines = str(caught.value).splitlines()
    assert len(lines) == 6
    assert "allowed: 16 | 32" in lines[0]
    assert "an integer from 0 to 1000 in steps of 4" in lines[1]
    assert "a text of at most 3 bytes" in lines[4]


# ------------------------------------------------------------------ GPUs


class FakeHip:
    """HIP with one device whose memory is host memory, as hip-python gives it."""

    hipMemcpyKind = SimpleNamespace(hipMemcpyHostToDevice=1, hipMemcpyDeviceToHost=2)  # noqa: N815

    def __init__(self) -> None:
        self.memory: dict[int, Any] = {}
        self.log: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> tuple[Any, ...]:
            self.log.append(name)
            return (0, *self._answer(name, *arguments))

        return call

    def _answer(self, name: str, *arguments: Any) -> tuple[Any, ...]:
        if name == "hipGetDeviceCount":
            return (1,)
        if name == "hipGetDevice":
            return (0,)
        if name == "hipGetDeviceProperties":
            return (SimpleNamespace(gcnArchName=b"gfx942:sramecc+:xnack-"),)
        if name == "hipMalloc":
            memory = ctypes.create_string_buffer(arguments[0] + 256)
            start = ctypes.addressof(memory)
            start += -start % 256
            self.memory[start] = memory
            return (start,)
        if name == "hipFree":
            del self.memory[arguments[0]]
        if name == "hipMemcpy":
            ctypes.memmove(*arguments[:3])
        return (0x1000,) if name == "hipStreamCreate" else ()


def test_device_memory(naive: Naive, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Device pointers, a stream, copies to and from host arrays; HIP is a stand-in here."""
    hip = FakeHip()
    (tmp_path / "kfd").touch()
    monkeypatch.setattr(places, "KERNEL_DRIVER", str(tmp_path / "kfd"))
    monkeypatch.setitem(sys.modules, "hip", SimpleNamespace(hip=hip))
    places._gpu.cache_clear()
    (engine,) = open_plugin(naive())
    assert engine.targets() == ("gfx942:sramecc+:xnack-",)
    graph = chain()
    assert [d.problem.rule for d in engine.declines(graph, CPU)] == ["FOREIGN-08"]
    target = Target.parse("mi300x")
    assert engine.declines(graph, target) == []
    plan = engine.build(graph, target)
    inputs = operands(graph)
    check(graph, plan.run(inputs), inputs)
    assert hip.log.count("hipStreamSynchronize") == 1
    # By address, without a copy.
    uids = (*graph.inputs, *graph.outputs)
    addresses = {u: hip.hipMalloc(4 * int(np.prod(graph.tensors[u].dims)))[1] for u in uids}
    for uid in graph.inputs:
        spec = graph.tensors[uid]
        view = np.ndarray(
            spec.dims, np.float32, hip.memory[addresses[uid]], addresses[uid] % 256, None
        )
        del view
        from hipdnn_iree.jit.runtime.arrays import pack
        from hipdnn_iree.provider.engines.host_memory import arguments_of

        data = pack(arguments_of(graph)[uid], inputs[uid])
        raw = data.ravel(order="K").tobytes()
        ctypes.memmove(addresses[uid], raw, len(raw))
    copied = hip.log.count("hipMemcpy")
    plan.execute(addresses)
    assert hip.log.count("hipMemcpy") == copied
    results = {}
    for uid in graph.outputs:
        spec = graph.tensors[uid]
        raw = ctypes.string_at(addresses[uid], 4 * spec.layout.span)
        strides = tuple(4 * s for s in spec.strides)
        results[uid] = np.ndarray(spec.dims, np.float32, raw, strides=strides)
    check(graph, results, inputs)
    with pytest.raises(BindError, match="BIND-12"):
        plan.execute({**inputs, **{u: addresses[u] for u in graph.outputs}})
    own = set(addresses.values())
    del plan
    gc.collect()
    assert hip.memory.keys() == own  # everything else was freed
    assert hip.log.count("hipStreamDestroy") == 1
    places._gpu.cache_clear()


def test_gpu_that_cannot_be_used_is_no_host(naive: Naive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPDNN_IREE_FOREIGN_DEVICE", "hip")
    (engine,) = open_plugin(naive())
    monkeypatch.setitem(sys.modules, "hip", None)
    assert engine.targets() == ()
    (reason,) = engine.declines(unary(), CPU)
    assert reason.problem.rule == "FOREIGN-08"
    assert "HIP cannot be used" in reason.problem.got


# ------------------------------------------------------------------ our own plugin

OURS = """
import json, sys
import numpy as np
from hipdnn_iree import Target
from hipdnn_iree.provider.engines.iree.iree_engine import IreeEngine
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.provider.engines.foreign.discovery import open_plugin
from hipdnn_iree.provider.graph_files import load
from hipdnn_iree.provider.reference.inputs import random_inputs

now, cpu = settings(), Target.parse("cpu")
(theirs,), ours = open_plugin(sys.argv[1], now), IreeEngine(now)
assert (theirs.NAME, theirs.id) == (ours.NAME, ours.id)
served = declined = 0
for path in sys.argv[2:]:
    graph = load(path).freeze()
    reasons, own = theirs.declines(graph, cpu), ours.declines(graph, cpu)
    if own:
        (reason,) = reasons
        assert reason.problem.rule == "FOREIGN-10", reason
        for each in own:
            assert str(each.problem) in reason.problem.hint, (each, reason)
        declined += 1
        continue
    assert not reasons, reasons
    inputs = random_inputs(graph, 1)
    one, other = theirs.build(graph, cpu), ours.build(graph, cpu)
    assert one.engine_id == other.engine_id
    first, second = one.run(inputs, copy=True), other.run(inputs, copy=True)
    assert first.keys() == second.keys()
    for uid in first:
        assert first[uid].dtype == second[uid].dtype
        assert first[uid].tobytes() == second[uid].tobytes(), (path, uid)
    served += 1
names = [k.name for k in theirs.knobs(graph, cpu)]
one = theirs.build(graph, cpu, {"hipdnn_iree.compiler.opt_level": "O1"})
assert one.knobs == {"hipdnn_iree.compiler.opt_level": "O1"}
assert one.run(inputs, copy=True)[uid].shape == first[uid].shape
try:
    theirs.build(graph, cpu, {"hipdnn_iree.compiler.opt_level": "O9"})
except ValueError as error:
    refused = str(error)
wide = one.with_shapes({}) is one
print(json.dumps({"served": served, "declined": declined, "knobs": names, "refused": refused}))
"""


def test_our_own_plugin_is_the_engine_in_process(library: Path, tmp_path: Path) -> None:
    """Same reasons, same bits; in a process of its own, as the plugin shares its Python."""
    data = Path(__file__).parents[1] / "data" / "opgraphs"
    names = ("fused_conv_bias_relu_f32_nchw", "bn_inference_f16_f32stats_nchw")
    paths = [data / f"{name}.bin" for name in names]
    g = Graph("ragged", io_data_type="float")
    x = g.tensor(dims=(4, 4), name="x")
    x.ragged_offset_uid = g.tensor(dims=(5,), data_type="int32", name="rows").uid
    g.relu(x).set_output()
    g.save(tmp_path / "ragged.json")
    g = Graph("scaled", io_data_type="half", compute_data_type="float")
    scale = g.tensor(dims=(1, 1), name="scale")
    scale.runtime_scalar = True
    g.mul(g.tensor(dims=(5, 7), name="x"), scale).set_output()
    g.save(tmp_path / "scaled.json")
    own = [tmp_path / "ragged.json", tmp_path / "scaled.json"]
    paths = [*own, *paths, data / "pw_relu_all.bin"]
    done = subprocess.run(
        [sys.executable, "-c", OURS, str(library), *map(str, paths)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["served"], found["declined"]) == (4, 1)
    assert "global.deterministic" in found["knobs"]
    assert "allowed: O0 | O1 | O2 | O3" in found["refused"]
