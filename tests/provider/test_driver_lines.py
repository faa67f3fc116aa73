# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lines of MIOpenDriver and Fusilli's driver: the graphs that they stand for, and what is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hipdnn_iree import Graph
from hipdnn_iree.graph_api.errors import FormatError
from hipdnn_iree.graph_api.frozen import FrozenGraph
from hipdnn_iree.provider.reference import execute
from hipdnn_iree.provider.sweep.driver_flags import RULES
from hipdnn_iree.provider.sweep.sources import read_all
from hipdnn_iree.provider.sweep.suite import Case


def cases(line: str) -> list[Case]:
    found = list(read_all([line], check=True).by_type())
    assert all(case.name.startswith(" ".join(line.split())) for case in found)
    return found


def graph(line: str) -> FrozenGraph:
    (case,) = cases(line)
    return case.freeze()


def made(kind: str = "float") -> Graph:
    return Graph(io_data_type=kind, compute_data_type="float")


def strides(dims: tuple[int, ...], last: bool) -> tuple[int, ...]:
    order = [0, *range(2, len(dims)), 1] if last else list(range(len(dims)))
    found, step = [0] * len(dims), 1
    for axis in reversed(order):
        found[axis] = step
        step *= dims[axis]
    return tuple(found)


CONV = "-n 16 -c 64 -H 56 -W 56 -k 32 -y 3 -x 1 -p 1 -q 0"


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_convolution_in_three_directions(layout: str) -> None:
    line = f"./bin/MIOpenDriver convfp16 {CONV} -u 2 -v 1 -I {layout} -f {layout} -O {layout}"
    found = cases(f"{line} -F 0 -V 1 -t 1 -s 0")
    assert [case.name.rpartition(" ")[2] for case in found] == ["fwd", "bwd", "wrw"]
    last = layout == "NHWC"
    x, w, y = (16, 64, 56, 56), (32, 64, 3, 1), (16, 32, 28, 56)
    about: dict[str, Any] = {"padding": [1, 0], "stride": [2, 1]}
    expected = []
    for word in ("conv_fprop", "conv_dgrad", "conv_wgrad"):
        g = made("half")
        dims = {"conv_fprop": (x, w), "conv_dgrad": (y, w), "conv_wgrad": (y, x)}[word]
        operands = [g.tensor(dims=d, strides=strides(d, last)) for d in dims]
        result = getattr(g, word)(
            *operands,
            **about,
            **{"conv_dgrad": {"dx_dims": x}, "conv_wgrad": {"dw_dims": w}}.get(word, {}),
        )
        shape = {"conv_fprop": y, "conv_dgrad": x, "conv_wgrad": w}[word]
        result.set_dim(shape).set_stride(strides(shape, last)).set_output()
        expected.append(g.freeze())
    assert [case.freeze() for case in found] == expected
    assert [c.op for c in cases(f"{line} -F 5")] == ["conv_fprop", "conv_wgrad"]


def test_fusilli_and_miopen_say_the_same() -> None:
    theirs = f"conv {CONV} -g 2 -F 1 -b 1"
    ours = f"fusilli_benchmark_driver --device 0 --iter 5 conv {CONV} -g 2 --mode 1 --bias"
    g = made()
    x, w, b = (g.tensor(dims=d) for d in ((16, 64, 56, 56), (32, 32, 3, 1), (1, 32, 1, 1)))
    g.add(g.conv_fprop(x, w, padding=[1, 0]), b).set_output()
    assert graph(theirs) == graph(ours) == g.freeze()
    three = "-n 1 -c 4 -k 6 --spatial_dim 3 --in_d 5 -H 6 -W 7 --fil_d 3 -y 3 -x 3"
    found = graph(f"conv {three} --pad_d 1 -p 1 -q 1 --conv_stride_d 2 -l 2 -F 1 --bf16")
    assert found.spec(found.outputs[0]).dims == (1, 6, 3, 4, 7)
    assert found.spec(found.inputs[0]).data_type.json == "bfloat16"
    same = graph(f"conv {CONV} -u 2 -v 2 -z same -F 1")
    assert same.spec(same.outputs[0]).dims == (16, 32, 27, 28)  # MIOpen halves what it adds


def test_a_transposed_convolution_is_the_gradient_of_one() -> None:
    line = "conv -n 1 -c 8 -H 5 -W 6 -k 6 -y 3 -x 3 -p 1 -q 1 -u 2 -v 3 -Y 1 -g 2 -m trans -F"
    forward, backward, weights = (graph(f"{line} {bit}") for bit in (1, 2, 4))
    assert forward.spec(forward.outputs[0]).dims == (1, 6, 10, 16)
    rng = np.random.default_rng(0)
    x, w, y = (rng.standard_normal(d) for d in ((1, 8, 5, 6), (8, 3, 3, 3), (1, 6, 10, 16)))

    def run(g: FrozenGraph, *arrays: Any) -> Any:
        by_dims = {a.shape: a.astype(np.float32) for a in arrays}
        return execute(g, {uid: by_dims[g.spec(uid).dims] for uid in g.inputs})[g.outputs[0]]

    # <T x, y> = <x, T* y>, and both are linear in w.
    inner = [(run(forward, x, w) * y).sum(), (x * run(backward, y, w)).sum()]
    inner.append((run(weights, x, y) * w).sum())
    np.testing.assert_allclose(inner, inner[0], rtol=1e-4)


