# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scripts as people write them pass a type checker: the examples, the pages, a dict in a variable.

Pyright is looked for besides mypy; it is no dependency, as it needs Node.js.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# Its blocks are parts of files.
FRAGMENTS = ("docs/add-an-op.md",)
OPTIONAL = {"torch", "onnx", "onnxruntime"}

# What the tests of the pages have ready for them.
GIVEN = """
import numpy as np
from hipdnn_iree import Graph

graph = Graph("model", io_data_type="float")
x = np.ones((4, 6), np.float32)
"""

SCRIPT = """
import numpy as np
import numpy.typing as npt
from hipdnn_iree import (
    Candidate, ConvMode, DataType, Graph, GraphError, NotSupportedError, Plan, Report, Tensor
)
from hipdnn_iree.errors import BindError

Array = npt.NDArray[np.float16]

g = Graph("typed", io_data_type=DataType.HALF, compute_data_type="float")
x = g.tensor(dims=(2, 3, 8, 8), name="x")
w = g.tensor(dims=(4, 3, 3, 3), name="w")
try:
    y: Tensor = -g.conv_fprop(x, w, padding=1, conv_mode=ConvMode.CROSS_CORRELATION) * 2 + 1.0
except GraphError as error:
    print([problem.at for problem in error.problems])
    raise
z = g.reshape(g.transpose(y, (0, 2, 3, 1)), (-1, 4)) @ g.tensor(dims=(4, 5))
g.softmax(g.linear(z, g.tensor(dims=(5, 6)))).set_output()
g.layernorm(y, 1.0, 0.0, normalized_dim_count=1).y.set_output()
rank: int = len(x.shape)
plan: Plan = g.build("cpu")
rng = np.random.default_rng(0)
by_tensor: dict[Tensor, Array] = {
    t: rng.standard_normal(t.shape).astype(np.float16) for t in (x, w)
}
by_name: dict[str, Array] = {t.name: a for t, a in by_tensor.items()}
by_uid: dict[int, Array] = {t.uid: a for t, a in by_tensor.items()}
for result in (plan.run(by_tensor)[y], plan(by_name)["y"], plan.run(by_uid)[y.uid]):
    print(result.shape)
plan.execute(by_tensor)
plan.execute_many([by_tensor])
plan.execute_async(by_name).wait()
plan.bind({**by_tensor, y: np.empty((2, 4, 8, 8), np.float16)})()
shapes: dict[Tensor, tuple[int, ...]] = {x: (5, 3, 8, 8)}
other = plan.with_shapes(shapes)
report: Report = other.verify(plan.random_inputs(seed=3))
served: list[Candidate] = [c for c in g.plans() if c.served]
print(report.ok, served, BindError, NotSupportedError)
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("typed")
    (folder / "script.py").write_text(SCRIPT)
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    for page in [*pages, *(ROOT / "docs" / "cookbook").glob("*.md")]:
        text = page.read_text(encoding="utf-8")
        codes = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        name = page.relative_to(ROOT).with_suffix("").as_posix()
        needed = OPTIONAL & set(re.findall(r"^(?:import|from) (\w+)", "".join(codes), re.MULTILINE))
        if codes and f"{name}.md" not in FRAGMENTS and all(map(find_spec, needed)):
            path = folder / f"page_{re.sub(r'[^a-z0-9]', '_', name.lower())}.py"
            path.write_text("\n".join([GIVEN, *codes]))
    assert len(list(folder.iterdir())) > 25
    return [*sorted(folder.iterdir()), *sorted((ROOT / "examples").glob("*.py"))]


@pytest.mark.slow
def test_mypy(scripts: list[Path]) -> None:
    words = [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml"]
    loose = ["--allow-redefinition", "--disable-error-code=import-untyped"]
    done = subprocess.run(
        [*words, *loose, *scripts], cwd=ROOT, capture_output=True, text=True, timeout=1200
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_pyright(scripts: list[Path], tmp_path: Path) -> None:
    pytest.importorskip("pyright")
    folder = tmp_path / "scripts"  # paths of a configuration have to be relative
    folder.mkdir()
    for path in scripts:
        shutil.copy(path, folder)
    settings = {
        "include": [folder.name],
        "extraPaths": [str(ROOT / "typings"), str(ROOT / "examples")],
        "typeCheckingMode": "standard",
        "pythonVersion": "3.11",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    words = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    words += ["--project", str(tmp_path)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=1200)
    found = json.loads(done.stdout)
    wrong = [d for d in found["generalDiagnostics"] if d["severity"] == "error"]
    assert not wrong, json.dumps(wrong, indent=1)
    assert found["summary"]["filesAnalyzed"] >= len(scripts)
