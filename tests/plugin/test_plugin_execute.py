# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Recorded operation graphs run through the library by a host in C, against the reference."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

from tools.host.driver import ERAS, write_shapes

GRAPHS = Path(__file__).parents[1] / "data" / "opgraphs"
NAMES = sorted(path.stem for path in GRAPHS.glob("*.bin"))
SIMPLE = "pw_relu_all"
FUSED = "fused_conv_bias_relu_f32_nchw"


def data(name: str) -> bytes:
    return (GRAPHS / f"{name}.bin").read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_recorded_graph(name: str, host: Any, make_job: Any) -> None:
    """In the order of the backend's calls; the buffers start at addresses that IREE cannot use."""
    job = make_job(data(name), skew=16 if len(name) % 2 else 0)
    host.run("run", *job.arguments, 0, era=ERAS[len(name) % 3])
    job.verify()


def test_four_threads_with_a_handle_each(host: Any, make_job: Any) -> None:
    job = make_job(data(FUSED))
    host.run("threads", *job.arguments, 2000, 4)


def test_plan_as_bytes(host: Any, make_job: Any, tmp_path: Path) -> None:
    """Saved, damaged in 300 ways, loaded in the same process and in one without a compiler."""
    job = make_job(data(FUSED))
    facts = host.run("serialized", *job.arguments, tmp_path / "plan")
    assert facts["refused"] == "300"
    job.verify()
    for file in job.outputs.values():
        file.unlink()
    nothing = {
        "HIPDNN_IREE_CACHE_DIR": str(tmp_path / "empty"),
        "HIPDNN_IREE_PYTHON": "",
        "PATH": "/nowhere",
    }
    assert host.run("restore", tmp_path / "plan", job.arguments[2], env=nothing)["status"] == "0"
    job.verify()
    assert not list(tmp_path.glob("empty/*/*.json")), "a plan was compiled"


