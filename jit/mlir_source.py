# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A module that somebody else wrote, as a source of code: Torch dialect, or linalg on tensors.

The file is read by a compiler worker, as MLIR's parser can be made to crash, and comes back as what
the lowering of a graph gives: Torch dialect with one function ``main`` that takes the outputs,
which it overwrites, then the inputs (`jit.emit.mlir_file`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

from ..graph_api.dtypes import DataType
from ..graph_api.errors import FormatError, Problem
from ..graph_api.frozen import FrozenGraph
from ..graph_api.tensor import TensorSpec
from .signature import ArgSpec, Signature

if TYPE_CHECKING:
    from .compiler.client import Compiler

__all__ = ["FORMS", "MlirSource", "is_mlir"]

FORMS = ("torch", "linalg")
"""What a module can be given in."""

_BEGINS = re.compile(rb'(?:\s|//[^\n]*\n)*(?:module\b|func\.func\b|builtin\.|"builtin\.|#\w|!\w)')


def is_mlir(data: bytes) -> bool:
    """Whether bytes begin like MLIR text, which neither JSON nor a FlatBuffer does."""
    return _BEGINS.match(data) is not None


@dataclass(frozen=True, kw_only=True)
class MlirSource:
    """A module to compile.

    Attributes
    ----------
    name : str
        What messages call it.
    form : str
        One of `FORMS`: what it was given in.
    text : str
        The module in Torch dialect, as the lowering of a graph writes it.
    signature : Signature
        Outputs first; 0 bytes of workspace, as nothing is compiled yet.
    digest : str
        SHA-256 of the text without locations, in hex.
    """

    name: str
    form: str
    text: str
    signature: Signature
    digest: str

    @classmethod
    def read(cls, data: bytes, compiler: Compiler, *, name: str, form: str = "") -> MlirSource:
        """Return the module in a file.

        Parameters
        ----------
        data : bytes
            The text.
        compiler : Compiler
            Whose worker reads it.
        name : str
            The file, for messages.
        form : str
            One of `FORMS` if the file must be in this form.

        Raises
        ------
        FormatError
            If it is not MLIR, or not a module of this kind, with line and column where known.
        CompileError
            If the reader crashes or runs out of time.
        """
        facts, text = compiler.perform("module", data, {"form": form}, label=name)
        problems = [Problem(port=name, **record) for record in facts["problems"]]
        if problems:
            raise FormatError(f"{name} is not an MLIR module that can be compiled", problems)
        args = (
            _argument(one["output"], DataType.parse(one["data_type"]), tuple(one["dims"]))
            for one in facts["args"]
        )
        signature = Signature(args=tuple(args))
        return cls(
            name=name,
            form=facts["form"],
            text=text.decode(),
            signature=signature,
            digest=facts["digest"],
        )

    @cached_property
    def frame(self) -> FrozenGraph:
        """The tensors of the function as a graph without nodes: ``out0`` ..., ``arg0`` ..."""
        args = self.signature.args
        count = sum(arg.output for arg in args)
        specs = {
            uid: TensorSpec(
                uid=uid,
                name=f"out{uid}" if arg.output else f"arg{uid - count}",
                data_type=arg.data_type,
                dims=arg.dims,
                strides=arg.strides,
            )
            for uid, arg in enumerate(args)
        }
        return FrozenGraph(
            name=self.name,
            io_data_type=DataType.FLOAT,
            intermediate_data_type=DataType.FLOAT,
            compute_data_type=DataType.FLOAT,
            nodes=(),
            tensors=specs,
            inputs=tuple(range(count, len(args))),
            outputs=tuple(range(count)),
        )


def _argument(output: bool, data_type: DataType, dims: tuple[int, ...]) -> ArgSpec:
    strides = tuple(prod(dims[i + 1 :]) for i in range(len(dims)))
    return ArgSpec(output=output, data_type=data_type, dims=dims, strides=strides, shape=dims)
