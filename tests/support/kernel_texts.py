# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels as the compiler forms them, as text, and which check strikes them."""

from __future__ import annotations

from hipdnn_iree import Target
from hipdnn_iree.jit.compiler.dispatch_checks import Defective, check, checks_for
from under_settings import target_flags

__all__ = ["COPY", "FLAGS", "LOOP", "SUM", "struck"]

FLAGS = {name: target_flags(Target.parse(name)) for name in ("cpu", "gfx942", "cuda:sm_80")}
COPY = b'        %7 = linalg.generic {iterator_types = ["parallel", "parallel"]} ins(%padded) {\n'
SUM = COPY.replace(b'"parallel"]', b'"reduction"]')
KERNEL = b"flow.executable private @main$async_dispatch_%d {\n%s}\n"

# A kernel with two loops, the second of which reads the first one.
LOOP = """\
        %{name} = linalg.generic {{iterator_types = ["parallel", "{kind}"]}} ins(%{of}) outs(%1) {{
        ^bb0(%in: f32, %out: f32):
          %9 = arith.{op} %in, %out : f32
          linalg.yield %9 : f32
        }} -> tensor<99xf32>
"""


def struck(kernels: list[bytes], target: str) -> str:
    text = b"".join(KERNEL % (number, body) for number, body in enumerate(kernels))
    try:
        check(checks_for(FLAGS[target]), b"util.global private @device\n" + text)
    except Defective as error:
        return error.found.id
    return ""
