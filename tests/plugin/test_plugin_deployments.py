# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Deployments that do not work: the doctor and the log of a host in C name the same cause."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from broken_deployments import BROKEN, LOADER, PLUGIN, SITE, Deployment
from hipdnn_iree.hipdnn_plugin import serving
from hipdnn_iree.jit.settings import scope, settings
from hipdnn_iree.provider.native.deployment import causes, limits

from tools.host.driver import Host

GRAPH = Path(__file__).parents[1] / "data" / "opgraphs" / "pw_relu_all.bin"
NO_RIGHTS = "-dac_override,-dac_read_search"
SERVED = ("UNSAFE_LIBRARY", "TWO_COPIES", "STALE", "CACHE")
LISTED = (
    *SERVED,
    "NO_COMPILER",
    "NOT_PRECOMPILED",
    "NO_HIP",
    "NO_DEVICE",
    "OTHER_DEVICE",
    "SETTING",
)
"""Causes with which graphs are served, and with which the engine is listed."""
AS_USER = ("setpriv", f"--bounding-set={NO_RIGHTS}", f"--inh-caps={NO_RIGHTS}")


def run(deployment: Deployment, *words: object, **env: str) -> subprocess.CompletedProcess[str]:
    before = AS_USER if deployment.as_user and not os.geteuid() else ()
    return subprocess.run(
        [str(word) for word in (*before, *words)],
        env={**os.environ, **deployment.env, **env},
        capture_output=True,
        text=True,
        timeout=300,
    )


def diagnosis(deployment: Deployment) -> tuple[int, dict[str, str]]:
    """Return the exit code of the doctor, and the text of each cause that it names."""
    folder = [deployment.folder] if deployment.named else []
    words = ["-m", "hipdnn_iree", "plugin", "doctor", *folder, "--json"]
    done = run(deployment, deployment.python, *words)
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)["findings"]
    assert all(f["cause"] for f in found if f["state"] == "problem"), found
    return done.returncode, {f["cause"]: f["text"] for f in found if f["state"] == "problem"}


def told_to(host: Host, deployment: Deployment, *others: Path) -> str:
    """Return what a host in C of November 2025 is told, and what it then lists and serves."""
    libraries = ":".join(map(str, (deployment.copy, *others)))
    shown = {"HOST_SHOW_LOG": "1", "HIPDNN_LOG_LEVEL": "warn"}
    return run(
        deployment, *host.words("details", GRAPH, era="n25", library=libraries), **shown
    ).stdout


