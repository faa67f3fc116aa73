# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A graph in the plain form that Fusilli emits, for comparison: one op after the other, as text.

What is modelled (``reference/fusilli-features.md``, sections 5 and 7.1): every operand of every op
is permuted from its memory order, identity permutes included, and every result back; no type is
ever converted; gradients are ``aten.convolution_backward`` on an empty placeholder; the flags are
Fusilli's for AMDGPU.  Only ops that Fusilli has are here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from hipdnn_iree.graph_api.enums import PointwiseMode, ReductionMode
from hipdnn_iree.graph_api.frozen import FrozenGraph, FrozenNode
from hipdnn_iree.graph_api.tensor import TensorSpec

__all__ = ["plain_flags", "plain_module"]

_KINDS = {"half": "f16", "bfloat16": "bf16", "float": "f32"}

_POINTWISE = {
    PointwiseMode.ADD: ("aten.add.Tensor", (1,)),
    PointwiseMode.SUB: ("aten.sub.Tensor", (1,)),
    PointwiseMode.MUL: ("aten.mul.Tensor", ()),
    PointwiseMode.DIV: ("aten.div.Tensor", ()),
    PointwiseMode.EXP: ("aten.exp", ()),
    PointwiseMode.RELU_FWD: ("aten.relu", ()),
    PointwiseMode.GELU_FWD: ("aten.gelu", ("none",)),
    PointwiseMode.GELU_APPROX_TANH_FWD: ("aten.gelu", ("tanh",)),
}


def plain_flags(target: str) -> tuple[str, ...]:
    """Return Fusilli's flags for AMDGPU."""
    return (
        "--iree-hal-target-backends=rocm",
        f"--iree-rocm-target={target}",
        "--iree-opt-level=O3",
        "--iree-preprocessing-pass-pipeline="
        "builtin.module(iree-preprocessing-backward-data-conv-pipeline)",
        "--iree-flow-enable-pad-handling",
        "--iree-global-opt-propagate-transposes-through-conv",
        "--iree-global-opt-enable-sink-transpose-through-pad",
        "--iree-dispatch-creation-enable-fuse-padding-into-linalg-consumer-ops",
        "--iree-dispatch-creation-enable-aggressive-reshape-movement",
        "--iree-dispatch-creation-enable-split-reduction",
        "--iree-torch-externalize-transients",
    )


def plain_module(graph: FrozenGraph) -> str:
    """Return the module for a graph whose tensors are all of one type.

    Raises
    ------
    KeyError
        For an op, or a mode of one, that Fusilli does not have or that is not modelled here.
    """
    return _Text(graph).module()


