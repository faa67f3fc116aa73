# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Programs in the manner of hipDNN's samples, through its C interface in the host's order.

Each is executed with a workspace of the host, with a null workspace, and as a plan that was saved
and loaded, with red zones around every buffer, and compared with the reference in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.formats.flatbuffer.buffer_writer import write
from hipdnn_iree.graph_api.formats.flatbuffer.encode import encode_record
from hipdnn_iree.graph_api.layout import channels_last_strides
from hipdnn_iree.graph_api.validate import resolve
from hipdnn_iree.hipdnn_plugin import messages

from tools.soak.red_zones import ERAS, Zones

TYPES = ("float", "half", "bfloat16")
LAYOUTS = ("nchw", "nhwc")


class Program(Graph):
    """A graph as a program of hipDNN describes it: in one layout, with float parameters."""

    def __init__(self, layout: str, data_type: str) -> None:
        super().__init__("sample", io_data_type=data_type, compute_data_type="float")
        self.layout = layout

    def image(self, *dims: int) -> Any:
        strides = channels_last_strides(dims) if self.layout == "nhwc" else None
        return self.tensor(dims=dims, strides=strides)

    def channels(self, n: int) -> Any:
        return self.tensor(dims=(1, n, 1, 1), data_type="float")

    def end(self, *results: Any) -> None:
        for result in results:
            result.set_output()
        for result, dims in [(r, resolve(self).views[id(r)].dims) for r in results]:
            if self.layout == "nhwc" and len(dims) == 4:
                result.set_stride(channels_last_strides(dims))


def conv_fprop(g: Program) -> Any:
    return [g.conv_fprop(g.image(2, 8, 9, 7), g.image(12, 8, 3, 3), padding=1)]


def conv_grouped(g: Program) -> Any:
    x, w = g.image(2, 8, 9, 7), g.image(12, 2, 3, 2)
    return [g.conv_fprop(x, w, pre_padding=1, post_padding=(1, 0), stride=(2, 1), dilation=(1, 2))]


def conv_dgrad(g: Program) -> Any:
    dy, w = g.image(2, 12, 5, 4), g.image(12, 8, 3, 3)
    return [g.conv_dgrad(dy, w, dx_dims=(2, 8, 9, 7), padding=1, stride=2)]


def conv_wgrad(g: Program) -> Any:
    dy, x = g.image(2, 12, 5, 4), g.image(2, 8, 9, 7)
    return [g.conv_wgrad(dy, x, dw_dims=(12, 8, 3, 3), padding=1, stride=2)]


def conv_bias_activation(g: Program) -> Any:
    y = g.conv_fprop(g.image(2, 8, 9, 7), g.image(12, 8, 1, 1))
    return [g.relu(g.add(y, g.channels(12)))]


def bn_inference(g: Program) -> Any:
    return [g.batchnorm_inference(g.image(2, 8, 9, 7), *(g.channels(8) for _ in range(4)))]


def bn_inference_variance(g: Program) -> Any:
    """What November 2025 computed, whatever it called the operand."""
    x, *parameters = g.image(2, 8, 9, 7), *(g.channels(8) for _ in range(4))
    return [g.batchnorm_inference_variance_ext(x, *parameters, epsilon=1e-5)]


def bn_training(g: Program) -> Any:
    x, scale, bias = g.image(2, 8, 9, 7), g.channels(8), g.channels(8)
    found = g.batchnorm(x, scale, bias, epsilon=1e-3)
    return [found.y, *(t.set_data_type("float") for t in (found.mean, found.inv_variance))]


def bn_training_running(g: Program) -> Any:
    x, scale, bias, mean, variance = g.image(2, 8, 9, 7), *(g.channels(8) for _ in range(4))
    running = {"prev_running_mean": mean, "prev_running_variance": variance, "momentum": 0.1}
    y, *statistics = g.batchnorm(x, scale, bias, epsilon=1e-3, **running)
    return [y, *(t.set_data_type("float") for t in statistics)]


def bn_training_activation(g: Program) -> Any:
    found = g.batchnorm(g.image(2, 8, 9, 7), g.channels(8), g.channels(8), epsilon=1e-3)
    return [g.relu(found.y), *(t.set_data_type("float") for t in (found.mean, found.inv_variance))]


def bn_backward(g: Program) -> Any:
    dy, x, scale = g.image(2, 8, 9, 7), g.image(2, 8, 9, 7), g.channels(8)
    dx, *sums = g.batchnorm_backward(dy, x, scale, mean=g.channels(8), inv_variance=g.channels(8))
    return [dx, *(t.set_data_type("float") for t in sums)]


def bn_backward_alone(g: Program) -> Any:
    """Without what the forward pass has saved."""
    dx, *sums = g.batchnorm_backward(g.image(2, 8, 9, 7), g.image(2, 8, 9, 7), g.channels(8))
    return [dx, *(t.set_data_type("float") for t in sums)]


