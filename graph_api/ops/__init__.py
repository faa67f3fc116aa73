"""The list of operations; every layer finds its module of an op by the op's name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from itertools import takewhile
from operator import eq
from types import MethodType
from typing import Any

from .base import Op

__all__ = ["FAMILIES", "OPS", "OpMethod", "Ops", "op_of_type"]

FAMILIES: dict[str, str] = {
    "batchnorm": "norm",
    "batchnorm_backward": "norm",
    "batchnorm_inference": "norm",
    "batchnorm_inference_variance_ext": "norm",
    "block_scale_dequantize": "block_scale",
    "block_scale_quantize": "block_scale",
    "concatenate": "movement",
    "conv_dgrad": "conv",
    "conv_fprop": "conv",
    "conv_wgrad": "conv",
    "cumsum": "",
    "custom_op": "",
    "layernorm": "norm",
    "layernorm_backward": "norm",
    "matmul": "",
    "moe_grouped_matmul": "moe",
    "moe_grouped_matmul_bwd": "moe",
    "pad": "movement",
    "pointwise": "",
    "reduction": "",
    "resample_bwd": "resample",
    "resample_fwd": "resample",
    "reshape": "movement",
    "rmsnorm": "norm",
    "rmsnorm_backward": "norm",
    "sdpa": "attention",
    "sdpa_backward": "attention",
    "slice": "movement",
    "transpose": "movement",
}
"""Each op, and the family whose folder it is in where a layer has folders (``""`` for none)."""


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
