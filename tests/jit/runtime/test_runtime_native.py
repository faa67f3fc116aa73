# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""IREE's native module is loaded without NumPy, and works with it as soon as somebody needs it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from fresh_python import printed
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode

START = """
import sys, threading
from hipdnn_iree.jit.runtime.iree_native import iree
"""

CASES = {
    "nobody has asked for it": """
        iree().VmInstance()
        assert not [name for name in sys.modules if name.partition(".")[0] == "numpy"]
    """,
    "it is imported afterwards": """
        iree()
        import numpy, numpy.linalg
        assert numpy.float32(2) == 2 and sys.modules["numpy"] is numpy and numpy.linalg.norm
        assert "Later" not in type(numpy).__name__
    """,
    "it was there before": """
        import numpy
        iree()
        assert sys.modules["numpy"] is numpy
    """,
    "another thread imports it meanwhile": """
        from hipdnn_iree.jit.runtime import iree_native
        found = []
        def use():
            import numpy as np
            import numpy.linalg
            found.append(np.arange(3).sum() + np.float32(1) + numpy.linalg.norm([3.0, 4.0]))
        with iree_native._numpy_later():
            assert sys.modules["numpy"].float32.__class__.__name__ == "_Type"
            thread = threading.Thread(target=use)
            thread.start()
            thread.join()
            assert sys.modules["numpy"].float32 is not None
        assert found == [9.0], found
        import numpy
        assert numpy.__spec__ is not None
    """,
    "the types stand for NumPy's": """
        from hipdnn_iree.jit.runtime import iree_native
        kinds = [iree_native._Type(name) for name in iree_native._TYPES]
        import numpy as np
        for kind, name in zip(kinds, iree_native._TYPES):
            real = getattr(np, name)
            assert np.dtype(kind) == real and kind == real and real == kind, name
            assert kind == np.dtype(real) and np.zeros(2, kind).dtype == real
            assert hash(kind) == hash(np.dtype(real)) and repr(kind) == repr(np.dtype(real))
    """,
    "IREE's own package makes arrays of lists": """
        iree()
        from iree import compiler, runtime as rt
        kinds = dict(f32="float32", f64="float64", i8="int8", i16="int16", i32="int32", i64="int64")
        function = (
            "func.func @K(%x: tensor<2xK>) -> tensor<2xK> attributes {iree.reflection = {"
            'iree.abi = "{^a^:[[^ndarray^,^K^,1,2]],^r^:[[^ndarray^,^K^,1,2]],^v^:1}"}} {'
            "  return %x : tensor<2xK> }"
        )
        text = " ".join(function.replace("K", kind).replace("^", chr(92) + "22") for kind in kinds)
        keep = ["--iree-input-demote-f64-to-f32=false"]
        code = compiler.compile_str(text, target_backends=["vmvx"], extra_args=keep)
        config = rt.Config("local-sync")
        module = rt.VmModule.copy_buffer(config.vm_instance, code)
        module = rt.load_vm_module(module, config)
        for kind, name in kinds.items():
            array = module[kind]([1, 2]).to_host()
            assert array.tolist() == [1, 2] and array.dtype == name, kind
    """,
}


@pytest.mark.parametrize("case", CASES)
def test_numpy_comes_when_it_is_needed(case: str, tmp_path: Path) -> None:
    assert printed(START + dedent(CASES[case]) + "print('end')", home=tmp_path) == "end\n"


CACHED = """
import sys
from ctypes import addressof, c_float
from hipdnn_iree.hipdnn_plugin import messages, serving
from hipdnn_iree.hipdnn_plugin.execution import Execution
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.plugin_abi import DeviceBuffer

data, cpu = bytes.fromhex(sys.argv[1]), Target.parse("cpu")
assert not serving.reasons(data, cpu, settings())
assert serving.details(0, settings(), data, cpu)
config = messages.Config(serving.ENGINE_ID, settings())
plan = serving.build(config, data, cpu)
execution = Execution(plan, 0)
memory = [(c_float * 64)(*[value] * 64) for value in (-1, 2)]
pairs = (DeviceBuffer * 2)()
for pair, uid, array in zip(pairs, (1, 2), memory):
    pair.uid, pair.ptr = uid, -(-addressof(array) // 64) * 64
execution(None, addressof(pairs), 2)
ops = "hipdnn_iree.graph_api.ops."
loaded = {name.removeprefix(ops) for name in sys.modules if name.startswith(ops)}
print(plan.cache, "numpy" in sys.modules, "torch_mlir" in sys.modules, *sorted(loaded))
"""


def test_cached_code_is_executed_without_numpy_and_without_other_ops(tmp_path: Path) -> None:
    """Whoever asks for the op of a node asks by its name (`NodeContext.named`)."""
    graph = Graph(io_data_type="float", compute_data_type="float")
    graph.neg(graph.tensor(dims=(4,), uid=1)).set_output().set_uid(2)
    data = encode(graph.freeze()).hex()
    assert printed(CACHED, data, home=tmp_path).startswith("miss")
    found = printed(CACHED, data, home=tmp_path).split()
    assert found == ["hit", "False", "False", "base", "fields", "pointwise", "pointwise_methods"]
