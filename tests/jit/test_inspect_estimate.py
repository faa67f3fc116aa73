# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Loops of a kernel, what its instructions cost, and the estimate of its time from them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree import Graph, Target
from hipdnn_iree.jit.inspect.assembly import Code, Loop, parse_code
from hipdnn_iree.jit.inspect.estimate import LATENCY, estimate, hot_loop
from hipdnn_iree.jit.inspect.isa import Kernel, read_kernels
from hipdnn_iree.jit.inspect.machine import LIMITS, SHEETS
from hipdnn_iree.jit.inspect.units import cost, product_of
from hipdnn_iree.jit.work import Work
from under_settings import inspect_graph

MFMA = "v_mfma_f32_16x16x16_f16 a[0:3], v[0:1], v[2:3], a[0:3]"


def code(*lines: str) -> Code:
    """Return code of lines; those that end with a colon are labels."""
    return parse_code("\n".join(line if line.endswith(":") else f"\t{line}" for line in lines))


def kernel(*lines: str, workgroups: int | None = 1, threads: int = 64, **figures: Any) -> Kernel:
    more = {"vgprs": 64, "sgprs": 32, **figures}
    return Kernel(
        name="k", mfma={}, threads=threads, workgroups=workgroups, code=code(*lines), **more
    )


def counted(start: str, *loop: str) -> int | None:
    """Return the trips of a loop that is followed by other code."""
    (found,) = code(start, ".LBB0_1:", *loop, "s_endpgm").loops
    return found.trips


@pytest.mark.parametrize(
    ("start", "loop", "trips"),
    [
        ("s_mov_b32 s5, 0", ["s_add_i32 s5, s5, 1", "s_cmp_lg_u32 s5, 9", "scc1"], 9),
        # Compared before it is moved: 0, 4, ... 124 go on.
        ("s_mov_b32 s5, -4", ["s_add_i32 s5, s5, 4", "s_cmp_lt_u32 s5, 0x7c", "scc1"], 32),
        ("s_mov_b32 s5, 0", ["s_cmp_lt_u32 s5, 0x7c", "s_add_u32 s6, s6, 8", "scc1"], None),
        ("s_mov_b32 s5, 0", ["s_cmp_eq_u32 s5, 3", "s_addk_i32 s5, 0x1", "scc0"], 4),
        ("s_mov_b32 s5, 64", ["s_sub_i32 s5, s5, 16", "s_cmp_gt_i32 s5, 0", "scc1"], 4),
        ("s_mov_b32 s5, 64", ["s_addk_i32 s5, 0xfff0", "s_cmp_lg_u32 s5, 0", "scc1"], 4),
        # Of a copy that was moved, and of the lower half of 64 bits.
        (
            "s_mov_b32 s4, 0",
            ["s_add_i32 s5, s4, 32", "s_cmp_ge_u32 s4, 96", "s_mov_b32 s4, s5", "scc0"],
            4,
        ),
        (
            "s_mov_b64 s[4:5], 0",
            [
                "s_add_u32 s4, s4, 0x80",
                "s_addc_u32 s5, s5, 0",
                "s_cmp_lg_u64 s[4:5], 0x400",
                "scc1",
            ],
            8,
        ),
        # Lanes that start at 0 or behind it, masked one by one.
        (
            "v_mov_b32_e32 v1, v0",
            [
                "v_add_u32_e32 v1, 0x100, v1",
                "v_cmp_lt_u32_e32 vcc, 0x3ff, v1",
                "s_or_b64 s[2:3], vcc, s[2:3]",
                "s_andn2_b64 exec, exec, s[2:3]",
                "execnz",
            ],
            4,
        ),
        ("s_mov_b32 s5, 0", ["s_add_i32 s5, s5, s7", "s_cmp_lg_u32 s5, 9", "scc1"], None),
        ("s_mov_b32 s5, 0", ["s_add_i32 s5, s5, 1", "s_cmp_lg_u32 s5, s7", "scc1"], None),
        ("s_mov_b32 s5, s6", ["s_add_i32 s5, s5, 1", "s_cmp_lg_u32 s5, 9", "scc1"], None),
        ("s_mov_b32 s5, 0", ["s_mul_i32 s5, s5, 3", "s_cmp_lg_u32 s5, 9", "scc1"], None),
        ("s_mov_b32 s5, 0", ["s_add_i32 s5, s5, 1", "v_cmp_gt_f32 vcc, v1, v2", "vccnz"], None),
    ],
)
def test_how_often_a_loop_runs(start: str, loop: list[str], trips: int | None) -> None:
    assert counted(start, *loop[:-1], f"s_cbranch_{loop[-1]} .LBB0_1") == trips


