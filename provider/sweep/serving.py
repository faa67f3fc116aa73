# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which sample problems the IREE engine serves, by op, data type and target; compiles nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pkgutil import iter_modules

from ...graph_api.dtypes import DataType
from ...graph_api.ops import OPS
from ...jit import ops, support
from ...jit.target import GFX9_ARCHS, Target
from .samples import sample_problems

__all__ = ["TARGETS", "Served", "rule_texts", "serving"]

TARGETS = ("cpu", *GFX9_ARCHS)
"""Targets of which tables speak; the others compile the same code for another size or CPU."""


@dataclass(slots=True)
class Served:
    """What becomes of the samples of one op in one data type for one target.

    Attributes
    ----------
    served : int
        Number of those that are served.
    declined : dict of str to list of str
        Rule to the names of samples that it declines.
    """

    served: int = 0
    declined: dict[str, list[str]] = field(default_factory=dict)

    @property
    def samples(self) -> int:
        """Number of all samples."""
        return self.served + len({name for names in self.declined.values() for name in names})


def serving(
    ops: Iterable[str] = tuple(OPS), targets: Iterable[str] = TARGETS
) -> Iterator[tuple[str, Mapping[DataType, Mapping[str, Served]]]]:
    """Yield each op with what is served, by data type of the main operands and target.

    Parameters
    ----------
    ops, targets : iterable of str
    """
    chosen = {name: Target.parse(name) for name in targets}
    for op in ops:
        found: dict[DataType, dict[str, Served]] = {}
        for sample in sample_problems(op):
            for data_type in sample.dtypes:
                graph = sample.graph(data_type).freeze()
                row = found.setdefault(data_type, {name: Served() for name in chosen})
                for name, target in chosen.items():
                    rules = {p.rule for p in support.problems(graph, target)}
                    row[name].served += not rules
                    for rule in sorted(rules):
                        row[name].declined.setdefault(rule, []).append(sample.name)
        yield op, {t: found[t] for t in DataType if t in found}


def rule_texts() -> dict[str, str]:
    """Return the sentence of every rule by which the IREE engine declines."""
    names = (f"{ops.__name__}.{module.name}" for module in iter_modules(ops.__path__))
    tables = (getattr(import_module(name), "RULES", {}) for name in names)
    return {**support.RULES, **{rule: text for table in tables for rule, text in table.items()}}
