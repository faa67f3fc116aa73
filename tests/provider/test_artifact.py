# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Artifacts: what is saved is what is loaded, and whatever is damaged is a clear error."""

from __future__ import annotations

import json
import os
import random
import struct
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hipdnn_iree import Graph, load, load_artifact, save_artifact
from hipdnn_iree.graph_api.errors import (
    ArtifactError,
    DeviceError,
    FormatError,
    HipdnnIreeError,
    NotSupportedError,
)
from hipdnn_iree.jit.container import pack
from hipdnn_iree.jit.runtime import cpu
from hipdnn_iree.jit.sealed import seal, unseal
from hipdnn_iree.provider.artifacts import artifact as module
from hipdnn_iree.provider.artifacts import save
from hipdnn_iree.provider.artifacts.artifact import Artifact
from hipdnn_iree.provider.bucket_plan import BucketPlan
from hipdnn_iree.provider.engine_ids import engine_id

ROOT = Path(__file__).resolve().parents[2]
Y = 3  # the uid that the output gets
X = np.linspace(-2, 2, 24, dtype=np.float32).reshape(4, 6)


def graph(name: str = "double relu") -> Graph:
    made = Graph(name, io_data_type="float")
    x = made.tensor(dims=(4, 6), name="x", uid=11)
    made.output(made.relu(made.mul(x, 2.0)), name="y")
    return made


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of an artifact for two CPUs and a GPU."""
    made = graph()
    plans = [made.build(t) for t in ("cpu", "cpu:x86-64-v3", "gfx942")]
    plans.append(made.build("cpu", knobs={"driver": "local-task"}))
    path = tmp_path_factory.mktemp("artifacts") / "a.hipdnn-iree"
    save_artifact(path, plans)
    return path.read_bytes()


def opened(data: bytes) -> Artifact:
    return Artifact(data, "a.hipdnn-iree")


def changed(whole: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    """Return the artifact with another manifest, all checksums right."""
    with zipfile.ZipFile(BytesIO(whole)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    body = unseal(parts.pop("manifest.json"))
    change(body)
    return framed(body, parts)


def framed(body: dict[str, Any], parts: dict[str, bytes]) -> bytes:
    """Return the file that `pack` writes, with the list of parts that is in the body."""
    with patch("hipdnn_iree.jit.container.seal", lambda _: seal(body)):
        return pack(body, parts)


# --- what is saved is what is loaded -----------------------------------------------------------


def test_what_is_saved_is_what_is_loaded(whole: bytes) -> None:
    found = opened(whole)
    found.verify()
    assert found.targets == ("cpu", "cpu:x86-64-v3", "gfx942")
    assert [dict(p.knobs) for p in found.plans] == [{}, {}, {}, {"driver": "local-task"}]
    assert found.plans[0].engine_id == engine_id("IREE_JIT_ENGINE")
    assert found.frozen == graph().freeze()
    assert found.graph.freeze().inputs == (11,)
    plan = found.plan()
    assert (plan.cache, plan.engine, str(plan.target)) == ("artifact", "IREE_JIT_ENGINE", "cpu")
    assert plan.statistics == graph().build("cpu").statistics
    np.testing.assert_array_equal(plan.run({"x": X})[Y], np.maximum(2 * X, 0))
    assert plan.driver == "local-sync"
    assert found.plan("cpu", knobs={"driver": "local-task"}).driver == "local-task"
    assert found.plan("cpu", engine="iree").knobs == {}


def test_it_is_a_plain_zip_archive(whole: bytes) -> None:
    with zipfile.ZipFile(BytesIO(whole)) as archive:
        assert archive.testzip() is None
        infos = {info.filename: info for info in archive.infolist()}
        # The driver is no matter of compiling: its plan has the code of the first one.
        assert list(infos) == [
            *("manifest.json", "graph.json"),
            *("code/0.vmfb", "code/1.vmfb", "code/2.vmfb"),
        ]
        for name, info in infos.items():
            assert info.compress_type == zipfile.ZIP_STORED
            at = whole.index(archive.read(name))
            assert at % 64 == 0, name
        manifest = json.loads(archive.read("manifest.json"))
    assert (manifest["format"], manifest["version"]) == ("hipdnn-iree artifact", 2)
    assert manifest["made_by"]["iree-base-compiler"]
    assert manifest["plans"][0]["key"]["ingredients"]["target"] == "cpu"


def test_the_same_plans_give_the_same_bytes(whole: bytes, tmp_path: Path) -> None:
    plan = graph().build("cpu")
    one, two = (save_artifact(tmp_path / n, plan) for n in ("one", "two"))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert one.plans == two.plans
    assert sorted(os.listdir(tmp_path)) == ["one", "two"]
    save_artifact(tmp_path / "one", graph().build("gfx942"))  # one that is there is replaced
    assert load_artifact(tmp_path / "one").targets == ("gfx942",)


def test_a_graph_file_of_a_third_kind(whole: bytes, tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "a.hipdnn-iree"
    path.write_bytes(whole)
    assert load(path).freeze() == graph().freeze()
    (tmp_path / "b").write_bytes(b"PK\3\4 and then something else")
    with pytest.raises(ArtifactError, match="no sound artifact"):
        load(tmp_path / "b")
    with pytest.raises(OSError, match="No such file"):
        load_artifact(tmp_path / "c")


def test_settings_that_reinterpret_graph_files_do_not_touch_it(tmp_path: Path, monkeypatch) -> None:
    made = Graph("backward", io_data_type="float")
    dy, x = (made.tensor(dims=(2, 3), name=n) for n in ("dy", "x"))
    made.relu_backward(dy, x).set_output()
    save_artifact(tmp_path / "a", made.build("cpu"))
    monkeypatch.setenv("HIPDNN_IREE_BACKWARD_OPERANDS", "x_dy")
    assert load_artifact(tmp_path / "a").frozen == made.freeze()


def test_an_infinite_scalar_and_dynamic_dims(tmp_path: Path) -> None:
    made = Graph("limit", io_data_type="float")
    y = made.max(made.tensor(dims=(4, 6), name="x"), float("-inf")).set_output()
    save_artifact(tmp_path / "a", made.build("cpu"))
    found = load_artifact(tmp_path / "a")
    assert found.manifest.graph_part == "graph.bin"  # JSON has no infinity
    np.testing.assert_array_equal(found.plan().run({"x": X})[y.uid], X)

    made = Graph("rows", io_data_type="float")
    n = made.dynamic("n", range=(1, 100), example=4)
    y = made.relu(made.tensor(dims=(n, 6), name="x")).set_output()
    save_artifact(tmp_path / "b", made.build("cpu"))
    plan = load_artifact(tmp_path / "b").plan()
    for rows in (1, 4):
        np.testing.assert_array_equal(plan.run({"x": X[:rows]})[y.uid], np.maximum(X[:rows], 0))


def test_buckets(tmp_path: Path) -> None:
    made = Graph("rows", io_data_type="float")
    n = made.dynamic("n", range=(1, 100), example=5)
    y = made.relu(made.tensor(dims=(n, 6), name="x")).set_output()
    save_artifact(tmp_path / "a", made.build("cpu", buckets=(2, 4)))
    found = load_artifact(tmp_path / "a")
    found.verify()
    assert [dict(p.bucket) for p in found.plans] == [{"n": 2}, {"n": 4}]
    plan = found.plan()
    for rows in (1, 4, 3):
        np.testing.assert_array_equal(plan.run({"x": X[:rows]})[y.uid], np.maximum(X[:rows], 0))
    assert isinstance(plan, BucketPlan)
    assert [(use.bucket["n"], use.cache) for use in plan.used()] == [
        (2, "artifact"),
        (4, "artifact"),
    ]
    with pytest.raises(NotSupportedError, match=r"it has: cpu at n = 2 by \S+; cpu at n = 4 by"):
        found.plan("gfx942")
    whole = (tmp_path / "a").read_bytes()
    for change, says in (
        (lambda m: m["plans"].append(m["plans"][0]), "has it twice"),
        (lambda m: m["plans"][1]["bucket"].update(n=3), "other arguments"),
        (lambda m: m["plans"][1]["bucket"].update(n=1000), "its buckets are refused"),
        (lambda m: m["plans"][1]["bucket"].update(m=3), "its buckets are refused"),
        (lambda m: m["plans"][1].update(bucket={}), "other arguments"),
        (lambda m: m["plans"][1].update(bucket={"n": "4"}), "not understood"),
    ):
        with pytest.raises(ArtifactError, match=says):
            opened(changed(whole, change)).verify()


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(NotSupportedError, match="at least one plan"):
        save_artifact(tmp_path / "a", [])
    with pytest.raises(NotSupportedError, match=r"REFERENCE_ENGINE .* no compiled code"):
        save_artifact(tmp_path / "a", graph().build("cpu", engine="reference"))
    other = Graph("other", io_data_type="float")
    other.relu(other.tensor(dims=(4, 4))).set_output()
    with pytest.raises(NotSupportedError, match="'other' is another"):
        save_artifact(tmp_path / "a", [graph().build("cpu"), other.build("cpu")])
    with pytest.raises(OSError, match="No such file"):
        save_artifact(tmp_path / "no" / "a", graph().build("cpu"))
    assert os.listdir(tmp_path) == []


# --- which code runs where ---------------------------------------------------------------------


def test_no_code_for_a_target(whole: bytes) -> None:
    found = opened(whole)
    with pytest.raises(NotSupportedError, match="no plan for gfx950; it has: cpu by IREE_JIT"):
        found.plan("gfx950")
    with pytest.raises(NotSupportedError, match="by engine 'reference'"):
        found.plan("cpu", engine="reference")
    with pytest.raises(NotSupportedError, match=r"with knobs .'opt_level': 'O1'."):
        found.plan("cpu", knobs={"opt_level": "O1"})


def test_code_that_runs_on_more_than_its_own_target(whole: bytes) -> None:
    found = opened(whole)
    assert str(found.plan("mi300x").target) == "gfx942"  # of that arch
    assert str(found.plan("gfx942:sramecc+:xnack-").target) == "gfx942"  # code for any mode

    def only_modes(body: dict[str, Any]) -> None:
        body["plans"] = [{**body["plans"][2], "target": "gfx942:xnack+"}]

    modes = opened(changed(whole, only_modes))
    with pytest.raises(NotSupportedError, match="has no plan for gfx942:xnack-"):
        modes.plan("gfx942:xnack-")
    assert str(modes.plan("gfx942:xnack+").target) == "gfx942:xnack+"


def test_a_cpu_with_fewer_instructions(whole: bytes, monkeypatch) -> None:
    found = opened(whole)
    lacking = {b"": ()}

    def missing(code: bytes) -> tuple[str, ...]:
        return lacking.get(code, ("avx512f",))

    monkeypatch.setattr(cpu, "missing_features", missing)
    with pytest.raises(DeviceError, match="needs avx512f, which this CPU lacks"):
        found.plan()
    assert "avx512f" in found.why_not_here(found.plans[0])
    lacking[found._part("code/1.vmfb")] = ()
    assert str(found.plan().target) == "cpu:x86-64-v3"  # the next best


def test_another_release_of_the_runtime(whole: bytes, monkeypatch) -> None:
    monkeypatch.setattr(module, "versions", lambda: {"iree-base-runtime": "4.1.0"})
    found = opened(whole)
    with pytest.raises(ArtifactError, match=r"compiled by IREE 3\.\S+; the runtime here is 4.1.0"):
        found.plan()
    assert "4.1.0" in found.why_not_here(found.plans[0])
    release = ".".join(found.manifest.made_by["iree-base-compiler"].split(".")[:2])
    monkeypatch.setattr(module, "versions", lambda: {"iree-base-runtime": f"{release}.99"})
    assert found.plan()


def test_neither_compiler_nor_numpy_nor_device(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.hipdnn-iree"
    path.write_bytes(whole)
    code = (
        "import sys; sys.modules['iree.compiler'] = sys.modules['torch_mlir'] = None\n"
        "from hipdnn_iree import load_artifact\n"
        "found = load_artifact(sys.argv[1]); found.verify()\n"
        "plans = [found.plan(t) for t in found.targets]\n"
        "assert not {'numpy', 'iree.runtime', 'zipfile'} & set(sys.modules), 'loaded'\n"
        "import numpy as np\n"
        "y, = plans[0].run({'x': np.ones((4, 6), np.float32)}).values()\n"
        "assert (y == 2).all()\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HIPDNN_IREE_CACHE": "off"}
    env["HIPDNN_IREE_REQUIRE_PRECOMPILED"] = "on"
    subprocess.run([sys.executable, "-c", code, str(path)], env=env, check=True, timeout=300)


def test_many_threads(whole: bytes) -> None:
    found, wrong = opened(whole), []

    def work() -> None:
        y = found.plan().run({"x": X})[Y]
        if not np.array_equal(y, np.maximum(2 * X, 0)):
            wrong.append(y)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# --- damage and malice -------------------------------------------------------------------------


def use(data: bytes) -> dict[int, Any]:
    """Load, and everything short of running the code: its bytes have been checked by then."""
    found = opened(data)
    plan = found.plan()
    return {11: plan.compiled.sha256, Y: found.frozen.digest}


def test_cut_off_anywhere(whole: bytes) -> None:
    data = random.Random(1)
    for length in {*range(100), *data.sample(range(len(whole)), 400), len(whole) - 1}:
        with pytest.raises(ArtifactError, match=r"a\.hipdnn-iree is no sound artifact: "):
            use(whole[:length])
    for extra in (b"x", whole):
        with pytest.raises(ArtifactError):
            use(whole + extra)


def test_flipped_overwritten_and_removed_bytes(whole: bytes) -> None:
    data, expected, errors = random.Random(2), use(whole), 0
    for turn in range(800):
        damaged = bytearray(whole)
        at = data.randrange(len(whole))
        if turn % 3 == 0:
            damaged[at] ^= 1 << data.randrange(8)
        elif turn % 3 == 1:
            damaged[at : at + 8] = data.randbytes(8)
        else:
            del damaged[at : at + data.randrange(1, 100)]
        try:
            # What lies between the parts, and code for other targets, has no meaning here.
            assert use(bytes(damaged)) == expected
        except ArtifactError:
            errors += 1
    assert errors > 350
    # The same bytes, all parts checked: nothing of a part can change without being noticed.
    for name in ("manifest.json", "graph.json", "code/0.vmfb", "code/1.vmfb", "code/2.vmfb"):
        with zipfile.ZipFile(BytesIO(whole)) as archive:
            part = archive.read(name)
        at = whole.index(part) + data.randrange(len(part))
        damaged = whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :]
        with pytest.raises(ArtifactError):
            opened(damaged).verify()


def test_damage_in_the_directory(whole: bytes) -> None:
    """Every byte of the directory and of the end, to several values."""
    start = struct.unpack_from("<L", whole, len(whole) - 6)[0]
    data, expected = random.Random(3), use(whole)
    for at in range(start, len(whole)):
        for value in (0, data.randrange(1, 256)):
            damaged = whole[:at] + bytes([value]) + whole[at + 1 :]
            try:
                assert use(damaged) == expected  # times, versions, permissions
            except ArtifactError:
                continue


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda m: m.update(version=3), "version 3 of the format; this version .* reads 2"),
        (lambda m: m.update(format="zip of holiday pictures"), "holiday pictures"),
        (lambda m: m.pop("plans"), "not understood: KeyError"),
        (lambda m: m["plans"][0].update(workspace_bytes=-1), "workspace of -1 bytes"),
        (lambda m: m["plans"][0].update(workspace_bytes="1"), "workspace of '1' bytes"),
        (lambda m: m["plans"][0].update(engine_id=7), "does not have the id 7"),
        (lambda m: m["plans"][0].update(code="code/9.vmfb"), "not understood: KeyError"),
        (lambda m: m["plans"][0].update(target="gfx1"), "unknown target"),
        (lambda m: m["plans"][0]["signature"].update(args=[]), "takes other arguments"),
        (lambda m: m["plans"][0]["signature"].update(args=7), "not understood"),
        (lambda m: m["plans"].append([]), "not understood"),
        (lambda m: m["parts"]["code/0.vmfb"].update(size=10**30), "vmfb: has .* bytes at most"),
        (lambda m: m["parts"]["code/0.vmfb"].update(size=-1), "vmfb: has .* bytes at most"),
        (lambda m: m["parts"]["code/0.vmfb"].update(size=1), "those of its parts"),
        (lambda m: m["parts"]["code/0.vmfb"].update(sha256="0" * 64), "vmfb: .* the SHA-256"),
        (lambda m: m["parts"].update({"../x": {"size": 1, "sha256": ""}}), "lists the part '../x'"),
        (lambda m: m["parts"].update({"x": {"size": 0, "sha256": ""}}), "those of its parts"),
        (lambda m: m["parts"].pop("code/1.vmfb"), "those of its parts"),
        (lambda m: m["graph"].update(part="../../etc/passwd"), "is not listed"),
        (lambda m: m["graph"].update(part="code/0.vmfb"), "graph cannot be read"),
        (lambda m: m["graph"].update(digest="0" * 64), "to which its graph was another one"),
        (lambda m: m["plans"][0]["signature"]["args"][0].update(dims=[2**62, 6]), "other arg"),
    ],
)
def test_a_manifest_that_lies(whole: bytes, change: Any, says: str) -> None:
    """All checksums are right, so somebody meant it."""
    data = changed(whole, change)
    with pytest.raises(ArtifactError, match=says):
        (found := opened(data)).verify() or found.plan()


def test_a_workspace_that_the_code_does_not_agree_with(whole: bytes) -> None:
    def small(body: dict[str, Any]) -> None:
        for plan in body["plans"]:
            plan["workspace_bytes"] = plan["signature"]["workspace_bytes"] = 1 << 50

    plan = opened(changed(whole, small)).plan()
    with pytest.raises(HipdnnIreeError, match="not of one compilation"):
        plan.run({"x": X})


def raw(manifest: bytes, size: int | None = None) -> bytes:
    """Return a file that has nothing but a manifest, with another size in front of it."""
    with patch("hipdnn_iree.jit.container.seal", lambda _: manifest):
        data = pack({}, {})
    return data if size is None else data[:18] + size.to_bytes(4, "little") + data[22:]


def zipped(*parts: tuple[str, bytes]) -> bytes:
    """Return what Python's own library makes of some parts."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts:
            archive.writestr(name, data)
    return buffer.getvalue()


