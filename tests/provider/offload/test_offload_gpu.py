# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Finished modules on an emulated GPU: its memory, its streams, and code for all sizes."""

from __future__ import annotations

import pytest
from fresh_python import printed
from hipdnn_iree.jit.settings import settings
from hipdnn_iree.provider.emulated import LIBRARY

pytest.importorskip("hip")

# A matmul and its activation, an op that only IREE has, and a result that is an argument.
CODE = '''
import numpy as np
from hipdnn_iree.provider.emulated import emulated
from hipdnn_iree.provider.offload import module, offload, sized
from hipdnn_iree.provider.offload.memory import GpuMemory
from hipdnn_iree.jit.runtime.hip import call

def text(n):
    v, w = f"!torch.vtensor<[{n},16],f32>", "!torch.vtensor<[16,16],f32>"
    return f"""func.func @main(%x: {v}, %w: {w}) -> ({v}, {v}) {{
      %int0 = torch.constant.int 0
      %0 = torch.aten.mm %x, %w : {v}, {w} -> {v}
      %1 = torch.aten.relu %0 : {v} -> {v}
      %2 = torch.aten.triu %1, %int0 : {v}, !torch.int -> {v}
      return %2, %x : {v}, {v}
    }}"""

def values(*dims):
    return np.random.default_rng(dims[0]).standard_normal(dims).astype(np.float32)

def right(got, x, w):
    wanted = np.triu(np.maximum(x.astype(np.float64) @ w, 0))
    assert np.abs(got[0] - wanted).max() < 1e-4, np.abs(got[0] - wanted).max()
    assert np.array_equal(got[1], x)

with emulated("gfx942") as library:
    x, w = values(4, 16), values(16, 16)
    executor = offload(text(4), "gfx942").executor()
    right(executor.run(x, w), x, w)
    memory = GpuMemory(0)
    stream = int(call("hipStreamCreate", instead=""))
    outputs = [memory.block(x.nbytes) for _ in "ab"]
    held = [*outputs, memory.keep(x.reshape(-1).view("u1")), memory.keep(w.reshape(-1).view("u1"))]
    before = library.launches
    executor.execute((*(address for address, _ in held), stream))
    got = [np.empty_like(x) for _ in "ab"]
    for array, (address, _) in zip(got, outputs):
        memory.transfer(array.ctypes.data, address, x.nbytes, to_gpu=False, from_gpu=True,
                        stream=stream)
    assert library.launches > before
    right(got, x, w)
    every = sized(module(text("?"), "gfx942"))
    assert every.programs.family is not None
    for n in (1, 5):
        x = values(n, 16)
        right(every.run(x, w), x, w)
print("done")
'''


@pytest.mark.slow
def test_a_module_on_a_stream() -> None:
    LIBRARY.find(settings())  # which needs a compiler, and the environment of this process
    assert printed(CODE, home=settings().cache_dir).strip() == "done"