def pointwise(g: Program) -> Any:
    x = g.image(2, 8, 9, 7)
    return [g.relu(g.mul(g.add(x, g.image(2, 8, 9, 7)), g.channels(8)))]


def matmul(g: Program) -> Any:
    a, b = g.tensor(dims=(3, 9, 16)), g.tensor(dims=(3, 16, 10), strides=(160, 1, 16))
    return [g.matmul(a, b)]


def matmul_bias_activation(g: Program) -> Any:
    y = g.matmul(g.tensor(dims=(1, 9, 16)), g.tensor(dims=(1, 16, 10)))
    return [g.gelu(g.add(y, g.tensor(dims=(1, 1, 10), data_type="float")))]


def layernorm(g: Program) -> Any:
    scale, bias = (g.tensor(dims=(1, 8, 9, 7), data_type="float") for _ in range(2))
    found = g.layernorm(g.image(2, 8, 9, 7), scale, bias, forward_phase="training")
    y, *statistics = found
    return [y, *(t.set_data_type("float") for t in statistics)]


def rmsnorm(g: Program) -> Any:
    scale = g.tensor(dims=(1, 8, 9, 7), data_type="float")
    y, inv_rms = g.rmsnorm(g.image(2, 8, 9, 7), scale, forward_phase="training")
    return [y, inv_rms.set_data_type("float")]


def attention(g: Program) -> Any:
    q, k, v = (g.tensor(dims=(2, 4, n, 16)) for n in (9, 11, 11))
    found = g.sdpa(q, k, v, causal_mask=True, generate_stats=True)
    return [found.o, found.stats.set_data_type("float")]


def reduction(g: Program) -> Any:
    return [g.reduction(g.image(2, 8, 9, 7), mode="add", axes=(2, 3))]


OLD = (
    *(conv_fprop, conv_grouped, conv_dgrad, conv_wgrad, conv_bias_activation),
    bn_inference_variance,
    *(bn_training, bn_training_running, bn_training_activation, bn_backward, bn_backward_alone),
    pointwise,
)
"""Of November 2025."""
NEWER = (bn_inference, matmul, matmul_bias_activation, layernorm, rmsnorm, attention, reduction)

Case = tuple[Callable[[Any], Any], str, str, str, bool]


def cases() -> Iterator[Any]:
    """Yield each program in six layouts and types, in its eras; some of them by default.

    By default each program comes in both layouts, in types that differ, and each of its eras with
    one of them: programs that differ in the era alone are compiled once.
    """
    for at, program in enumerate((*OLD, *NEWER)):
        ways = [("new", True)]
        if program in OLD:
            ways += [("n25", True), ("n25", False), ("m26", False)]
        for (layout, data_type), (way, (era, marked)) in product(
            product(LAYOUTS, TYPES), enumerate(ways)
        ):
            side = (at + way // 2) % 2
            chosen = (LAYOUTS[side], TYPES[(at // 2 + side) % len(TYPES)])
            marks = [] if (layout, data_type) == chosen else [pytest.mark.full]
            text = f"{program.__name__}-{layout}-{data_type}-{era}-{marked}"
            yield pytest.param((program, layout, data_type, era, marked), marks=marks, id=text)


def test_the_default_run_has_every_era_of_every_program_and_in_every_type() -> None:
    taken = [case.values[0] for case in cases() if not case.marks]
    eras = {(program, *way) for program, _, _, *way in taken}
    assert eras == {(program, *way) for case in cases() for program, _, _, *way in case.values}
    assert {c[2:4] for c in taken} == set(product(TYPES, ("new", "n25", "m26")))
    assert {c[:2] for c in taken if c[0] in OLD} == set(product(OLD, LAYOUTS))


@pytest.fixture(scope="session")
def zones(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zones]:
    found = Zones(tmp_path_factory.mktemp("zones"))
    yield found
    assert found.close() == ""


def written(program: Any, layout: str, data_type: str, era: str, marked: bool) -> bytes:
    """Return the bytes that hipDNN would pass; results that are not marked are virtual."""
    g = Program(layout, data_type)
    g.end(*program(g))
    record = encode_record(g.freeze(), ERAS[era])
    if not marked:
        for tensor in record["tensors"]:
            if tensor["uid"] in g.freeze().outputs:
                tensor["virtual"] = True
    return write(record, era=ERAS[era])


@pytest.mark.parametrize("case", list(cases()))
def test_sample(case: Case, zones: Zones) -> None:
    data = written(*case)
    assert messages.graph(data).outputs
    skew: Sequence[int] = (0, 16) if case[2] == "half" else (0,)
    assert list(zones.serve(data, case[3], skew=skew))[-1] == "ok"
