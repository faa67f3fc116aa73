# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cases of a survey: every sample problem, in every data type, for every target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.graph_api.errors import Problem
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.jit import support
from hipdnn_iree.jit.target import Target
from hipdnn_iree.provider.sweep.samples import op_of, sample_problems
from hipdnn_iree.provider.sweep.suite import Case

from tools.survey.record import Key

__all__ = ["Trial", "cases", "few"]

_LAYOUTS = frozenset({"nhwc", "permuted", "transposed", "mixed_layout"})


@dataclass(frozen=True)
class Trial:
    """One sample problem in one data type for one target.

    Attributes
    ----------
    sample : Case
    data_type : DataType
        Of the main operands.
    target : Target
    """

    sample: Case
    data_type: DataType
    target: Target

    @property
    def op(self) -> str:
        """The op that the sample is for."""
        return op_of(self.sample)

    @property
    def name(self) -> str:
        """``<sample> <data type> <target>``."""
        return f"{self.sample.name} {self.data_type.json} {self.target}"

    @property
    def key(self) -> Key:
        """What a record calls it."""
        return self.sample.name, self.data_type.json, str(self.target)

    @cached_property
    def graph(self) -> FrozenGraph:
        """The problem, frozen."""
        return self.sample.graph(self.data_type).freeze()

    @cached_property
    def declines(self) -> tuple[Problem, ...]:
        """Why the IREE engine does not serve it; empty when it does."""
        return tuple(support.problems(self.graph, self.target))

    def ir_digest(self) -> str:
        """Return a digest of all that decides the compiled code: IR, flags and versions.

        Two runs of a survey with equal digests have compiled the same.
        """
        from hipdnn_iree.jit.cache import versions
        from hipdnn_iree.jit.lowering.module import lower_graph
        from hipdnn_iree.jit.options import CompileOptions
        from hipdnn_iree.jit.pipeline import flags
        from hipdnn_iree.jit.settings import settings

        parts = [
            lower_graph(self.graph, self.target),
            *flags(self.graph, self.target, CompileOptions.of(settings())),
        ]
        parts += [f"{name} {value}" for name, value in sorted(versions().items())]
        return sha256("\n".join(parts).encode()).hexdigest()[:16]


def cases(
    targets: Iterable[Target],
    data_types: Iterable[DataType] = (),
    pattern: str = "",
    samples: Iterable[Case] | None = None,
) -> Iterator[Trial]:
    """Yield the cases in order of sample, data type and target.

    Parameters
    ----------
    targets : iterable of Target
    data_types : iterable of DataType
        Those of interest; none given: all that a sample is for.
    pattern : str
        Part of a sample's name.
    samples : iterable of Case, optional
        By default the sample problems of all ops.
    """
    wanted, targets = tuple(data_types), tuple(targets)
    for sample in sample_problems() if samples is None else samples:
        if pattern in sample.name:
            for data_type in sample.dtypes:
                if not wanted or data_type in wanted:
                    for target in targets:
                        yield Trial(sample, data_type, target)


def few(samples: Iterable[Case] | None = None) -> tuple[Case, ...]:
    """Return samples that stand for all: per op and data type a plain one and another layout.

    Of an op without a layout of its own the one with the most specialities is the second.
    """
    chosen: dict[str, Case] = {}
    everything = tuple(sample_problems() if samples is None else samples)
    for op in dict.fromkeys(map(op_of, everything)):
        mine = [s for s in everything if op_of(s) == op]
        for data_type in dict.fromkeys(t for s in mine for t in s.dtypes):
            fit = [s for s in mine if data_type in s.dtypes]
            plain = next((s for s in fit if "size1" not in s.tags), fit[0])
            others = [s for s in fit if s is not plain] or fit
            turned = next((s for s in others if _LAYOUTS.intersection(s.tags)), None)
            second = turned or max(others, key=lambda s: len(s.tags))
            chosen |= {plain.name: plain, second.name: second}
    return tuple(s for s in everything if s.name in chosen)