def test_loops_in_loops_and_branches_that_are_none() -> None:
    found = code(
        "s_mov_b32 s5, 0",
        ".LBB0_1:",
        "s_mov_b32 s6, 0",
        ".LBB0_2:",
        "s_and_saveexec_b64 s[0:1], vcc",
        "s_cbranch_execnz .LBB0_4",  # a block that was put behind the end, and comes back
        ".LBB0_3:",
        "s_add_i32 s6, s6, 1",
        "s_cmp_lg_u32 s6, 3",
        "s_cbranch_scc1 .LBB0_2",
        "s_add_i32 s5, s5, 1",
        "s_cmp_lg_u32 s5, 5",
        "s_cbranch_scc1 .LBB0_1",
        "s_endpgm",
        ".LBB0_4:",
        "v_mov_b32_e32 v0, 0",
        "s_branch .LBB0_3",
    )
    assert found.loops == (Loop(1, 9, 5), Loop(2, 6, 3))
    assert found.innermost == (Loop(2, 6, 3),)
    assert parse_code("").loops == ()
    assert found.instructions[-2].name == "v_mov_b32"  # without the suffix of its encoding


@pytest.mark.parametrize(
    ("name", "kind", "flops"),
    [
        ("v_mfma_f32_16x16x16_f16", "f16", 2 * 16 * 16 * 16),
        ("v_mfma_f32_16x16x16f16", "f16", 2 * 16 * 16 * 16),  # as gfx90a has it
        ("v_mfma_f32_32x32x8bf16_1k", "bf16", 2 * 32 * 32 * 8),
        ("v_mfma_f32_16x16x8bf16", "bf16", 2 * 16 * 16 * 8),
        ("v_mfma_f32_4x4x4f16", "f16", 16 * 2 * 4 * 4 * 4),
        ("v_mfma_f32_32x32x4_2b_f16", "f16", 2 * 2 * 32 * 32 * 4),
        ("v_mfma_f32_16x16x4f32", "f32", 2 * 16 * 16 * 4),
        ("v_mfma_f32_32x32x1f32", "f32", 2 * 2 * 32 * 32),
        ("v_mfma_f64_16x16x4f64", "f64", 2 * 16 * 16 * 4),
        ("v_mfma_i32_32x32x16_i8", "i8", 2 * 32 * 32 * 16),
        ("v_mfma_f32_16x16x32_fp8_bf8", "f8", 2 * 16 * 16 * 32),
        ("v_mfma_scale_f32_16x16x128_f8f6f4", "f8", 2 * 16 * 16 * 128),
    ],
)
def test_what_a_matrix_instruction_multiplies(name: str, kind: str, flops: int) -> None:
    found = product_of(name)
    assert found is not None
    assert (found.kind, found.flops) == (kind, flops)


