"""Ops that move elements: their results are views wherever PyTorch has one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ....graph_api.errors import Problem
from .torch_op import Around, Kernel, TorchOp

__all__ = ["CONCATENATE", "PAD", "RESHAPE", "SLICE", "TRANSPOSE"]


def _served(n: Around) -> Iterator[Problem]:
    yield from ()


def _reshape(n: Around, torch: Any) -> Kernel:
    dims = n.outputs["y"].dims
    return Kernel(run=lambda x: x.reshape(dims), loads=(None,))


def _transpose(n: Around, torch: Any) -> Kernel:
    order = n.op.permutation
    return Kernel(run=lambda x: x.permute(order), loads=(None,))


def _slice(n: Around, torch: Any) -> Kernel:
    op = n.op
    parts = tuple(map(slice, op.starts, op.limits, op.strides))
    return Kernel(run=lambda x: x[parts], loads=(None,))


def _concatenate(n: Around, torch: Any) -> Kernel:
    axis = n.op.axis
    # Parts may still be wider than the tensors they stand for.
    kinds = {spec.data_type for spec in n.inputs.values()}
    kind = getattr(torch, _name(n)) if len(kinds) == 1 else None

    def run(*parts: Any, out: Any = None) -> Any:
        return torch.cat(parts, axis, out=out)

    return Kernel(run=run, loads=(kind,) * len(n.inputs), takes_out=True)


def _name(n: Around) -> str:
    from .torch_op import TYPES

    return TYPES[next(iter(n.inputs.values())).data_type]


def _pad(n: Around, torch: Any) -> Kernel:
    op = n.op
    frame = [
        side
        for pair in zip(reversed(op.pre_padding), reversed(op.post_padding), strict=True)
        for side in pair
    ]
    kind, integer = n.inputs["x"].data_type, not n.inputs["x"].data_type.is_float
    fill = int(op.value) if integer else op.value
    pad = torch.nn.functional.pad
    loads = (getattr(torch, _name(n)),)
    if kind.is_bool:
        return Kernel(
            run=lambda x: pad(x.view(torch.uint8), frame, value=fill).view(torch.bool), loads=loads
        )
    return Kernel(run=lambda x: pad(x, frame, value=fill), loads=loads)


CONCATENATE = TorchOp(problems=_served, kernel=_concatenate)
PAD = TorchOp(problems=_served, kernel=_pad)
RESHAPE = TorchOp(problems=_served, kernel=_reshape)
SLICE = TorchOp(problems=_served, kernel=_slice)
TRANSPOSE = TorchOp(problems=_served, kernel=_transpose)
