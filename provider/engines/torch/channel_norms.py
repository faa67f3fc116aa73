# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the four forms of batch normalisation share.

PyTorch's kernels serve training and inference where epsilon and momentum are known; what else
the ops allow is a formula of its functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ....graph_api.errors import Problem
from ...engine import EngineKnob
from .torch_op import Kernel, NodeContext, loads

KNOB = EngineKnob(
    name="batchnorm.form",
    choices=("centred", "folded"),
    default="centred",
    help="folded: torch.batch_norm's one pass; centred: exact near the mean, in two",
)
"""The mean is subtracted from x first, which is exact near it; or, as ``torch.batch_norm`` does,
factor and summand are made of the statistics, in one pass: digits cancel where x is near the mean.
"""


Results = dict[str, Any]


def problems(n: NodeContext) -> Iterator[Problem]:
    yield from n.only_floats()
    if any(port.startswith("peer_stats") for port in n.inputs):
        wanted = "statistics of this process only"
        yield n.problem("TORCH-ENG-07", "peer_stats", "statistics of other devices", wanted)


def named(n: NodeContext, torch: Any, formula: Callable[[dict[str, Any]], Results]) -> Kernel:
    """Return the kernel of a formula from operands by port to results by port."""
    ports, results = tuple(n.inputs), tuple(n.outputs)

    def run(*operands: Any) -> Any:
        found = formula(dict(zip(ports, operands, strict=True)))
        made = tuple(found[port] for port in results)
        return made if len(made) > 1 else made[0]

    return Kernel(run=run, loads=loads(n, torch))


def affine(torch: Any, x: Any, mean: Any, inverse: Any, scale: Any, bias: Any) -> Any:
    # Not folded into one factor and one summand, which would cancel where x is near the mean.
    return torch.addcmul(bias, x - mean, inverse * scale)


def folded(torch: Any, x: Any, mean: Any, variance: Any, scale: Any, bias: Any, e: float) -> Any:
    flat = [t.reshape(-1) for t in (scale, bias, mean, variance)]
    return torch.batch_norm(x, *flat, False, 0.0, e, True)