class _Text:
    """Lines of one function; values are named by counting."""

    def __init__(self, graph: FrozenGraph) -> None:
        self.graph = graph
        self.lines: list[str] = []
        self.numbers = count()
        self.values: dict[int, str] = {}

    def module(self) -> str:
        graph = self.graph
        self.values = {uid: f"%arg_{uid}" for uid in graph.inputs}
        for node in graph.nodes:
            self.node(node)
        for uid in graph.outputs:
            spec = graph.tensors[uid]
            given, out = self.type(spec.layout.shape, spec), f"%out_{uid}"
            slot = given.replace("vtensor", "tensor")
            value = self.values[uid]
            self.lines.append(
                f"torch.overwrite.tensor.contents {value} overwrites {out} : {given}, {slot}"
            )
        arguments = [
            f"%out_{u}: " + self.argument(u).replace("vtensor", "tensor") for u in graph.outputs
        ]
        arguments += [f"%arg_{u}: {self.argument(u)}" for u in graph.inputs]
        body = "\n  ".join((*self.lines, "return"))
        return (
            f"module @module {{\nfunc.func @main({', '.join(arguments)}) "
            f"attributes {{torch.assume_strict_symbolic_shapes}} {{\n  {body}\n}}\n}}\n"
        )

    def type(self, dims: Sequence[int], spec: TensorSpec) -> str:
        return f"!torch.vtensor<[{','.join(map(str, dims))}],{_KINDS[spec.data_type.json]}>"

    def argument(self, uid: int) -> str:
        spec = self.graph.tensors[uid]
        return self.type(spec.layout.shape, spec)

    def constant(self, value: Any) -> tuple[str, str]:
        """Return name and type of a constant: None, bool, int, float, text or a list of them."""
        name = f"%v{next(self.numbers)}"
        if isinstance(value, list | tuple):
            items = [self.constant(v) for v in value]
            kind = "bool" if value and isinstance(value[0], bool) else "int"
            given = f"({', '.join(t for _, t in items)}) -> !torch.list<{kind}>"
            self.lines.append(
                f"{name} = torch.prim.ListConstruct {', '.join(n for n, _ in items)} : {given}"
            )
            return name, f"!torch.list<{kind}>"
        kinds = {bool: "bool", int: "int", float: "float", str: "str"}
        if value is None:
            self.lines.append(f"{name} = torch.constant.none")
            return name, "!torch.none"
        kind = kinds[type(value)]
        text = {"bool": str(value).lower(), "str": f'"{value}"'}.get(kind, value)
        spelled = f"{value:e}" if kind == "float" else text
        self.lines.append(f"{name} = torch.constant.{kind} {spelled}")
        return name, f"!torch.{kind}"

    def call(self, op: str, operands: Sequence[Any], results: Sequence[str]) -> list[str]:
        """Emit an op; operands are (name, type) or Python values."""
        given = [o if _named(o) else self.constant(o) for o in operands]
        base = f"%v{next(self.numbers)}"
        head = base if len(results) == 1 else f"{base}:{len(results)}"
        kinds = ", ".join(t for _, t in given)
        self.lines.append(
            f"{head} = torch.{op} {', '.join(n for n, _ in given)} : {kinds} -> "
            + ", ".join(results)
        )
        return [base] if len(results) == 1 else [f"{base}#{i}" for i in range(len(results))]

    def read(self, uid: int) -> tuple[str, str]:
        """Return a tensor with logical dims, permuted from memory order even where that is it."""
        spec = self.graph.tensors[uid]
        order = spec.layout.order
        inverse = [order.index(axis) for axis in range(len(order))]
        given = (self.values[uid], self.type(spec.layout.shape, spec))
        kind = self.type(spec.dims, spec)
        (name,) = self.call("aten.permute", [given, inverse], [kind])
        return name, kind

    def write(self, uid: int, value: str) -> None:
        spec = self.graph.tensors[uid]
        given = (value, self.type(spec.dims, spec))
        kind = self.type(spec.layout.shape, spec)
        (self.values[uid],) = self.call("aten.permute", [given, list(spec.layout.order)], [kind])

    def node(self, node: FrozenNode) -> None:
        _EMITTERS[node.op.NAME](self, node)

    def out(self, node: FrozenNode, port: str) -> str:
        spec = self.graph.tensors[node.outputs[port]]
        return self.type(spec.dims, spec)

    def simple(self, node: FrozenNode, op: str, operands: Sequence[Any], port: str) -> None:
        (value,) = self.call(op, operands, [self.out(node, port)])
        self.write(node.outputs[port], value)

    def empty(self, dims: Sequence[int], spec: TensorSpec) -> tuple[str, str]:
        kind = self.type(dims, spec)
        code = spec.data_type.value.torch_code
        (name,) = self.call(
            "aten.empty.memory_format", [list(dims), code, None, None, None, None], [kind]
        )
        return name, kind


def _named(operand: Any) -> bool:
    return isinstance(operand, tuple) and len(operand) == 2 and isinstance(operand[0], str)