DEEP = b'"a": ' + b"[" * 200_000


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "does not begin as one"),
        (b'{"nodes": []}' * 9, "does not begin as one"),
        (b"PK\3\4" + b"junk" * 40, "does not begin as one"),
        (zipped(("other.json", b"{}")), "does not begin with a seal"),
        (zipped(("manifest.json", b"{}")), "does not begin with a seal"),
        (raw(b"{}"), "does not begin with a seal"),
        (raw(b"{}", size=2**31), "manifest.json: has 2147483648 bytes"),
        (raw(b"{}", size=2**20), "does not begin with a seal"),
        (raw(b"x" * (17 << 20)), "manifest.json: has 17825792 bytes"),
        (raw(seal({"a": [[[[]]]]})), "lists no parts"),
        (raw(seal({"parts": {}})), "is a None, not a 'hipdnn-iree artifact'"),
        (raw(seal({"parts": {"manifest.json": {"size": 1, "sha256": ""}}})), "or itself"),
        (raw(seal({"parts": {f"p{i}": {"size": 0, "sha256": ""} for i in range(4096)}})), "4096"),
        (raw(b'{"seal": "%s",\n' % sha256(DEEP).hexdigest().encode() + DEEP), "is not JSON"),
    ],
)
def test_other_archives(data: bytes, says: str) -> None:
    with pytest.raises(ArtifactError, match=says):
        opened(data)


def test_a_graph_that_cannot_be_written(tmp_path: Path, monkeypatch) -> None:
    plan = graph().build("cpu")
    monkeypatch.setattr(save, "read_graph", lambda *_: graph("again"))
    save_artifact(tmp_path / "a", plan)  # names are no matter
    other = Graph(io_data_type="float")
    other.relu(other.tensor(dims=(1, 2))).set_output()
    monkeypatch.setattr(save, "read_graph", lambda *_: other)
    with pytest.raises(FormatError, match="another one when it is read back"):
        save_artifact(tmp_path / "a", plan)
