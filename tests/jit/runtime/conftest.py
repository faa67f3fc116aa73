# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiled modules for the runtime tests, each compiled once a session by a child process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from hipdnn_iree.graph_api.dtypes import DataType
from hipdnn_iree.jit.compiler.request import CompileRequest
from hipdnn_iree.jit.runtime.device import Device
from hipdnn_iree.jit.runtime.executable import Executable
from hipdnn_iree.jit.runtime.loaded_module import LoadedModule, transient_bytes
from hipdnn_iree.jit.signature import ArgSpec, Signature
from under_settings import Compiler

FLAGS = (
    *("--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"),
    *("--iree-torch-externalize-transients", "--iree-input-demote-f64-to-f32=false"),
)
HEAD = "attributes {torch.assume_strict_symbolic_shapes}"

RELU = f"""
func.func @main(%y: !torch.tensor<[4,4],f32>, %x: !torch.vtensor<[4,4],f32>) {HEAD} {{
  %r = torch.aten.relu %x : !torch.vtensor<[4,4],f32> -> !torch.vtensor<[4,4],f32>
  torch.overwrite.tensor.contents %r overwrites %y
      : !torch.vtensor<[4,4],f32>, !torch.tensor<[4,4],f32>
  return
}}
"""

# y = (x w) w: the product in the middle is the workspace.
CHAIN = f"""
!t = !torch.vtensor<[48,48],f32>
func.func @main(%y: !torch.tensor<[48,48],f32>, %x: !t, %w: !t) {HEAD} {{
  %a = torch.aten.mm %x, %w : !t, !t -> !t
  %b = torch.aten.mm %a, %w : !t, !t -> !t
  torch.overwrite.tensor.contents %b overwrites %y : !t, !torch.tensor<[48,48],f32>
  return
}}
"""

# y = relu(x) in NHWC; z = a + b with b broadcast along the rows; p = relu(q), q with padded rows.
LAYOUTS = f"""
!x = !torch.vtensor<[2,4,5,3],f32>
!a = !torch.vtensor<[4,6],f32>
!b = !torch.vtensor<[1,6],f32>
!q = !torch.vtensor<[16],f32>
!h = !torch.vtensor<[6],f32>
!c = !torch.vtensor<[12],f32>
!p = !torch.vtensor<[2,6],f32>
func.func @main(%y: !torch.tensor<[2,4,5,3],f32>, %z: !torch.tensor<[4,6],f32>,
    %p: !torch.tensor<[2,6],f32>, %x: !x, %a: !a, %b: !b, %q: !q) {HEAD} {{
  %i0 = torch.constant.int 0
  %i1 = torch.constant.int 1
  %i2 = torch.constant.int 2
  %i6 = torch.constant.int 6
  %i10 = torch.constant.int 10
  %i16 = torch.constant.int 16
  %r = torch.aten.relu %x : !x -> !x
  torch.overwrite.tensor.contents %r overwrites %y : !x, !torch.tensor<[2,4,5,3],f32>
  %s = torch.aten.add.Tensor %a, %b, %i1 : !a, !b, !torch.int -> !a
  torch.overwrite.tensor.contents %s overwrites %z : !a, !torch.tensor<[4,6],f32>
  %q0 = torch.aten.slice.Tensor %q, %i0, %i0, %i6, %i1
      : !q, !torch.int, !torch.int, !torch.int, !torch.int -> !h
  %q1 = torch.aten.slice.Tensor %q, %i0, %i10, %i16, %i1
      : !q, !torch.int, !torch.int, !torch.int, !torch.int -> !h
  %l = torch.prim.ListConstruct %q0, %q1 : (!h, !h) -> !torch.list<vtensor>
  %c = torch.aten.cat %l, %i0 : !torch.list<vtensor>, !torch.int -> !c
  %d = torch.aten.relu %c : !c -> !c
  %n = torch.prim.ListConstruct %i2, %i6 : (!torch.int, !torch.int) -> !torch.list<int>
  %v = torch.aten.view %d, %n : !c, !torch.list<int> -> !p
  torch.overwrite.tensor.contents %v overwrites %p : !p, !torch.tensor<[2,6],f32>
  return
}}
"""


def dense(dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(np.prod(dims[i + 1 :], dtype=int)) for i in range(len(dims)))


def arg(
    dims: tuple[int, ...],
    output: bool = False,
    data_type: DataType = DataType.FLOAT,
    strides: tuple[int, ...] | None = None,
    shape: tuple[int, ...] | None = None,
) -> ArgSpec:
    return ArgSpec(
        output=output,
        data_type=data_type,
        dims=dims,
        strides=dense(dims) if strides is None else strides,
        shape=dims if shape is None else shape,
    )


RELU_ARGS = (arg((4, 4), True), arg((4, 4)))
CHAIN_ARGS = (arg((48, 48), True), arg((48, 48)), arg((48, 48)))
NHWC = {"strides": (60, 1, 15, 3), "shape": (2, 4, 5, 3)}
LAYOUT_ARGS = (
    arg((2, 3, 4, 5), True, **NHWC),
    arg((4, 6), True),
    arg((2, 6), True),
    arg((2, 3, 4, 5), **NHWC),
    arg((4, 6)),
    arg((4, 6), strides=(0, 1), shape=(1, 6)),
    arg((2, 6), strides=(10, 1), shape=(16,)),
)


@pytest.fixture(scope="session")
def compile_text() -> Iterator[Callable[..., bytes]]:
    """Return text -> vmfb, remembered; the compiler runs in a child process."""
    with Compiler(1) as compiler:

        @cache
        def compile_text(text: str, *flags: str, backend: str = "llvm-cpu") -> bytes:
            given = (f"--iree-hal-target-backends={backend}", "--iree-input-type=torch")
            request = CompileRequest(source=text.encode(), flags=(*given, *(flags or FLAGS)))
            return compiler.compile(request).vmfb

        yield compile_text


@dataclass
class Case:
    """A module as a vmfb with its arguments; uids are 1, 2, ... in order."""

    text: str
    vmfb: bytes
    args: tuple[ArgSpec, ...]
    names: tuple[str, ...]

    @property
    def signature(self) -> Signature:
        return Signature(args=self.args, workspace_bytes=transient_bytes(self.vmfb))

    def load(self, driver: str = "local-sync", **more: int) -> Executable:
        module = LoadedModule.load(Device.open(driver), self.vmfb)
        uids = range(1, len(self.args) + 1)
        return Executable(module, self.signature, uids, self.names, **more)


@pytest.fixture(scope="session")
def relu_case(compile_text: Callable[..., bytes]) -> Case:
    return Case(RELU, compile_text(RELU), RELU_ARGS, ("y", "x"))


@pytest.fixture(scope="session")
def chain_case(compile_text: Callable[..., bytes]) -> Case:
    return Case(CHAIN, compile_text(CHAIN), CHAIN_ARGS, ("y", "x", "w"))


@pytest.fixture(scope="session")
def layout_case(compile_text: Callable[..., bytes]) -> Case:
    return Case(LAYOUTS, compile_text(LAYOUTS), LAYOUT_ARGS, ("y", "z", "p", "x", "a", "b", "q"))


@pytest.fixture
def relu(relu_case: Case) -> Executable:
    return relu_case.load()


@pytest.fixture
def chain(chain_case: Case) -> Executable:
    return chain_case.load()


@pytest.fixture
def layouts(layout_case: Case) -> Executable:
    return layout_case.load()