def _conv(text: _Text, node: FrozenNode) -> None:
    op: Any = node.op
    x, w = (text.read(node.inputs[p]) for p in ("x", "w"))
    dims = [text.graph.tensors[node.inputs[p]].dims for p in ("x", "w")]
    rest = [None, list(op.stride), list(op.pre_padding), list(op.dilation), False, []]
    text.simple(node, "aten.convolution", [x, w, *rest, dims[0][1] // dims[1][1]], "y")


def _gradient(wanted: str) -> Callable[[_Text, FrozenNode], None]:
    def emit(text: _Text, node: FrozenNode) -> None:
        op: Any = node.op
        dy = text.read(node.inputs["dy"])
        spec = text.graph.tensors[node.outputs[wanted]]
        other = "w" if wanted == "dx" else "x"
        given = text.read(node.inputs[other])
        placeholder = text.empty(spec.dims, spec)
        x, w = (placeholder, given) if wanted == "dx" else (given, placeholder)
        specs = {other: text.graph.tensors[node.inputs[other]].dims, wanted: spec.dims}
        image = specs["dx" if wanted == "dx" else "x"]
        taps = specs["w" if wanted == "dx" else "dw"]
        mask = [wanted == "dx", wanted == "dw", False]
        kinds = [text.out(node, wanted) if m else "!torch.none" for m in mask]
        rest = [None, list(op.stride), list(op.pre_padding), list(op.dilation), False]
        rest += [[0] * len(op.stride), image[1] // taps[1], mask]
        results = text.call("aten.convolution_backward", [dy, x, w, *rest], kinds)
        text.write(node.outputs[wanted], results[mask.index(True)])

    return emit


def _pointwise(text: _Text, node: FrozenNode) -> None:
    op: Any = node.op
    name, rest = _POINTWISE[op.mode]
    text.simple(node, name, [*map(text.read, node.inputs.values()), *rest], "out_0")


def _reduction(text: _Text, node: FrozenNode) -> None:
    op: Any = node.op
    x, y = (text.graph.tensors[u] for u in (node.inputs["x"], node.outputs["y"]))
    axes = [i for i, (a, b) in enumerate(zip(x.dims, y.dims, strict=True)) if a != b]
    given = text.read(node.inputs["x"])
    if op.mode is ReductionMode.ADD:
        text.simple(node, "aten.sum.dim_IntList", [given, axes, True, None], "y")
    else:
        name = {ReductionMode.MAX: "aten.amax", ReductionMode.MIN: "aten.amin"}[op.mode]
        text.simple(node, name, [given, axes, True], "y")


def _norm(op: str) -> Callable[[_Text, FrozenNode], None]:
    def emit(text: _Text, node: FrozenNode) -> None:
        x = text.graph.tensors[node.inputs["x"]]
        n = list(x.dims[1:])
        kind = text.type(n, x)
        affine = []
        for port in ("scale", "bias"):
            if port in node.inputs:
                given = text.read(node.inputs[port])
                affine.append((text.call("aten.view", [given, n], [kind])[0], kind))
        epsilon = float(text.graph.tensors[node.inputs["epsilon"]].value or 0)
        rest = [False] if op == "aten.layer_norm" else []
        text.simple(node, op, [text.read(node.inputs["x"]), n, *affine, epsilon, *rest], "y")

    return emit


def _batchnorm(text: _Text, node: FrozenNode) -> None:
    x = text.graph.tensors[node.inputs["x"]]
    flat = text.type(x.dims[1:2], x)
    given = []
    for port in ("scale", "bias"):
        value = text.read(node.inputs[port])
        given.append((text.call("aten.view", [value, [x.dims[1]]], [flat])[0], flat))
    epsilon = float(text.graph.tensors[node.inputs["epsilon"]].value or 0)
    operands = [text.read(node.inputs["x"]), *given, None, None, True, 0.1, epsilon]
    results = text.call("aten.native_batch_norm", operands, [text.out(node, "y"), flat, flat])
    text.write(node.outputs["y"], results[0])
    for port, value in zip(("mean", "inv_variance"), results[1:], strict=True):
        dims = list(text.graph.tensors[node.outputs[port]].dims)
        (wide,) = text.call("aten.view", [(value, flat), dims], [text.out(node, port)])
        text.write(node.outputs[port], wide)


def _sdpa(text: _Text, node: FrozenNode) -> None:
    op: Any = node.op
    given = [text.read(node.inputs[p]) for p in "qkv"]
    rest = [None, 0.0, op.band[1] == 0, None, False]
    text.simple(node, "aten.scaled_dot_product_attention", [*given, *rest], "o")


_EMITTERS: dict[str, Callable[[_Text, FrozenNode], None]] = {
    "conv_fprop": _conv,
    "conv_dgrad": _gradient("dx"),
    "conv_wgrad": _gradient("dw"),
    "matmul": lambda text, node: text.simple(
        node, "aten.matmul", [text.read(node.inputs[p]) for p in "ab"], "c"
    ),
    "pointwise": _pointwise,
    "reduction": _reduction,
    "layernorm": _norm("aten.layer_norm"),
    "rmsnorm": _norm("aten.rms_norm"),
    "batchnorm": _batchnorm,
    "sdpa": _sdpa,
}
