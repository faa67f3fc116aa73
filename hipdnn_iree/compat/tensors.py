# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tensors of other frontends: setters and getters around ours."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..graph_api.dtypes import DataType
from ..graph_api.errors import NotSupportedError
from ..graph_api.graph import Graph
from ..graph_api.layout import contiguous_strides
from ..graph_api.tensor import Tensor

__all__ = ["TensorAttributes", "like"]


class TensorAttributes:
    """What other frontends call a tensor; `tensor` is ours.

    One that is made without a graph (``hipdnn_frontend.Tensor``) belongs to one of its own, and is
    copied to the graph of the first method that takes it.

    Parameters
    ----------
    tensor : Tensor, optional
        Ours, of some graph.
    """

    __slots__ = ("_bound", "tensor")

    def __init__(self, tensor: Tensor | None = None) -> None:
        self._bound = tensor is not None
        self.tensor = Graph().tensor() if tensor is None else tensor

    @classmethod
    def create(cls, dims: Sequence[int], data_type: DataType | str) -> TensorAttributes:
        """Return a contiguous tensor that belongs to no graph yet."""
        strides = contiguous_strides(tuple(dims))
        return cls().set_dim(dims).set_stride(strides).set_data_type(data_type)

    def bind(self, graph: Graph) -> Tensor:
        """Return our tensor; one that belongs to no graph yet is added to this one."""
        if not self._bound:
            given = self.tensor
            about: dict[str, Any] = {
                "data_type": given.given_type,
                "name": given.name,
                "uid": given.given_uid,
            }
            if given.value is not None:
                self.tensor = graph.scalar(given.value, **about)
            elif given.runtime_scalar:
                self.tensor = graph.runtime_scalar(**about)
            else:
                self.tensor = graph.tensor(
                    dims=given.given_dims,
                    strides=given.given_strides,
                    virtual=given.virtual,
                    **about,
                )
            self._bound = True
        return self.tensor

    def adopt(self, result: Tensor) -> TensorAttributes:
        """Become a result: what was set here is set there."""
        given, self.tensor, self._bound = self.tensor, result, True
        result.given_dims, result.given_strides = given.given_dims, given.given_strides
        result.given_type, result.name = given.given_type, given.name
        result.virtual = given.virtual
        if given.given_uid is not None:
            result.set_uid(given.given_uid)
        return self

    def __repr__(self) -> str:
        return repr(self.tensor)

    def get_uid(self) -> int:
        """Return the uid; 0 for a tensor of no graph that was given none."""
        return self.tensor.uid if self._bound else self.tensor.given_uid or 0

    def has_uid(self) -> bool:
        """Whether a uid was given or taken."""
        return self.tensor.given_uid is not None

    def clear_uid(self) -> TensorAttributes:
        """Forget the uid."""
        self.tensor.given_uid = None
        return self

    def set_uid(self, uid: int) -> TensorAttributes:
        """Set the uid."""
        self.tensor.set_uid(uid)
        return self

    def get_name(self) -> str:
        """Return the label."""
        return self.tensor.name

    def set_name(self, name: str) -> TensorAttributes:
        """Set the label."""
        self.tensor.set_name(name)
        return self

    def get_data_type(self) -> DataType:
        """Return the element type."""
        return self.tensor.data_type

    def set_data_type(self, data_type: DataType | str) -> TensorAttributes:
        """Set the element type; those of PyTorch and NumPy count."""
        self.tensor.set_data_type(data_type)
        return self

    def get_dim(self) -> list[int]:
        """Return the dims, as far as they follow; else an empty list."""
        return list(self.tensor.dims or ())

    def set_dim(self, dims: Sequence[int]) -> TensorAttributes:
        """Set the dims."""
        self.tensor.set_dim(dims)
        return self

    def get_stride(self) -> list[int]:
        """Return the strides in elements, as far as they follow; else an empty list."""
        return list(self.tensor.strides or ())

    def set_stride(self, strides: Sequence[int]) -> TensorAttributes:
        """Set the strides, in elements."""
        self.tensor.set_stride(strides)
        return self

    def get_is_virtual(self) -> bool:
        """Whether the tensor has no buffer."""
        return self.tensor.virtual

    def set_is_virtual(self, virtual: bool) -> TensorAttributes:
        """Set whether the tensor has no buffer."""
        self.tensor.set_output(not virtual)
        return self

    def set_output(self, output: bool) -> TensorAttributes:
        """Give the tensor a buffer of its own, or take it away."""
        self.tensor.set_output(output)
        return self

    def get_is_pass_by_value(self) -> bool:
        """Whether it is one number that the host passes."""
        return self.tensor.runtime_scalar or self.tensor.value is not None

    def set_is_pass_by_value(self, by_value: bool) -> TensorAttributes:
        """Set whether it is one number that the host passes at each execution."""
        self.tensor.runtime_scalar = by_value
        if by_value:
            self.tensor.set_dim((1,)).set_stride((1,))
        return self

    def set_value(self, value: float) -> TensorAttributes:
        """Make it a number that is part of the code."""
        self.tensor.value = value
        self.tensor.set_dim((1,)).set_stride((1,))
        return self

    def get_volume(self) -> int:
        """Return the number of elements."""
        return prod(self.get_dim())

    def set_ragged_offset(self, offset: TensorAttributes) -> TensorAttributes:
        """Refuse ragged tensors; no engine here serves them."""
        raise NotSupportedError(
            "ragged tensors are not served; pad the sequences, and give sdpa seq_len_q and "
            "seq_len_kv with use_padding_mask=True"
        )


def like(graph: Graph, data: Any, name: str = "") -> TensorAttributes:
    """Return a tensor of a graph with the dims, strides and type of an array.

    One number in host memory is passed by value, as in both frontends.

    Raises
    ------
    TypeError
        For what is no array and exports no DLPack, and for an element type that is not known.
    """
    from ..jit.runtime.caller_memory import HOST, describe

    found = describe(data, name or "tensor_like") if not isinstance(data, int) else None
    memory = found[0] if isinstance(found, tuple) else None
    if memory is None or memory.dims is None or memory.strides is None:
        kind = type(data).__name__
        raise TypeError(f"tensor_like takes a tensor or an array with __dlpack__, got a {kind}")
    dims, strides = memory.dims, memory.strides
    if not isinstance(memory.type, DataType) or memory.uneven:
        raise TypeError(f"tensor_like got an array of {memory.type}; use one of {_KNOWN}")
    if memory.device == HOST and prod(dims) == 1:
        return TensorAttributes(graph.runtime_scalar(data_type=memory.type, name=name))
    return TensorAttributes(
        graph.tensor(dims=dims, strides=strides, data_type=memory.type, name=name)
    )


_KNOWN = ", ".join(t.json for t in DataType if t is not DataType.UNSET)
