# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The provider in programs: in C without Python, with threads, reloaded, with many sessions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from ep_models import assigned, model, node, on_cpu, recorded, session, values
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.provider.onnx.onnx_library import LIBRARY

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return a function that runs the program in C on a model of one Relu."""
    folder = tmp_path_factory.mktemp("host")
    program = folder / "ort_host"
    words = ["cc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-o", program]
    subprocess.run([*words, HERE / "ort_host.c", "-ldl", "-lpthread"], check=True, timeout=300)
    (folder / "relu.onnx").write_bytes(
        model([node("Relu", "x", "y")], {"x": (1, 4)}, {"y": (1, 4)})
    )
    # The wheel has one library; a program needs it under its own name.
    (found,) = Path(ort.__file__).parent.glob("capi/libonnxruntime.so.*")

    def run(*arguments: object, library: Path | None = None, **env: str) -> Any:
        own = library or LIBRARY.find(settings())
        kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        return subprocess.run(
            [str(w) for w in (program, found, own, folder / "relu.onnx", *arguments)],
            env={**kept, **env},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return run


def test_a_program_in_c_without_python(host: Any) -> None:
    done = host("run", 20, 4)
    assert done.stdout == "done\n", (done.stdout, done.stderr[-2000:])
    assert done.returncode == 0


def test_without_a_python_registration_says_why(host: Any, tmp_path: Path) -> None:
    copy = Path(shutil.copy(LIBRARY.find(settings()), tmp_path / "provider.so"))
    done = host("fail", library=copy)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert done.stdout.startswith("1 ")
    assert "DEPLOY-" in done.stdout
    done = host("fail", HIPDNN_IREE_PYTHON="/nowhere/python3")
    assert "HIPDNN_IREE_PYTHON" in done.stdout
    assert not done.stdout.startswith("11 ")


def chain() -> bytes:
    nodes = [node("MatMul", "x w", "m"), node("Relu", "m", "r"), node("MatMul", "r v", "y")]
    weights = {"w": values((16, 32), 1), "v": values((32, 8), 2)}
    return model(nodes, {"x": (4, 16)}, {"y": (4, 8)}, weights)


def test_eight_threads_on_one_session() -> None:
    source = chain()
    found = session(source)
    if recorded():
        assert sum(map(len, assigned(found))) == 3
    feeds = [{"x": values((4, 16), seed)} for seed in range(8)]
    wanted = [on_cpu(source, feed)[0] for feed in feeds]
    wrong: list[float] = []

    def work(k: int) -> None:
        for _ in range(50):
            (got,) = found.run(None, feeds[k])
            if not np.allclose(got, wanted[k], rtol=1e-4, atol=1e-4):
                wrong.append(float(np.abs(got - wanted[k]).max()))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


_MANY = """
import sys
sys.path[:0] = {path!r}
import gc, resource
import numpy as np, onnxruntime as ort
from ep_models import model, node, session
source = model([node("Relu", "x", "y")], {{"x": (1, 4)}}, {{"y": (1, 4)}})
x = np.array([[-1, 2, -3, 4]], np.float32)
def size():
    return int(open("/proc/self/statm").read().split()[1]) * 4
for k in range({count}):
    found = session(source)
    assert (found.run(None, {{"x": x}})[0] == np.maximum(x, 0)).all()
    del found
    if k == {count} // 3:
        gc.collect()
        before = size()
gc.collect()
print(size() - before)
"""

_UNREGISTERED = """
import sys
sys.path[:0] = {path!r}
import numpy as np, onnxruntime as ort
from hipdnn_iree.provider.onnx import register, unregister
from ep_models import model, node, session
source = model([node("Relu", "x", "y")], {{"x": (1, 4)}}, {{"y": (1, 4)}})
x = np.array([[-1, 2, -3, 4]], np.float32)
for _ in range(3):
    found = session(source)
    unregister()
    for _ in range(10):
        assert (found.run(None, {{"x": x}})[0] == np.maximum(x, 0)).all()
    del found
print("done")
"""


def python(text: str, **values: Any) -> str:
    path = [str(HERE.parent / "support"), str(HERE.parents[1])]
    code = text.format(path=path, **values)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.strip()


@pytest.mark.parametrize("count", [150, pytest.param(1000, marks=pytest.mark.full)])
def test_many_sessions_leave_nothing_behind(count: int) -> None:
    """After a third of them the process grows by at most 4 MiB."""
    assert int(python(_MANY, count=count)) < 4096


def test_unregistering_while_sessions_live() -> None:
    assert python(_UNREGISTERED) == "done"


def test_memory_that_is_bound_and_misaligned() -> None:
    source = chain()
    found = session(source)
    raw = np.zeros(4 * 16 * 4 + 64 + 4, np.uint8)
    start = (-raw.ctypes.data) % 64 + 4
    x = raw[start : start + 256].view(np.float32).reshape(4, 16)
    x[:] = values((4, 16))
    y = np.zeros((4, 8), np.float32)
    binding = found.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    for _ in range(3):
        found.run_with_iobinding(binding)
    np.testing.assert_allclose(y, on_cpu(source, {"x": x})[0], rtol=1e-4, atol=1e-4)
