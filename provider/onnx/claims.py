# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which ONNX nodes are claimed: a rule for everything that is not, and nothing that cannot run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from ...graph_api.errors import Problem
from ..offload.program import Refused
from .expand_operands import MAY_BE_EMPTY
from .model import Model, Node, Value

__all__ = ["OPS", "RULES", "Declined", "claimable"]

RULES: dict[str, str] = {
    "EP-01": "the op is one that is served",
    "EP-02": "tensors have a known rank, and an element type that a hipDNN graph has",
    "EP-03": "extents are known, or named by those of the model's inputs; none is 0",
    "EP-04": "attributes are numbers, texts and tensors; there are no subgraphs",
    "EP-05": "attributes and inputs have values that are honoured",
    "EP-06": "torch-mlir converts the node",
    "EP-07": "an engine serves what the node becomes, or IREE compiles it",
    "EP-08": "a group has at least min_nodes nodes",
    "EP-09": "nodes are those of the main graph",
    "EP-10": "where a model with compiled code is written, graphs have one code for all sizes",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Declined(Refused):
    """Why a node, by its label, is not claimed."""

    node: str

    def __str__(self) -> str:
        return f"{self.op} {self.node!r} is declined by {self.rule}: {self.reason}"

    def as_dict(self) -> dict[str, str]:
        """Return the JSON form."""
        return {"node": self.node, "op": self.op, "rule": self.rule, "reason": self.reason}


_MATMULS = ("Conv", "ConvTranspose", "MatMul", "Gemm")
_POINTWISE = (
    *("Abs", "Acos", "Acosh", "Add", "And", "Asin", "Asinh", "Atan", "Atanh", "Cast", "Ceil"),
    *("CastLike", "Celu", "Clip", "Cos", "Cosh", "Div", "Elu", "Equal", "Erf", "Exp", "Floor"),
    *("Gelu", "Greater", "GreaterOrEqual", "HardSigmoid", "HardSwish", "Identity", "IsInf"),
    *("IsNaN", "LeakyRelu", "Less", "LessOrEqual", "Log", "Max", "Mean", "Min", "Mish", "Mod"),
    *("Mul", "Neg", "Not", "Or", "Pow", "PRelu", "Reciprocal", "Relu", "Round", "Selu"),
    *("Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Sub", "Sum", "Swish"),
    *("Tan", "Tanh", "ThresholdedRelu", "Where", "Xor", "Shrink"),
)
_ROWS = (
    *("BatchNormalization", "GroupNormalization", "InstanceNormalization", "LayerNormalization"),
    *("LogSoftmax", "LpNormalization", "LRN", "MeanVarianceNormalization", "RMSNormalization"),
    *("Softmax", "Hardmax"),
    *("ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean"),
    *("ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "ArgMax", "ArgMin"),
    *("CumSum", "SimplifiedLayerNormalization"),
)
_WINDOWS = (
    *("AveragePool", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "LpPool", "GlobalLpPool"),
    *("Resize", "Upsample"),
)
_ATTENTION = ("Attention", "RotaryEmbedding")
_QUANTISED = (
    *("QuantizeLinear", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "MatMulInteger"),
    *("ConvInteger", "DynamicQuantizeLinear"),
)
_MOVEMENT = (
    *("Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "Pad", "Reshape", "Slice"),
    *("SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze", "Dropout"),
)
_CONTRIB = (
    *("MultiHeadAttention", "GroupQueryAttention", "RotaryEmbedding", "MatMulNBits", "FastGelu"),
    *("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", "FusedMatMul", "Gelu"),
    *("SimplifiedLayerNormalization", "QuickGelu", "BiasGelu", "FusedConv", "FusedGemm"),
    *("QuantizeLinear", "DequantizeLinear", "QLinearAdd", "QLinearMul", "QLinearLeakyRelu"),
    *("QLinearSigmoid", "QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearConcat"),
    *("QLinearSoftmax", "QGemm"),
)

_STANDARD = (_MATMULS, _POINTWISE, _ROWS, _WINDOWS, _ATTENTION, _QUANTISED, _MOVEMENT)

OPS: frozenset[tuple[str, str]] = frozenset(
    {("", op) for ops in _STANDARD for op in ops} | {("com.microsoft", op) for op in _CONTRIB}
)
"""(domain, op) of what is served where torch-mlir converts it and it compiles."""


def claimable(model: Model, sizes: Mapping[str, int]) -> tuple[list[Node], list[Declined]]:
    """Return the nodes that no rule on the node alone declines, and the others.

    Parameters
    ----------
    model : Model
    sizes : mapping of str to int
        Extents that are known at execution, by name, as far as a run can tell them.
    """
    chosen, declined = [], []
    for node in model.nodes:
        problem = next(_problems(node, model, sizes), None)
        if problem is None:
            chosen.append(node)
        else:
            declined.append(Declined(node=node.label, op=node.op, problem=problem))
    return chosen, declined


def _problems(node: Node, model: Model, sizes: Mapping[str, int]) -> Iterator[Problem]:
    if node.odd:
        yield Problem(rule="EP-04", got=", ".join(node.odd), wanted="numbers, texts, tensors")
    if model.nested:
        yield Problem(rule="EP-09", got="the body of a control flow node", wanted="the graph")
    if (node.domain, node.op) not in OPS:
        name = f"{node.domain}.{node.op}" if node.domain else node.op
        yield Problem(rule="EP-01", got=name, wanted="an op of provider/onnx/claims.py")
    for names, side in ((node.inputs, "input"), (node.outputs, "output")):
        for place, name in enumerate(names):
            if name and not _says_by_being_empty(node, side, place, model.values[name]):
                yield from _untyped(model.values[name], f"{side} {place}", sizes)
    if not any(name for name in node.inputs):
        yield Problem(rule="EP-05", got="no inputs", wanted="a node that computes from inputs")
    check = _CHECKS.get((node.domain, node.op))
    if check is not None:
        yield from (
            Problem(rule="EP-05", port=port, got=got, wanted=wanted)
            for port, got, wanted in check(node, model)
        )


def _says_by_being_empty(node: Node, side: str, place: int, value: Value) -> bool:
    wanted = side == "input" and (node.domain, node.op, place) in MAY_BE_EMPTY
    return wanted and value.dims == (0,)


def _untyped(value: Value, port: str, sizes: Mapping[str, int]) -> Iterator[Problem]:
    if value.data_type is None or not value.data_type.value.mlir:
        wanted = "a tensor of an element type that hipDNN has"
        yield Problem(rule="EP-02", port=port, got="another type", wanted=wanted)
        return
    if value.dims is None:
        yield Problem(rule="EP-02", port=port, got="unknown rank", wanted="a known rank")
        return
    for extent in value.dims:
        if extent == 0:
            yield Problem(rule="EP-03", port=port, got="an extent of 0", wanted="1 or more")
        elif isinstance(extent, str) and extent not in sizes:
            got = f"extent {extent!r}" if extent else "an extent without a name"
            wanted = "extents that those of the model's inputs tell"
            yield Problem(rule="EP-03", port=port, got=got, wanted=wanted)


Misfit = tuple[str, str, str]
"""Port, what was found, what is wanted."""


def _only(**allowed: Iterable[object]) -> Callable[[Node, Model], Iterator[Misfit]]:
    """Return a check of attributes: each that is given has one of some values."""

    def check(node: Node, model: Model) -> Iterator[Misfit]:
        for name, values in allowed.items():
            given = node.attributes.get(name)
            if given is not None and given not in values:
                yield name, str(given), " or ".join(map(str, values))

    return check


def _dilated_with_ceil(node: Node, model: Model) -> Iterator[Misfit]:
    """torch-mlir counts the padding of windows beyond the input otherwise."""
    dilations = node.attributes.get("dilations", ())
    if node.attributes.get("ceil_mode") and set(dilations) - {1}:  # type: ignore[arg-type]
        yield "dilations", str(dilations), "1 with ceil_mode"


_CHECKS: dict[tuple[str, str], Callable[[Node, Model], Iterator[Misfit]]] = {
    ("", "Cast"): _only(saturate=(1,)),
    ("", "CastLike"): _only(saturate=(1,)),
    ("", "AveragePool"): _dilated_with_ceil,
    ("", "BatchNormalization"): _only(training_mode=(0,)),
}
"""What torch-mlir's conversions would ignore, or convert to something else."""
