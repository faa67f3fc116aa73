# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plans that execute only through binding: `Plan._bind` is all that they define."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .engines.host_memory import arguments_of, new_outputs
from .plan import Plan

if TYPE_CHECKING:
    import numpy as np

    from ..jit.signature import ArgSpec

__all__ = ["BindingPlan"]


@dataclass(kw_only=True, repr=False)
class BindingPlan(Plan):
    """A plan that defines ``_bind``; this class derives the other ways to execute."""

    @property
    def on_host(self) -> bool:
        """Whether it uses host memory; otherwise ``run`` copies its inputs and outputs."""
        return self.target.is_cpu

    @cached_property
    def arguments(self) -> dict[int, ArgSpec]:
        """The argument of each output and input, by uid."""
        return arguments_of(self.graph)

    def _execute(self, buffers: Mapping[int, Any], workspace: Any) -> None:
        self._bind(buffers, workspace, False)()

    def _run(self, inputs: Mapping[int, Any], copy: bool) -> dict[int, np.ndarray[Any, Any]]:
        outputs = new_outputs(self.arguments, inputs)
        self._bind({**inputs, **outputs}, None, copy or not self.on_host)()
        return outputs
