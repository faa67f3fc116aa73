# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the strategies of attention cost on CPUs.

As in `conv_cost` an estimate is a sum of quantities times nanoseconds on one core.  They are fitted
to attention of ``suites/random.yaml`` and of networks, with two threads, times two:
``tests/data/strategies`` and ``docs/design/0007-strategies.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ...graph_api.dtypes import DataType
from ..cpu_machine import CpuMachine, cpu_machine
from ..target import Target
from .blocking import BLOCKED
from .conv_cost import price
from .matmul_cost import Product, cheapest_tiles

__all__ = [
    "COMPOSITE",
    "Attention",
    "attention_costs",
    "attention_nanoseconds",
    "attention_product",
    "attention_quantities",
]

COMPOSITE = "composite"

_Rates = Mapping[str, Mapping[str, float]]
Dims = tuple[int, ...]

# An AMD EPYC of Zen 3, where `blocked` had no other tiles yet; what is read, and `blocked`, of code
# for AVX2 on a Xeon, 102 attentions, all taken twice.  Floats of 16 bits are copied there first.
_AVX2: _Rates = {
    COMPOSITE: {
        "call": 12000, "keys singly": 0.12, "multiplied": 0.05, "peeled": 15, "read": 0.24,
        "results singly": 0.09, "score": 5,
    },
    BLOCKED: {"products": 0.8, "score": 3},
}  # fmt: skip
_AVX2_IN_16_BITS: _Rates = {
    **_AVX2,
    COMPOSITE: {**_AVX2[COMPOSITE], "call": 23000, "read": 1.1},
}

# An Intel Xeon (Emerald Rapids), 97 and 65 attentions.
_AVX512: _Rates = {
    COMPOSITE: {
        "call": 14000, "keys singly": 0.24, "multiplied": 0.034, "peeled": 0.54, "read": 0.19,
        "results singly": 0.23,
    },
    BLOCKED: {"products": 0.69, "score": 1.7},
}  # fmt: skip
_IN_16_BITS: _Rates = {
    COMPOSITE: {
        "call": 14000, "keys singly": 0.048, "multiplied": 0.055, "peeled": 15, "read": 0.15,
        "results singly": 0.28,
    },
    BLOCKED: {"products": 0.67, "score": 0.58},
}  # fmt: skip


class Attention(NamedTuple):
    """Attention of so many matrices of k and v.

    Attributes
    ----------
    matrices : int
        Samples times heads of k.
    rows : int
        Queries that meet a matrix: of all heads that share it.
    keys, features, results : int
        Rows of k, its columns, and those of v.
    narrow : bool
        Whether k and v have 16 bits.
    """

    matrices: int
    rows: int
    keys: int
    features: int
    results: int
    narrow: bool

    @classmethod
    def of(cls, q: Dims, k: Dims, v: Dims, kind: DataType) -> Attention:
        """Return that of operands of these dims; k and v are of a type, and not in pages."""
        (batch, heads, queries, features), (_, key_heads, keys, _) = q, k
        rows = heads // key_heads * queries
        return cls(batch * key_heads, rows, keys, features, v[3], kind.bits < DataType.FLOAT.bits)


def attention_product(
    count: int, m: int, k: int, n: int, *, columns: bool, narrow: bool, turned: bool = False
) -> Product:
    """Return a batch of attention's matmuls, whose left operand was computed before.

    ``columns``: whether the columns of the right operand come one after the other.  ``narrow``:
    whether it has 16 bits.  ``turned``: whether the left one is the transpose of what was computed.
    """
    along, constant = (not turned, columns), (False, False)
    return Product(count, m, k, n, along, constant, virtual=False, narrow=narrow)


def attention_nanoseconds(machine: CpuMachine, *, narrow: bool) -> _Rates:
    """Return the rates by the name of the strategy; ``narrow``: of k and v in 16 bits."""
    if machine.has_avx512:
        return _IN_16_BITS if narrow else _AVX512
    return _AVX2_IN_16_BITS if narrow else _AVX2


def attention_costs(target: Target, attention: Attention) -> dict[str, float]:
    """Return estimates in microseconds by the name of the strategy."""
    rates = attention_nanoseconds(cpu_machine(target), narrow=attention.narrow)
    found = attention_quantities(target, attention)
    return {name: price(does, rates[name]) for name, does in found.items()}


def attention_quantities(target: Target, attention: Attention) -> dict[str, dict[str, float]]:
    """Return what each strategy does, in numbers."""
    count, rows, keys, features, results, narrow = attention
    lanes, scores = cpu_machine(target).lanes, count * rows * keys
    # A vector is multiplied as well with keys that do not fill vectors.
    ragged = keys % lanes > 0 and rows > 1
    parts = ((features, ragged), (results, results % lanes > 0 and rows > 1))
    products = (
        attention_product(count, rows, features, keys, columns=True, narrow=narrow),
        attention_product(count, rows, keys, results, columns=False, narrow=narrow),
    )
    return {
        COMPOSITE: {
            "call": 1,
            "read": count * keys * (features + results),
            "multiplied": (rows > 1) * scores * sum(n for n, singly in parts if not singly),
            "keys singly": scores * features * ragged,
            "results singly": scores * results * parts[1][1],
            "peeled" if ragged else "score": scores,
        },
        BLOCKED: {
            "products": 1e3 * sum(cheapest_tiles(target, one)[0] for one in products),
            "score": scores,
        },
    }
