# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the README shows is what happens."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import GraphError

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_python_example_runs() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert getattr(names["result"], "shape", None) == (4, 64, 28, 28)


def test_the_error_is_worded_as_shown() -> None:
    script = """graph = Graph("mlp", io_data_type="half", compute_data_type="float")
x = graph.tensor(dims=(64, 128), name="x")
w = graph.tensor(dims=(256, 1024), name="w")
graph.matmul(x, w, name="up")
"""
    with pytest.raises(GraphError) as caught:
        exec(compile(script, "mlp.py", "exec"), {"Graph": Graph})
    assert f"GraphError: {caught.value}\n" in README


def test_the_commands_exist(capsys: pytest.CaptureFixture[str]) -> None:
    from hipdnn_iree.provider.cli.main import main

    (block,) = (b for b in re.findall(r"```sh\n(.*?)```", README, re.DOTALL) if " run " in b)
    commands = [c for line in block.splitlines() for c in line.partition("#")[0].split(";")]
    for command in filter(str.strip, commands):
        words = shlex.split(command)
        assert words[0] == "hipdnn-iree"
        files = [w for w in words if w.startswith("examples/")]
        assert all((ROOT / name).is_file() for name in files)
        with pytest.raises(SystemExit) as ended:
            main([*words[1:2], "--help"])
        assert ended.value.code == 0
        text = capsys.readouterr().out
        assert [w for w in words if w.startswith("--") and w not in text] == []
