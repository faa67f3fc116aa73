"""IREE's native module is loaded without NumPy, and works with it as soon as somebody needs it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from fresh_python import printed

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
