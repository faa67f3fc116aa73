# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The limits of machines, and the least time of a graph that follows from them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hipdnn_iree import Graph, Target
from hipdnn_iree.jit.inspect.machine import SHEETS
from hipdnn_iree.jit.inspect.peaks import NamedPeaks, cpu_peaks, gpu_peaks
from hipdnn_iree.jit.inspect.roofline import least_seconds


def test_the_least_time_of_a_graph() -> None:
    peaks = NamedPeaks(
        source="a test", matrix={"f16": 4e9, "f32": 1e9}, vector_flops=1e9, bytes_per_s=1e9
    )

    def least(dtype: str, *, relu: bool = False) -> float:
        graph = Graph(io_data_type=dtype, compute_data_type="float")
        a, b = graph.tensor(dims=(64, 64)), graph.tensor(dims=(64, 64))
        c = graph.matmul(a, b)
        graph.output(graph.relu(c) if relu else c)
        return least_seconds(graph.freeze(), peaks)

    assert least("float") == pytest.approx(2 * 64**3 / 1e9)
    assert least("half") == pytest.approx(2 * 64**3 / 4e9)
    # Vector arithmetic runs beside it, and moves nothing more.
    assert least("half", relu=True) == least("half")
    slow = replace(peaks, bytes_per_s=1e6)
    graph = Graph(io_data_type="float", compute_data_type="float")
    graph.output(graph.relu(graph.tensor(dims=(1000,))))
    assert least_seconds(graph.freeze(), slow) == pytest.approx(8000 / 1e6)


def test_peaks_of_gpus_by_name() -> None:
    cuda, gfx942 = Target.parse("cuda:sm_80"), Target.parse("gfx942")
    h200 = gpu_peaks(cuda, "NVIDIA H200")
    assert h200 is not None
    assert (h200.matrix_flops("bf16"), h200.bytes_per_s) == (989.4e12, 4.8e12)
    assert gpu_peaks(cuda, "NVIDIA GeForce GT 710") is None
    assert gpu_peaks(gfx942, "AMD Instinct MI325X") is SHEETS["mi325x"]
    assert gpu_peaks(gfx942, "AMD Radeon Graphics") is SHEETS["mi300x"]


def test_peaks_of_this_cpu() -> None:
    found = cpu_peaks(1)
    assert found.flops > 1e8
    assert {size for size, _ in found.copies} > {256 << 10, 128 << 20}
    assert all(rate > 1e7 for _, rate in found.copies)
    # A problem is held against the largest working set that does not exceed it.
    (small, fast), *_, (large, slow) = found.copies
    assert found.of(0).bytes_per_s == found.of(small).bytes_per_s == fast
    assert found.of(10 * large).bytes_per_s == slow
    assert found.of(0).matrix_flops("f64") == found.flops / 2
    assert found.of(0).matrix_flops("none") == 0
