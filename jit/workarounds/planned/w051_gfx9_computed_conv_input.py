# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""W-051: A convolution's input that is computed is channels-first whatever its strides say.

Values between two convolutions have no memory that a user sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...node_context import GraphContext, NodeContext
from ..rule import GFX9, Workaround
from .w050_gpu_mixed_conv_layouts import Remedy, remedy

__all__ = ["WORKAROUND"]


CHANNELS_LAST = (
    "--iree-preprocessing-pass-pipeline="
    "builtin.module(iree-preprocessing-backward-data-conv-pipeline,"
    "util.func(iree-preprocessing-convert-conv-to-channels-last))"
)


def _flags(around: GraphContext, nodes: Sequence[NodeContext]) -> Iterator[str]:
    if remedy(around) is Remedy.CHANNELS_LAST:
        yield CHANNELS_LAST


WORKAROUND = Workaround(
    id="W-051",
    title="A convolution's input that is computed is channels-first whatever its strides say",
    symptom="wrong numbers",
    targets=GFX9,
    instead="every convolution is made a channels-last one before it is fused",
    flags=_flags,
)