def test_products_and_attention() -> None:
    g = made("half")
    a = g.tensor(dims=(3, 16, 64), strides=(1024, 1, 16))
    b = g.tensor(dims=(3, 64, 32), strides=(2048, 1, 64))
    bias = g.tensor(dims=(1, 1, 32))
    c = g.matmul(a, b).set_data_type("half")
    g.add(c, bias).set_output().set_data_type("float")
    types = "--a_type f16 --b_type f16 --bias_type f16 --out_type f32"
    line = f"--iter 2 matmul -M 16 -N 32 -K 64 -B 3 {types} --transA --transB --bias"
    assert graph(line) == g.freeze()
    for word, columns in (("", False), (" -C 1", True)):
        found = graph(f"gemm -m 16 -n 32 -k 64 -u 1{word}")
        (x, y), (z,) = (
            [found.spec(u).strides for u in some] for some in (found.inputs, found.outputs)
        )
        # A is given as the transpose; in column-major order that is row by row.
        assert (x, y, z) == (
            ((64, 1), (1, 64), (1, 16)) if columns else ((1, 16), (32, 1), (32, 1))
        )
    g = made("bfloat16")
    q, k, v, m = (
        g.tensor(dims=d) for d in ((2, 8, 5, 16), (2, 2, 7, 16), (2, 2, 7, 16), (2, 1, 5, 7))
    )
    result = g.sdpa(q, k, v, attn_mask=m, attn_scale_value=0.5)
    (result[0] if isinstance(result, tuple) else result).set_output()
    shape = "-B 2 --heads_q 8 --heads_kv 2 --gqa --seq_q 5 --seq_kv 7 -d 16"
    assert graph(f"sdpa {shape} -t bf16 -s 0.5 --mask") == g.freeze()
    (causal,) = graph(f"sdpa {shape} -t f16 --causal").nodes
    assert causal.op.band == (None, 0, False)


def test_norms_pooling_and_elements() -> None:
    g = made("half")
    x = g.tensor(dims=(4, 3, 32))
    scale, bias = g.tensor(dims=(1, 3, 32)), g.tensor(dims=(1, 3, 32))
    y, mean, inv = g.layernorm(x, scale, bias, forward_phase="training", normalized_dim_count=2)
    for each in (y, mean, inv):
        each.set_output()
    line = graph("layernormfp16 -X 4x3x32 -o 1 -m 1 -t 1")
    assert line == g.freeze()
    assert graph("layernorm -X 4x3x32 -t f16 -l NCH --elementwise_affine") == line
    g = made()
    y, mean, inv = g.layernorm(
        g.tensor(dims=(4, 3, 32)), 1, 0, forward_phase="training", normalized_dim_count=1
    )
    for each in (y, mean, inv):
        each.set_output()
    assert graph("layernorm --input 4x3x32 -o 2") == g.freeze()
    found = {
        "bnorm -n 8 -c 4 -H 5 -W 6 -m 1 --forw 1 -r 1 -s 1": ("batchnorm", (8, 4, 5, 6), 5),
        "bnorm -n 8 -c 4 -H 5 -W 6 -D 3 -m 1 -F 0 -b 1": ("batchnorm_backward", (8, 4, 3, 5, 6), 3),
        "bnorm -n 8 -c 4 -H 5 -W 6 -m 0 -F 2": ("batchnorm_inference_variance_ext", (8, 120), 1),
        "pool -W 2x3x9x9,NHWC -y 3 -x 2 -p 1 -v 2 -u 1 -m avg -F 1": (
            "resample_fwd",
            (2, 3, 9, 9),
            1,
        ),
        "pool -n 2 -c 3 -H 9 -W 8 -y 2 -x 2 -v 2 -u 2 -m avg_in -F 2": (
            "resample_bwd",
            (2, 3, 4, 4),
            1,
        ),
        "activ -n 2 -c 3 -H 4 -W 5 -m 7 -A 6 -F 1": ("pointwise", (2, 3, 4, 5), 1),
        "reducefp16 -D 10,6,16 -R 0,2 -O 5": ("reduction", (10, 6, 16), 1),
    }
    for text, (op, dims, outputs) in found.items():
        one = graph(text)
        assert [node.op.NAME for node in one.nodes] == [op]
        assert one.spec(one.inputs[0]).dims == dims
        assert len(one.outputs) == outputs
    both = cases("poolfp16 -W 2x3x9x9 -y 2 -x 2 -v 2 -u 2 -F 0")
    assert [case.op for case in both] == ["resample_fwd", "resample_fwd+resample_bwd"]