@pytest.mark.parametrize(
    ("name", "arch", "unit", "clocks", "lane_bytes"),
    [
        # Passes of four clocks, as LLVM's scheduling models have them.
        ("v_mfma_f32_16x16x16f16", "gfx90a", "matrix", 32, 0),
        ("v_mfma_f32_16x16x16_f16", "gfx942", "matrix", 16, 0),
        ("v_mfma_f32_32x32x8_f16", "gfx942", "matrix", 32, 0),
        ("v_mfma_f32_16x16x4_4b_f16", "gfx942", "matrix", 16, 0),
        ("v_mfma_f32_16x16x4_f32", "gfx942", "matrix", 32, 0),
        ("v_mfma_f32_32x32x2_f32", "gfx942", "matrix", 64, 0),
        ("v_mfma_f32_4x4x4_16b_f16", "gfx942", "matrix", 8, 0),
        ("v_mfma_f32_16x16x32_f16", "gfx950", "matrix", 16, 0),
        ("v_mfma_f32_16x16x16_f16", "gfx950", "matrix", 16, 0),  # half of the rate
        ("v_mfma_f32_16x16x128_f8f6f4", "gfx950", "matrix", 32, 0),
        ("v_mfma_f32_16x16x8bf16", "gfx908", "matrix", 32, 0),
        ("v_mfma_f64_16x16x4_f64", "gfx942", "matrix", 32, 0),
        ("v_fma_f32", "gfx942", "vector", 4, 0),
        ("v_exp_f32", "gfx942", "vector", 16, 0),
        ("v_mul_lo_u32", "gfx908", "vector", 16, 0),
        ("v_mul_lo_u32", "gfx942", "vector", 4, 0),
        ("ds_read_b128", "gfx942", "lds", 8, 16),
        ("ds_read2_b64", "gfx942", "lds", 8, 16),
        ("ds_write_b8", "gfx942", "lds", 2, 4),  # a bank has four bytes
        ("ds_read_u16_d16", "gfx942", "lds", 2, 4),
        ("buffer_load_dwordx4", "gfx942", "memory", 16, 16),
        ("buffer_load_ushort", "gfx942", "memory", 4, 2),
        ("global_store_short_d16_hi", "gfx942", "memory", 4, 2),
        ("scratch_load_dword", "gfx942", "memory", 4, 4),
        ("s_load_dwordx4", "gfx942", "smem", 4, 0),
        ("s_barrier", "gfx942", "scalar", 4, 0),
    ],
)
def test_what_instructions_cost(
    name: str, arch: str, unit: str, clocks: int, lane_bytes: int
) -> None:
    found = cost(name, arch)
    assert (found.unit, found.clocks, found.lane_bytes) == (unit, clocks, lane_bytes)


def test_peak_of_the_data_sheet_is_that_of_the_instructions() -> None:
    for arch, name in (
        ("gfx90a", "v_mfma_f32_32x32x8f16"),
        ("gfx942", "v_mfma_f32_32x32x8_f16"),
        ("gfx950", "v_mfma_f32_32x32x16_f16"),
        ("gfx942", "v_mfma_f32_32x32x16_fp8_fp8"),
    ):
        (sheet, *_) = (s for s in SHEETS.values() if s.arch == arch)
        found = cost(name, arch)
        product = product_of(name)
        assert product is not None
        rate = 4 * found.flops / found.clocks * sheet.compute_units * sheet.clock_hz
        assert rate == sheet.matrix_flops(product.kind)


def test_workgroups_are_read_from_the_ir(tmp_path: Path) -> None:
    (tmp_path / "a.linked.ll").write_text(
        'define amdgpu_kernel void @"two$dims"(ptr %0) #0 {\n'
        "  %2 = call range(i32 0, 18) i32 @llvm.amdgcn.workgroup.id.x()\n"
        "  %3 = call range(i32 0, 4) i32 @llvm.amdgcn.workgroup.id.y()\n"
        "  %4 = call range(i32 0, 4) i32 @llvm.amdgcn.workgroup.id.y()\n}\n"
        "define amdgpu_kernel void @one(ptr %0) #0 {\n}\n"
        "define amdgpu_kernel void @open(ptr %0) #0 {\n"
        "  %2 = call i32 @llvm.amdgcn.workgroup.id.x()\n}\n"
    )
    names = ["'two$dims'", "one", "open", "other"]
    kernels = "".join(f"  - .agpr_count: 0\n    .name: {n}\n" for n in names)
    (tmp_path / "a.rocmasm").write_text(
        f".amdgpu_metadata\namdhsa.kernels:\n{kernels}.end_amdgpu_metadata\n"
    )
    found = {k.name: k.workgroups for k in read_kernels(tmp_path)}
    assert found == {"two$dims": 72, "one": 1, "open": None, "other": None}


LOAD = "buffer_load_dwordx4 v[0:3], v8, s[8:11], 0 offen"
WAIT = "s_waitcnt vmcnt(0)"