def test_plan_for_another_device_is_not_applicable(
    host: Any, make_job: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hipdnn_iree.hipdnn_plugin import messages, payload, serving
    from hipdnn_iree.jit.settings import settings
    from hipdnn_iree.jit.target import Target
    from hipdnn_iree.provider.artifacts import save

    job = make_job(data(SIMPLE))
    config = messages.read_config(job.arguments[1].read_bytes(), settings())
    plan = serving.build(config, data(SIMPLE), Target.parse("gfx942"))
    (tmp_path / "gpu").write_bytes(payload.save(plan))
    facts = host.run("restore", tmp_path / "gpu", job.arguments[2])
    assert facts["status"] == "5"
    assert "the serialized context has no plan for cpu; it has: gfx942" in facts["error"]
    monkeypatch.setattr(save, "made_with", lambda: {"iree-base-runtime": "1.2.3"})
    plan = serving.build(config, data(SIMPLE), Target.parse("cpu"))
    (tmp_path / "old").write_bytes(payload.save(plan))
    facts = host.run("restore", tmp_path / "old", job.arguments[2])
    assert (facts["status"], "IREE 1.2.3" in facts["error"]) == ("5", True)


def test_compiler_crash_is_an_error_and_the_next_graph_works(
    host: Any, make_job: Any, tmp_path: Path
) -> None:
    """The compiler's process is killed again and again while it works."""
    job = make_job(data(FUSED))
    facts = host.run("crash", *job.arguments, env={"HIPDNN_IREE_CACHE_DIR": str(tmp_path / "new")})
    assert facts["recovered"] == "yes"
    assert "stage: crash" in facts["error"]
    job.verify()


SAMPLES = ("layernorm", "matmul", "rmsnorm", "sdpa")


@pytest.mark.parametrize("op", SAMPLES)
def test_graph_of_the_newest_form(op: str, host: Any, make_job: Any) -> None:
    """Ops that the recorded graphs do not have, as the newest hipDNN writes them."""
    from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode
    from hipdnn_iree.provider.sweep.samples import sample_problems

    sample = sample_problems(op)[0]
    job = make_job(encode(sample.graph(sample.dtypes[0]).freeze()))
    host.run("run", *job.arguments, 0)
    job.verify()


@pytest.mark.parametrize("skew", [0, 16])
def test_outputs_with_gaps(skew: int, host: Any, make_job: Any) -> None:
    """Channels of an NHWC image with wider rows; hosts align to 16 bytes, IREE wants 64."""
    from hipdnn_iree import Graph
    from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode

    g = Graph(io_data_type="half", compute_data_type="float")
    y = g.relu(g.tensor(dims=(2, 4, 6, 6), name="x"))
    for result in (y, g.exp(y)):
        result.set_output().set_stride((336, 1, 56, 8))
    job = make_job(encode(g.freeze()), skew=skew)
    host.run("run", *job.arguments, 0)
    job.verify()  # which also looks at what lies between the elements


def test_sets_of_misaligned_pointers_share_staging_copies(caplog: Any) -> None:
    """hipDNN's hosts align to 16 bytes; a rotation of pointers must not multiply the memory."""
    import numpy as np
    from hipdnn_iree import Graph
    from hipdnn_iree.hipdnn_plugin.execution import Execution
    from hipdnn_iree.provider.plugin_abi import DeviceBuffer

    g = Graph(io_data_type="float")
    x = g.tensor(dims=(100_000,), uid=1)
    g.relu(x).set_output().set_uid(2)
    plan: Any = g.build("cpu")
    execution = Execution(plan, 0)
    memory = np.empty((2, 101_000), np.float32)
    caplog.set_level("INFO", "hipdnn_iree.plugin")
    for turn in range(80):
        given = memory[0, 4 * turn + 1 :][:100_000]
        given[:] = turn - 3.5
        pairs = (DeviceBuffer * 2)()
        for i, row in enumerate(memory):
            pairs[i].uid, pairs[i].ptr = i + 1, row.ctypes.data + 16 * turn + 4
        execution(None, ctypes.addressof(pairs), 2)
        assert (memory[1, 4 * turn + 1 :][:100_000] == max(turn - 3.5, 0)).all()
    assert plan.executable.staging_bytes == -(-2 * 400_000 // 4096) * 4096
    assert caplog.text.count("copied at each call") == 1


def overridable() -> Any:
    from hipdnn_iree import Graph

    g = Graph("overridable", io_data_type="float")
    a = g.tensor(dims=(2, 3, 4), name="a", uid=1)
    b = g.tensor(dims=(2, 4, 5), name="b", uid=2)
    g.relu(g.matmul(a, b)).set_output().set_uid(3)
    g.is_override_shape_enabled = True
    return g.freeze()


def test_override_shapes(host: Any, make_job: Any, tmp_path: Path) -> None:
    """Larger and smaller ones than those of the graph, run and run again, also when loaded."""
    from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode
    from hipdnn_iree.graph_api.specialise import specialise

    base = overridable()
    shapes = {1: ((3, 7, 6), (42, 6, 1)), 2: ((3, 6, 2), (12, 1, 6)), 3: ((3, 7, 2), (14, 2, 1))}
    job = make_job(encode(base), graph=specialise(base, shapes))
    write_shapes(tmp_path / "shapes", shapes)
    facts = host.run("overrides", *job.arguments, tmp_path / "shapes")
    assert facts["overridden"] == "yes"
    job.verify()


def test_scalars_read_at_execution(host: Any, make_job: Any) -> None:
    from hipdnn_iree import Graph
    from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode

    g = Graph("scaled", io_data_type="half", compute_data_type="float")
    x = g.tensor(dims=(5, 7), name="x", uid=10)
    scale = g.tensor(dims=(1, 1), name="scale", uid=20)
    scale.runtime_scalar = True
    g.mul(x, scale).set_output().set_uid(30)
    job = make_job(encode(g.freeze()))
    host.run("run", *job.arguments, 100)
    job.verify()


def test_cached_graph_in_a_fresh_process(host: Any, make_job: Any, tmp_path: Path) -> None:
    """Nothing is compiled, and neither compiler nor torch-mlir is loaded; the time that this
    takes is what ``benchmarks/plugin.py`` measures."""
    job = make_job(data(FUSED))
    cache = {"HIPDNN_IREE_CACHE_DIR": str(tmp_path / "cache")}
    host.run("run", *job.arguments, 0, env=cache)
    job.verify()
    entries = {path: path.stat().st_mtime_ns for path in tmp_path.glob("cache/v2/??/*")}
    assert entries
    # A second compilation could not find its Python.
    nothing = {**cache, "HIPDNN_IREE_PYTHON": "", "PATH": "/nowhere"}
    facts = host.run("run", *job.arguments, 0, env=nothing)
    job.verify()
    assert facts["compiler_mapped"] == "0"
    assert {p: p.stat().st_mtime_ns for p in tmp_path.glob("cache/v2/??/*")} == entries


def test_calls_take_no_memory(host: Any, make_job: Any) -> None:
    job = make_job(data(SIMPLE))
    facts = host.run("run", *job.arguments, 20_000)
    assert int(facts["growth_kib"]) < 512, facts