def test_a_sound_deployment(host: Host, tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    assert diagnosis(deployment) == (0, {})
    told = told_to(host, deployment)
    assert "log " not in told
    assert f"\nengine {serving.ENGINE_ID}\n" in told


@pytest.mark.parametrize("breaks", BROKEN, ids=lambda breaks: breaks.__name__.strip("_"))
def test_doctor_and_host_name_the_cause(
    breaks: Callable[[Deployment], None], host: Host, tmp_path: Path
) -> None:
    if "stranger" in breaks.__name__ and os.geteuid():
        pytest.skip("only root can give a file away")
    name, teller = BROKEN[breaks]
    cause = causes()[name]
    deployment = Deployment(tmp_path)
    breaks(deployment)
    code, found = diagnosis(deployment)
    assert (code, list(found)) == (1, [cause.id]), found
    remedy = cause.remedy.partition("INSTALL DIR")[0]
    assert cause.text in found[cause.id]
    assert remedy in found[cause.id]
    told = told_to(host, deployment)
    if teller == PLUGIN:
        assert f"{cause.id}: {cause.text}: " in "\n".join(re.findall(r"^log .*", told, re.M))
        assert ("1 engines" in told) == (name in LISTED)
        assert (f"\nengine {serving.ENGINE_ID}\n" in told) == (name in SERVED)
    assert ("another machine" in found[cause.id]) == (breaks.__name__ == "_other_architecture")
    if teller == LOADER:
        assert told.removeprefix(f"FAILED {deployment.copy}: ").rstrip() in found[cause.id]


def test_every_cause_has_a_deployment() -> None:
    """But for that of a Python that no interpreter of this machine may have."""
    assert {name for name, _ in BROKEN.values()} == set(causes()) - {"PROCESS_PYTHON"}
    ids = [cause.id for cause in causes().values()]
    assert ids == [f"DEPLOY-{k:02}" for k in range(1, len(ids) + 1)]


# ---------------------------------------------------------------------------- hosts in Python

PYTHON_HOST = """
import ctypes, json, sys
log = []
kind = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p)
sink = kind(lambda level, text: log.append(text.decode()))
found = []
for path in sys.argv[2:]:
    lib = getattr(ctypes, sys.argv[1])(path)
    lib.hipdnnPluginSetLoggingCallback(sink)
    lib.hipdnnPluginSetLogLevel(1)
    count, handle, text = ctypes.c_uint32(9), ctypes.c_void_p(), ctypes.c_char_p()
    listed = lib.hipdnnEnginePluginGetAllEngineIds(None, 0, ctypes.byref(count))
    created = lib.hipdnnEnginePluginCreate(ctypes.byref(handle))
    lib.hipdnnPluginGetLastErrorString(ctypes.byref(text))
    found.append([listed, count.value, created, text.value.decode()])
print(json.dumps([found, log]))
"""


def python_host(
    python: Path | str, *libraries: Path, loader: str = "CDLL"
) -> tuple[list[tuple[int, int, int, str]], list[str]]:
    """Return of each library what listing and creating give, with the error; and the log."""
    words = [python, "-I", "-c", PYTHON_HOST, loader, *libraries]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert not done.returncode, done.stderr
    found, log = json.loads(done.stdout)
    return [tuple(one) for one in found], log


def other_pythons() -> list[Path]:
    """Pythons of another minor version, one too old among them."""
    found = Path(sys.base_prefix).parent.glob("3.1*/bin/python3")
    return [p for p in found if p.resolve().name != f"python3.{sys.version_info[1]}"]


@pytest.mark.parametrize("kind", ["installed", "editable"])
def test_host_in_a_python_of_another_version(tmp_path: Path, kind: str) -> None:
    """No engine is listed, and one text says why: packages are there for this version only."""
    if not other_pythons():
        pytest.skip("no Python of another minor version beside the one that runs this")
    deployment = Deployment(tmp_path)
    if kind == "installed":
        deployment.write_record(python=sys.executable, path=SITE)
    for python in other_pythons():
        ((listed, count, created, text),), log = python_host(python, deployment.copy)
        too_old = python.resolve().name == "python3.10"
        name = "OTHER_VERSION" if kind == "installed" else "MISSING"
        cause = causes()["PROCESS_PYTHON" if too_old else name]
        assert (listed, count, created) == (3, 0, 3), python
        assert text.startswith(f"{cause.id}: {cause.text}: "), python
        assert [line.endswith(text) for line in log] == [True], python


def test_listing_in_a_thread_that_has_the_gil_starts_nothing(tmp_path: Path) -> None:
    """hipDNN lists engines under a lock that a thread with the GIL may be waiting for."""
    deployment = Deployment(tmp_path)
    deployment.write_record("\n")
    ((listed, count, created, text),), log = python_host(
        sys.executable, deployment.copy, loader="PyDLL"
    )
    assert (listed, count, created, text, log) == (0, 1, 0, "", [])
    deployment.variant(r"#define TABLE_VERSION \d+", "#define TABLE_VERSION 2")
    ((listed, count, created, text),), log = python_host(
        sys.executable, deployment.copy, loader="PyDLL"
    )
    assert (listed, count, created) == (0, 1, 3)
    assert text.startswith("DEPLOY-20: ")
    assert len(log) == 1


def test_second_copy_in_a_host_is_told(host: Host, tmp_path: Path) -> None:
    """Once: what is logged goes through the first one alone."""
    deployment = Deployment(tmp_path)
    other = deployment.folder / "other.so"
    deployment.install(deployment.copy, other.name)
    told = told_to(host, deployment, other)
    log = re.findall(r"^log .*", told, re.M)
    assert [str(other) in line and "DEPLOY-05" in line for line in log] == [True]
    assert "skipped " in told  # by hipDNN, which goes on with the first
    assert f"\nengine {serving.ENGINE_ID}\n" in told


def test_a_full_disk_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Full:
        f_bavail = 0

    with scope(cache_dir=tmp_path / "none" / "yet"):
        assert not list(limits(settings()))
        monkeypatch.setattr(os, "statvfs", lambda _: Full)
        (found,) = limits(settings())
        assert found.cause == causes()["CACHE"].id
        assert f"no space is left on the device of {tmp_path}" in str(found)
    with scope(cache_dir=tmp_path, cache_mode="off"):
        assert not list(limits(settings()))
