"""Plans whose one way to execute is to bind: buffers become a call, which is made once."""

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
    """A plan that says how it binds, and leaves the rest to this class."""

    @property
    def on_host(self) -> bool:
        """Whether it works on host memory; other plans copy what ``run`` is given and returns."""
        return self.target.is_cpu

    @cached_property
    def arguments(self) -> dict[int, ArgSpec]:
        """What each output and input is, by uid."""
        return arguments_of(self.graph)

    def _execute(self, buffers: Mapping[int, Any], workspace: Any) -> None:
        self._bind(buffers, workspace, False)()

    def _run(self, inputs: Mapping[int, Any], copy: bool) -> dict[int, np.ndarray[Any, Any]]:
        outputs = new_outputs(self.arguments, inputs)
        self._bind({**inputs, **outputs}, None, copy or not self.on_host)()
        return outputs
