# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The list of operations; every layer finds its module of an op by the op's name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from itertools import takewhile
from operator import eq
from types import MethodType
from typing import Any, NamedTuple

from .base import Op

__all__ = ["FAMILIES", "NAMES_BY_CODE", "OPS", "OpMethod", "Ops", "op_of_type"]


class Row(NamedTuple):
    """What of an op has to be known without importing its module.

    Attributes
    ----------
    family : str
        The folder that it is in where a layer has folders; ``""`` for none.
    code : int or None
        Its ``WIRE_CODE``.
    """

    family: str
    code: int | None = None


_ROWS = {
    "batchnorm": Row("norm", 4),
    "batchnorm_backward": Row("norm", 3),
    "batchnorm_inference": Row("norm", 1),
    "batchnorm_inference_variance_ext": Row("norm", 8),
    "block_scale_dequantize": Row("block_scale", 13),
    "block_scale_quantize": Row("block_scale", 14),
    "concatenate": Row("movement"),
    "conv_dgrad": Row("conv", 6),
    "conv_fprop": Row("conv", 5),
    "conv_wgrad": Row("conv", 7),
    "cumsum": Row(""),
    "custom_op": Row("", 16),
    "layernorm": Row("norm", 11),
    "layernorm_backward": Row("norm", 20),
    "matmul": Row("", 9),
    "moe_grouped_matmul": Row("moe", 22),
    "moe_grouped_matmul_bwd": Row("moe", 23),
    "pad": Row("movement"),
    "pointwise": Row("", 2),
    "reduction": Row("", 18),
    "resample_bwd": Row("resample", 21),
    "resample_fwd": Row("resample", 19),
    "reshape": Row("movement"),
    "rmsnorm": Row("norm", 10),
    "rmsnorm_backward": Row("norm", 17),
    "sdpa": Row("attention", 12),
    "sdpa_backward": Row("attention", 15),
    "slice": Row("movement"),
    "transpose": Row("movement"),
}

FAMILIES: dict[str, str] = {name: row.family for name, row in _ROWS.items()}
"""Each op and its family."""

NAMES_BY_CODE: dict[int, str] = {
    row.code: name for name, row in _ROWS.items() if row.code is not None
}
"""The op of each code in hipDNN's union of node attributes."""


class Ops(Mapping[str, type[Op]]):
    """The class of each op; its module is imported when it is first asked for."""

    def __getitem__(self, name: str) -> type[Op]:
        if name not in FAMILIES:
            raise KeyError(name)
        camel = "".join(map(str.title, name.split("_")))
        found: type[Op] = getattr(import_module(f".{name}", __name__), camel)
        return found

    def __contains__(self, name: object) -> bool:
        return name in FAMILIES

    def __iter__(self) -> Iterator[str]:
        return iter(FAMILIES)

    def __len__(self) -> int:
        return len(FAMILIES)


OPS = Ops()


@lru_cache(maxsize=64)
def op_of_type(type_name: str) -> type[Op] | None:
    """Return the op of a node's type in graph JSON.

    Ops whose names begin like the type are looked at first, so that few modules are imported.
    """
    word = type_name.lower()

    def shared(name: str) -> int:
        return sum(takewhile(bool, map(eq, name.replace("_", ""), word)))

    ordered = sorted(OPS, key=shared, reverse=True)
    return next((OPS[name] for name in ordered if type_name == OPS[name].TYPE_NAME), None)


class OpMethod:
    """A method of a class that becomes an op's function when it is first asked for."""

    def __init__(self, owner: type, name: str) -> None:
        self.owner = owner
        self.name = name

    def __get__(self, graph: object, cls: type) -> Any:
        function = getattr(import_module(f".{self.name}", __name__), self.name)
        setattr(self.owner, self.name, function)
        return function if graph is None else MethodType(function, graph)