def clocks(*lines: str, **figures: Any) -> int:
    found = estimate(kernel(*lines, **figures), Work(), LIMITS["gfx942"], SHEETS["mi300x"])
    assert found is not None
    return found.wave_clocks


def test_a_wave_waits_for_what_it_asked_for() -> None:
    reached = 16 + LATENCY["memory"]  # 64 lanes of 16 bytes, 64 bytes a clock
    assert clocks(LOAD) == 4
    assert clocks(LOAD, WAIT) == reached
    assert clocks(LOAD, LOAD, WAIT) == 16 + reached  # the second follows the first
    assert clocks(LOAD, LOAD, "s_waitcnt vmcnt(1)") == reached
    assert clocks(LOAD, "v_fma_f32 v0, v0, v0, v0", WAIT) == reached  # meanwhile
    assert clocks("ds_read_b128 v[0:3], v1", "s_waitcnt lgkmcnt(0)") == 8 + LATENCY["lds"]
    assert clocks(LOAD, "s_waitcnt lgkmcnt(0)") == 4  # for something else
    assert clocks("s_nop 3") == 16
    # Matrix instructions follow one another; others go on beside them.
    assert clocks(MFMA, MFMA) == 32
    assert clocks(MFMA, "v_fma_f32 v0, v0, v0, v0") == 16


def looped(trips: int, *body: str) -> tuple[str, ...]:
    head = ("s_mov_b32 s5, 0", ".LBB0_1:")
    tail = ("s_add_i32 s5, s5, 1", f"s_cmp_lg_u32 s5, {trips}", "s_cbranch_scc1 .LBB0_1")
    return (*head, *body, *tail, "s_endpgm")


def test_a_load_that_is_asked_for_early_costs_less() -> None:
    late = clocks(*looped(100, LOAD, WAIT, *[MFMA] * 50))
    early = clocks(LOAD, *looped(100, WAIT, LOAD, *[MFMA] * 50))
    assert late == pytest.approx(100 * (16 + LATENCY["memory"] + 50 * 16), rel=0.05)
    assert early == pytest.approx(100 * 50 * 16, rel=0.05)