@pytest.mark.parametrize(("algorithm", "mode"), [(0, 0), (1, 1), (2, 1), (2, 0)])
def test_softmax_and_its_gradient(algorithm: int, mode: int) -> None:
    forward, backward = cases(f"softmax -n 3 -c 5 -H 2 -W 3 -a {algorithm} -m {mode} -F 0")
    rng = np.random.default_rng(algorithm)
    x, dy = (rng.standard_normal((3, 5, 2, 3)) for _ in range(2))
    axes = (1,) if mode else (1, 2, 3)
    p = np.exp(x) / np.exp(x).sum(axes, keepdims=True)
    y = np.log(p) if algorithm == 2 else p
    dx = (
        dy - p * dy.sum(axes, keepdims=True)
        if algorithm == 2
        else p * (dy - (dy * p).sum(axes, keepdims=True))
    )
    for case, given, expected in ((forward, {"x": x}, y), (backward, {"y": y, "dy": dy}, dx)):
        g = case.freeze()
        arrays = {u: given[g.spec(u).name].astype(np.float32) for u in g.inputs}
        np.testing.assert_allclose(execute(g, arrays)[g.outputs[0]], expected, rtol=1e-5, atol=1e-6)


MISTAKES = {
    "conv -n 3 --in_chanels 4": ("DRIVER-02", "--in_chanels", "did you mean --in_channels?"),
    "conv -n many": ("DRIVER-02", "-n", ""),
    "conv -n": ("DRIVER-02", "-n", ""),
    "convfp32 -n 3": ("DRIVER-01", "", "did you mean convfp16?"),
    "MIOpenDriver rnn -n 3": ("DRIVER-01", "", ""),
    "conv -n 'open": ("DRIVER-01", "", ""),
    "--itr 3 matmul -M 3 -N 4 -K 5": ("DRIVER-02", "--itr", "did you mean --iter?"),
    "conv -g 2": ("DRIVER-04", "group_count", ""),
    "conv -y 99": ("DRIVER-04", "in_h", ""),
    "conv -I NHCW": ("DRIVER-03", "in_layout", ""),
    "conv -I NCDHW": ("DRIVER-03", "in_layout", ""),
    "conv -r 1": ("DRIVER-03", "pad_val", ""),
    "conv -z full": ("DRIVER-03", "pad_mode", ""),
    "bnorm -A 2": ("DRIVER-03", "alpha", ""),
    "pool -W 2x3x4xx4 -F 1": ("DRIVER-02", "input", ""),
    "pool -W 2x3x4x4 -y 9 -F 1": ("DRIVER-04", "win_h", ""),
    "softmax -a 7": ("DRIVER-03", "algorithm", ""),
    "sdpa -B 1 --heads_q 8 --heads_kv 2": ("DRIVER-04", "heads_kv", ""),
    "sdpa -B 1 --mask --causal": ("DRIVER-04", "mask", ""),
    "sdpa -B 1 -p 0.5": ("DRIVER-03", "dropout", ""),
    "matmul -M 3 -N 4": ("DRIVER-02", "-K", ""),
    "matmul -M 3 -N 4 -K 5 --a_type f8": ("DRIVER-03", "a_type", ""),
    "layernorm -X 3x4 -o 2": ("DRIVER-04", "normalized_dim", ""),
    "reduce -D 3,4 -R 1,x": ("DRIVER-02", "DimsToReduce", ""),
    "activ -m 6 -F 1": ("DRIVER-03", "mode", ""),
}


@pytest.mark.parametrize("line", MISTAKES)
def test_what_is_wrong_is_named(line: str) -> None:
    rule, flag, hint = MISTAKES[line]
    (case,) = read_all([line]).cases
    problem = case.broken[0]
    assert (problem.rule, problem.port) == (rule, flag)
    assert rule in RULES
    assert hint in problem.hint
    with pytest.raises(FormatError):
        read_all([line], check=True)


def test_a_file_of_lines(tmp_path: Path) -> None:
    text = f"""
# a comment
conv {CONV} -F 1

[SKIP] conv -n 1
MIOpen(HIP): Command [LogCmdConvolution] ./bin/MIOpenDriver conv {CONV} -F 2 -t 1
softmax --unknown 3 -n 4
conv {CONV} -F 1
"""
    path = tmp_path / "lines.txt"
    path.write_text(text, encoding="utf-8")
    suite = read_all([str(path)])
    assert [(case.op, case.source) for case in suite.cases] == [
        ("conv_fprop", f"{path}:3"),
        ("conv_dgrad", f"{path}:6"),
        ("softmax", f"{path}:7"),
    ]
    assert [bool(case.broken) for case in suite.cases] == [False, False, True]
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FormatError, match="SOURCE-01"):
        read_all([str(tmp_path / "bytes.txt")])
