# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a careless host does: statuses and texts of the plugin's calls, without the C library."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hipdnn_iree.graph_api.errors import ArtifactError
from hipdnn_iree.graph_api.formats.flatbuffer.engine_messages import EngineConfig, encode_config
from hipdnn_iree.hipdnn_plugin import doctor, messages, payload, serving
from hipdnn_iree.hipdnn_plugin.abi import PluginError, read_bytes, status_of
from hipdnn_iree.hipdnn_plugin.execution import Execution
from hipdnn_iree.hipdnn_plugin.library import NAME
from hipdnn_iree.hipdnn_plugin.overrides import read_shapes
from hipdnn_iree.hipdnn_plugin.plugin import Plugin
from hipdnn_iree.jit.container import Container, pack
from hipdnn_iree.jit.runtime.arrays import empty
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.engines.host_memory import arguments_of
from hipdnn_iree.provider.engines.iree.iree_plan import IreePlan
from hipdnn_iree.provider.plugin_abi import DeviceBuffer, Status
from plugin_host import Const, new

GRAPHS = Path(__file__).parents[1] / "data" / "opgraphs"
SIMPLE = (GRAPHS / "pw_relu_all.bin").read_bytes()
CONFIG = encode_config(EngineConfig(engine_id=serving.ENGINE_ID))


def status(call: Callable[..., None], *arguments: Any) -> Status:
    """Return what the host gets for a call."""
    try:
        call(*arguments)
    except BaseException as error:
        return status_of(error)
    return Status.SUCCESS


@pytest.fixture
def plugin() -> Plugin:
    return Plugin()


class Raced(dict[int, Any]):
    """A table from which another thread removes what this one has just looked up."""

    def get(self, key: int, default: Any = None) -> Any:
        return super().pop(key, default)


def test_destroyed_by_two_threads_at_once(plugin: Plugin) -> None:
    """One of them does it and the other is told so; it is no internal error."""
    graph, config = Const(SIMPLE), Const(CONFIG)
    handle = new(plugin.create)
    context = new(plugin.create_execution_context, handle, config.address, graph.address)
    plugin._contexts = Raced(plugin._contexts)
    assert status(plugin.destroy_execution_context, handle, context) is Status.SUCCESS
    assert status(plugin.destroy_execution_context, handle, context) is Status.BAD_PARAM
    plugin._handles = Raced(plugin._handles)
    assert status(plugin.destroy, handle) is Status.SUCCESS
    assert status(plugin.destroy, handle) is Status.BAD_PARAM