def test_units_are_shared_by_the_waves_of_a_compute_unit() -> None:
    sheet, limits = SHEETS["mi300x"], LIMITS["gfx942"]
    body = looped(64, *[MFMA] * 32)
    flops = 64 * 32 * 2 * 16**3

    def of(workgroups: int, **figures: Any) -> Any:
        waves = workgroups * figures.get("threads", 64) // 64
        made = kernel(*body, workgroups=workgroups, **figures)
        return estimate(made, Work(flops * waves, 0, 0), limits, sheet)

    one = of(1)
    assert one.bound in ("matrix", "wave")
    assert one.times["matrix"] == pytest.approx(64 * 32 * 16 / sheet.clock_hz)
    assert one.arithmetic == 1.0
    assert (one.waves, one.workgroups, one.unknown_loops) == (1, 1, 0)
    # A wave for each SIMD of each compute unit takes no longer; twice as many take twice as long.
    full = of(304, threads=256)
    assert full.times["matrix"] == pytest.approx(one.times["matrix"])
    assert of(305, threads=256).times["matrix"] == pytest.approx(2 * one.times["matrix"])
    # All registers of a SIMD for one wave: the two sets follow one another.
    crowded = of(608, threads=256, vgprs=512)
    assert crowded.times["wave"] == pytest.approx(2 * one.times["wave"])
    assert of(608, threads=256).times["wave"] == pytest.approx(one.times["wave"])
    # Seven rows of sixteen are asked for.
    tiles = estimate(kernel(*body), Work(flops * 7 // 16, 0, 0), limits, sheet)
    assert tiles is not None
    assert tiles.arithmetic == pytest.approx(16 / 7)


def test_memory_counts_tensors_once_and_the_caches_all_loads() -> None:
    sheet = SHEETS["mi300x"]
    made = kernel(*looped(1000, LOAD), WAIT, workgroups=1000)
    found = estimate(made, Work(0, 0, 5300), LIMITS["gfx942"], sheet)
    assert found is not None
    assert found.times["memory"] == pytest.approx(1e-9)
    moved = 1000 * 1000 * 64 * 16
    assert found.times["l2"] == pytest.approx(moved / (128 * 128) / sheet.clock_hz)
    assert found.times["l1"] == pytest.approx(4 * 1000 * 16 / sheet.clock_hz)  # 4 waves on a CU
    assert found.seconds == max(found.times.values()) == found.times[found.bound]


def test_a_loop_of_unknown_length_runs_as_often_as_the_arithmetic_asks_for() -> None:
    lines = ("s_mov_b32 s5, 0", ".LBB0_1:", MFMA, "s_add_i32 s5, s5, s7")
    lines += ("s_cmp_lg_u32 s5, s8", "s_cbranch_scc1 .LBB0_1", "s_endpgm")
    sheet, limits = SHEETS["mi300x"], LIMITS["gfx942"]
    found = estimate(kernel(*lines), Work(50 * 2 * 16**3, 0, 0), limits, sheet)
    assert found is not None
    assert (found.unknown_loops, found.arithmetic) == (1, 1.0)
    assert found.times["matrix"] == pytest.approx(50 * 16 / sheet.clock_hz)


def test_no_estimate_without_the_workgroups_or_the_code() -> None:
    sheet, limits = SHEETS["mi300x"], LIMITS["gfx942"]
    assert estimate(kernel(MFMA, workgroups=None), Work(), limits, sheet) is None
    assert estimate(kernel(), Work(), limits, sheet) is None


def test_the_hot_loop() -> None:
    made = code(
        *looped(2, *["v_fma_f32 v0, v0, v0, v0"] * 9)[:-1],
        "s_mov_b32 s6, 0",
        ".LBB0_2:",
        "buffer_load_ushort v1, v8, s[8:11], 0 offen",
        "v_fma_f32 v0, v0, v0, v0",
        "v_add_u32_e32 v0, v0, v1",
        MFMA,
        "s_add_i32 s6, s6, 1",
        "s_cmp_lg_u32 s6, 30",
        "s_cbranch_scc1 .LBB0_2",
        "s_endpgm",
    )
    found = hot_loop(made, "gfx942")
    assert (found.trips, found.instructions, found.vector, found.mfma) == (30, 7, 3, 1)
    assert found.mfma_share == pytest.approx(1 / 3)
    assert found.loads == {2: 1}
    # Without a loop it is all code; without loads in it those of the kernel.
    assert hot_loop(code(LOAD, WAIT), "gfx942").loads == {16: 1}
    assert hot_loop(code(LOAD, *looped(9, MFMA)), "gfx942").loads == {16: 1}
    assert hot_loop(code(), "gfx942").mfma_share == 0


def test_a_compiled_product(tmp_path: Path) -> None:
    graph = Graph("product", io_data_type="half", compute_data_type="float")
    a, b = graph.tensor(dims=(300, 512)), graph.tensor(dims=(512, 256))
    graph.matmul(a, b).set_output()
    found = inspect_graph(graph.freeze(), Target.parse("gfx942"), tmp_path)
    (one,) = found.dispatches
    assert one.kernel is not None
    assert one.roofline is not None
    assert one.hot_loop is not None
    assert one.estimate is not None
    assert one.kernel.workgroups is not None
    # Every tile is whole, so the count of instructions is that of the padded problem.
    assert one.estimate.unknown_loops == 0
    rows = one.estimate.arithmetic * 300
    assert rows == pytest.approx(round(rows))
    assert 300 < rows < 2 * 300
    assert one.estimate.waves == one.kernel.workgroups * one.kernel.threads // 64
    assert one.hot_loop.mfma > 0
    assert 0 < one.hot_loop.mfma_share < 1
    assert one.estimate.seconds >= one.roofline.seconds
    assert found.estimate_s == one.estimate.seconds
    data = one.as_dict()
    assert data["estimate"]["bound"] == one.estimate.bound
    assert "code" not in data["kernel"]
    late = replace(found, dispatches=(one, replace(one, estimate=None)))
    assert late.estimate_s is None
