# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rotary position embedding as a custom op in MLIR, followed by an op of hipDNN.

python examples/custom_op.py [TARGET...]
"""

import sys
from pathlib import Path

import numpy as np
from hipdnn_iree import Graph

# Each head's first half is turned against its second one.  {IN0_TYPE} and the like are what the
# tensors say, so that the text serves any number of heads and tokens, and any float type.
ROPE = """
!x = {IN0_TYPE}
!t = {IN1_TYPE}
!h = !torch.vtensor<[{IN0_DIM0},{IN0_DIM1},{IN0_DIM2},{IN1_DIM3}],{IN0_DTYPE}>
!hs = !torch.list<vtensor<[{IN0_DIM0},{IN0_DIM1},{IN0_DIM2},{IN1_DIM3}],{IN0_DTYPE}>>
!i = !torch.int
func.func @{FUNC_NAME}(%x: !x, %cos: !t, %sin: !t) -> !x {
  %0 = torch.constant.int 0
  %1 = torch.constant.int 1
  %3 = torch.constant.int 3
  %half = torch.constant.int {IN1_DIM3}
  %full = torch.constant.int {IN0_DIM3}
  %a = torch.aten.slice.Tensor %x, %3, %0, %half, %1 : !x, !i, !i, !i, !i -> !h
  %b = torch.aten.slice.Tensor %x, %3, %half, %full, %1 : !x, !i, !i, !i, !i -> !h
  %ac = torch.aten.mul.Tensor %a, %cos : !h, !t -> !h
  %bs = torch.aten.mul.Tensor %b, %sin : !h, !t -> !h
  %as = torch.aten.mul.Tensor %a, %sin : !h, !t -> !h
  %bc = torch.aten.mul.Tensor %b, %cos : !h, !t -> !h
  %p = torch.aten.sub.Tensor %ac, %bs, %1 : !h, !h, !i -> !h
  %q = torch.aten.add.Tensor %as, %bc, %1 : !h, !h, !i -> !h
  %pq = torch.prim.ListConstruct %p, %q : (!h, !h) -> !hs
  %y = torch.aten.cat %pq, %3 : !hs, !i -> !x
  return %y : !x
}
"""


def build(heads: int = 8, tokens: int = 64, width: int = 32) -> Graph:
    """Return the graph: y = rope(x) / 2."""
    graph = Graph("rope", io_data_type="float", compute_data_type="float")
    dims = (1, heads, tokens, width)
    x = graph.tensor(dims=dims, name="x")
    cos = graph.tensor(dims=(1, 1, tokens, width // 2), name="cos")
    sin = graph.tensor(dims=(1, 1, tokens, width // 2), name="sin")
    (turned,) = graph.custom_op(
        mlir=ROPE, inputs=[x, cos, sin], outputs=[(dims, "float")], name="rope"
    )
    graph.mul(turned, 0.5).set_output().set_name("y")
    return graph


def main() -> None:
    """Run it, check it with NumPy (a custom op has no float64 reference), compile for targets."""
    graph = build()
    print(graph.freeze())  # checked, with all that was inferred
    if "--json" in sys.argv:
        path = Path(sys.argv[0]).with_suffix(".json")
        graph.save(path)
        print(f"wrote {path}")
        return

    plan = graph.build("cpu")
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1, 8, 64, 32), np.float32)
    angles = np.outer(np.arange(64), 10000.0 ** (-np.arange(16) / 16))[None, None]
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    (y,) = plan.run({"x": x, "cos": cos, "sin": sin}).values()
    a, b = np.split(x.astype(np.float64), 2, axis=-1)
    expected = np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1) / 2
    error = float(np.abs(y - expected).max())
    verdict = "ok" if error < 1e-6 else "WRONG"
    print(f"ran on {plan.target} by {plan.engine}: error {error:.1e}; {verdict}")

    for target in sys.argv[1:]:
        code = build().build(target)
        print(f"compiled for {target} (cache {code.cache}): {code.statistics}")
    sys.exit(0 if error < 1e-6 else 1)


if __name__ == "__main__":
    main()