def test_context_whose_handle_is_destroyed_while_it_is_built(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not outlive the handle, which would have been the one to free it."""
    graph, config = Const(SIMPLE), Const(CONFIG)
    handle = new(plugin.create)
    build = serving.build

    def slow(*arguments: Any) -> Any:
        plugin.destroy(handle)
        return build(*arguments)

    monkeypatch.setattr(serving, "build", slow)
    out = ctypes.c_void_p(1)
    call = plugin.create_execution_context
    got = status(call, handle, config.address, graph.address, ctypes.addressof(out))
    assert got is Status.BAD_PARAM
    assert out.value is None
    assert not plugin._contexts


def test_sizes_that_no_buffer_has(plugin: Plugin) -> None:
    """They used to be cut to 32 bits on the way to ctypes."""
    for size in (0, 2**31, 2**32 + 8, 2**40, 2**63, 2**64 - 1):
        given = Const(SIMPLE, size)
        with pytest.raises(PluginError, match="wanted") as caught:
            read_bytes(given.address)
        assert caught.value.status is Status.BAD_PARAM
        assert str(size) in str(caught.value)
    graph, config = Const(SIMPLE), Const(CONFIG)
    handle = new(plugin.create)
    context = new(plugin.create_execution_context, handle, config.address, graph.address)
    some = ctypes.create_string_buffer(64)
    array = ctypes.addressof(some)
    for count in (2**20 + 1, 2**27, 2**28, 2**32 - 1):
        with pytest.raises(PluginError, match=f"{count} buffers") as caught:
            plugin.execute_op_graph(handle, context, None, array, count)
        assert caught.value.status is Status.BAD_PARAM
        with pytest.raises(PluginError, match=f"{count} overrides") as caught:
            read_shapes(count, array, array, array, array)
        assert caught.value.status is Status.BAD_PARAM


def test_override_of_one_tensor_twice() -> None:
    uids, ranks = (ctypes.c_int64 * 3)(7, 8, 7), (ctypes.c_uint32 * 3)(1, 1, 1)
    row = (ctypes.c_int64 * 1)(4)
    rows = (ctypes.c_void_p * 3)(*[ctypes.addressof(row)] * 3)
    places = [ctypes.addressof(array) for array in (uids, ranks, rows, rows)]
    with pytest.raises(PluginError, match="uid 7 has two overrides") as caught:
        read_shapes(3, *places)
    assert caught.value.status is Status.BAD_PARAM


def test_a_wrong_setting_leaves_graphs_to_other_engines(
    plugin: Plugin, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """hipDNN of November 2025 gives up all engines for an error of one here."""
    graph, config = Const(SIMPLE), Const(CONFIG)
    handle, count = new(plugin.create), ctypes.c_uint32(9)
    monkeypatch.setenv("HIPDNN_IREE_OPT_LEVEL", "O9")
    with caplog.at_level(logging.ERROR, "hipdnn_iree.plugin"):
        where = ctypes.addressof(count)
        plugin.get_applicable_engine_ids(handle, graph.address, None, 0, where)
    assert count.value == 0
    assert "HIPDNN_IREE_OPT_LEVEL" in caplog.text
    out = ctypes.c_void_p()
    where = ctypes.addressof(out)
    call = plugin.create_execution_context
    assert status(call, handle, config.address, graph.address, where) is Status.INVALID_VALUE


def test_buffers_of_other_tensors_are_ignored() -> None:
    """Even if they are null."""
    plan = simple_plan()
    memory = {uid: empty(spec) for uid, spec in arguments_of(plan.graph).items()}
    for array in memory.values():
        array[...] = 9
    pairs = [(uid, array.ctypes.data) for uid, array in memory.items()]
    buffers = (DeviceBuffer * 4)(*(DeviceBuffer(*pair) for pair in [*pairs, (987654, None)]))
    run = Execution(plan, 0)
    for count in (len(pairs) + 1, len(pairs)):
        memory[plan.graph.outputs[0]][...] = 7
        run(None, ctypes.addressof(buffers), count)
        assert (memory[plan.graph.outputs[0]] == 2).all()  # its upper limit


def simple_plan() -> IreePlan:
    config = messages.read_config(CONFIG, settings())
    return serving.build(config, SIMPLE, Target.parse("cpu"))


def opened() -> tuple[Any, dict[str, bytes]]:
    """Return the manifest and the parts of a plan as bytes."""
    container = Container(payload.save(simple_plan()))
    manifest = container.body
    del manifest["parts"]
    return manifest, {name: container.part(name) for name in container.names}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("plans", 0, "code"), 5),
        (("plans", 0, "code"), None),
        (("plans", 0, "engine_id"), 5),
        (("plans", 0, "target"), 5),
        (("plans", 0, "signature", "args"), []),
        (("plans", 0, "signature", "args", 0, "dims"), ""),
        (("plans", 0, "signature", "args", 0, "dims"), [2**70]),
        (("plans", 0, "signature", "args", 0, "output"), "yes"),
        (("plans", 0, "workspace_bytes"), -1),
        (("plans", 0, "workspace_bytes"), 2**70),
        (("plans",), 5),
        (("graph",), 5),
        (("graph", "digest"), "0" * 64),
        (("format",), "another"),
        (("version",), 99),
    ],
)
def test_plan_whose_manifest_is_wrong(
    plugin: Plugin, path: tuple[str | int, ...], value: object
) -> None:
    """The checksum is right: somebody else has written it."""
    manifest, parts = opened()
    slot = manifest
    for key in path[:-1]:
        slot = slot[key]
    slot[path[-1]] = value
    refused(plugin, pack(manifest, parts))


def test_plan_whose_parts_are_wrong(plugin: Plugin) -> None:
    """Another graph, other code, a part less: each with checksums that fit."""
    manifest, parts = opened()
    for name in parts:
        refused(plugin, pack(manifest, {**parts, name: b"{}"}))
        refused(plugin, pack(manifest, {n: data for n, data in parts.items() if n != name}))
    refused(plugin, b"no archive")


def test_plan_whose_manifest_is_no_json(plugin: Plugin) -> None:
    _, parts = opened()
    for text in (b"{", b"\xff", b"[" * 100_000, b"[]", b"5"):
        sealed = b'{"seal": "%s",\n' % sha256(text).hexdigest().encode() + text
        with patch("hipdnn_iree.jit.container.seal", lambda _, sealed=sealed: sealed):
            refused(plugin, pack({}, parts))


def refused(plugin: Plugin, data: bytes) -> None:
    handle, bytes_, out = new(plugin.create), Const(data), ctypes.c_void_p(1)
    with pytest.raises(ArtifactError):
        plugin.create_execution_context_from_serialized(
            handle, bytes_.address, ctypes.addressof(out)
        )
    assert out.value is None


@pytest.mark.parametrize(
    ("program", "cause", "text"),
    [
        ("echo no record", "DEPLOY-22", ""),
        ("true", "DEPLOY-22", ""),
        ("printf 'engine 1\\0serves maybe\\0'", "DEPLOY-22", ""),
        ("echo gone >&2; exit 3", "DEPLOY-03", "status 3: gone"),
        ("kill -9 $$", "DEPLOY-03", "status -9"),
    ],
)
def test_doctor_of_a_plugin_that_answers_nonsense(
    tmp_path: Path, program: str, cause: str, text: str
) -> None:
    """As one does whose static destructors print, or that ends the process."""
    host = tmp_path / "host"
    host.write_text(f"#!/bin/sh\n{program}\n")
    host.chmod(0o700)
    library = tmp_path / NAME
    library.touch(0o600)  # One that others may write is not loaded.
    (found,) = doctor._started("file", library, doctor._ask(host, host, library))
    assert (found.state, found.cause) == ("problem", cause)
    assert text in found.text
