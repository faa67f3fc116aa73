# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What an import costs and drags in, seen in fresh interpreters."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

# Everything but the standard library, and of that what is slow or reaches out of the process.
UNWANTED = {
    *("numpy", "ml_dtypes", "iree", "torch_mlir", "torch", "onnx", "hip", "click", "rich"),
    *("ctypes", "subprocess", "multiprocessing", "asyncio", "socket", "concurrent"),
}

BUILD = """
import json, sys
before = set(sys.modules)
from {module} import Graph

def build(cls):
    g = cls("net", io_data_type="half", intermediate_data_type="float", compute_data_type="float")
    x = g.tensor(dims=(2, 8, 5, 5), name="x")
    w = g.tensor(dims=(4, 8, 3, 3), name="w")
    b = g.tensor(dims=(1, 4, 1, 1), name="b")
    y = g.relu(g.add(g.conv_fprop(x, w, pre_padding=(1, 1), post_padding=(1, 1)), b))
    y.set_output()
    g.reduction(y, mode="avg", axes=(0, 2, 3)).set_output()
    return g

g = build(Graph)
g.validate()
frozen = g.freeze()
again = Graph.from_json(g.to_json())
assert again.freeze() == frozen and again.digest == g.digest
assert g.to_dot() and g.to_mermaid() and repr(g)

from hipdnn_iree.graph_api.errors import GraphError
bad = Graph("bad")
try:
    bad.relu(bad.tensor(dims=(0, 3)))
    bad.validate()
except GraphError as error:
    assert error.problems
else:
    raise AssertionError("a bad graph passed")
print(json.dumps(sorted(set(sys.modules) - before)))
"""


@pytest.mark.parametrize("module", ["hipdnn_iree", "hipdnn_iree.graph_api.graph"])
def test_describing_a_graph_loads_the_standard_library_only(
    module: str, fresh: Callable[[str], str]
) -> None:
    """Build, validate, freeze, draw, write and read again, find problems."""
    loaded = json.loads(fresh(BUILD.format(module=module)))
    assert not UNWANTED & {name.partition(".")[0] for name in loaded}
    # The engines and the compiler's machinery stay out as well.
    own = {name for name in loaded if name.startswith("hipdnn_iree.")}
    allowed = ("hipdnn_iree.graph_api", "hipdnn_iree.provider.graph")
    assert not {n for n in own if not n.startswith(allowed) and n != "hipdnn_iree.provider"}


def test_the_package_itself_loads_nothing(fresh: Callable[[str], str]) -> None:
    loaded = fresh("import sys, hipdnn_iree; print(*sys.modules)").split()
    assert [name for name in loaded if name.startswith("hipdnn_iree")] == ["hipdnn_iree"]
    assert not UNWANTED & {name.partition(".")[0] for name in loaded}
