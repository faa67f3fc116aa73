# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where torch-mlir is not installed, what has to be compiled says so."""

from __future__ import annotations

import sys

import pytest
from hipdnn_iree import CompileError, Graph
from hipdnn_iree.jit import bindings
from hipdnn_iree.jit.settings import scope


def test_a_build_that_has_to_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bindings, "_ready", set[str]())
    monkeypatch.setitem(sys.modules, "torch_mlir", None)
    g = Graph("bare", io_data_type="float")
    g.tanh(g.relu(g.tensor(dims=(3, 41)))).set_output()
    with scope(cache_mode="off"), pytest.raises(CompileError, match="needs torch-mlir") as found:
        g.build("cpu", engine="iree")
    assert (found.value.stage, found.value.cause) == ("lower", "host")
