# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is read of compiled code, what is estimated of it, and what is worth a warning."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hipdnn_iree import Graph, Target
from hipdnn_iree.graph_api.layout import channels_last_strides
from hipdnn_iree.jit.inspect import Dispatch, Inspection
from hipdnn_iree.jit.inspect.config import Config, parse_config
from hipdnn_iree.jit.inspect.isa import Kernel, read_kernels
from hipdnn_iree.jit.inspect.machine import LIMITS, SHEETS, limits_of, sheet_of
from hipdnn_iree.jit.inspect.notices import RULES, notices
from hipdnn_iree.jit.inspect.occupancy import occupancy
from hipdnn_iree.jit.inspect.roofline import roofline
from hipdnn_iree.jit.target import GFX9_ARCHS, GFX9_SKUS
from hipdnn_iree.jit.work import Work
from under_settings import inspect_graph

CONFIGURED = """
hal.executable public @main$async_dispatch_0 {
  hal.executable.export public @"main$async_dispatch_0_conv" ordinal(0)
  func.func @f() attributes {translation_info = #iree_codegen.translation_info<pipeline =
      #iree_gpu.pipeline<TileAndFuse> workgroup_size = [256, 2, 1] subgroup_size = 64, {x = 1}>} {
    linalg.fill {lowering_config = #iree_gpu.lowering_config<{thread = [4]}>}
    linalg.generic {lowering_config = #iree_gpu.lowering_config<{mma_kind =
      #iree_gpu.mma_layout<MFMA_F32_16x16x16_F16>, reduction = [0, 4], workgroup = [1, 64]}>} {
""".replace("\n      ", " ")


def kernel(**figures: Any) -> Kernel:
    return Kernel(**{"name": "k", "mfma": {}, "vgprs": 64, "sgprs": 32, "threads": 256, **figures})


def test_the_choices_of_the_compiler() -> None:
    found = parse_config(CONFIGURED)
    assert found == Config(
        pipeline="TileAndFuse",
        workgroup_size=(256, 2, 1),
        subgroup_size=64,
        lowering={
            "mma_kind": "#iree_gpu.mma_layout<MFMA_F32_16x16x16_F16>",
            "reduction": "[0, 4]",
            "workgroup": "[1, 64]",
        },
    )
    old = "translation_info = #iree_codegen.translation_info<pipeline = CPUDoubleTilingExpert>} {"
    assert parse_config(old) == Config(pipeline="CPUDoubleTilingExpert")
    assert parse_config("nothing") == Config()


def test_memory_instructions_by_width(tmp_path: Path) -> None:
    lines = ["buffer_load_dwordx4 v[0:3]", "global_load_ushort v0", "global_store_short_d16_hi v1"]
    lines += ["buffer_load_dword v0", "ds_read_b128 v[0:3]", "global_load_dwordx2 v[0:1]"]
    lines += ["buffer_load_ubyte v0", "v_mfma_f32_16x16x16_f16 a[0:3]"]
    metadata = "amdhsa.kernels:\n  - .agpr_count: 0\n    .name: k\n    .reqd_workgroup_size:\n"
    metadata += "      - 64\n      - 2\n      - 1\n    .vgpr_count: 7\n"
    (tmp_path / "a.rocmasm").write_text(
        "k:\n\t" + "\n\t".join(lines) + f"\n.Lfunc_end0\n.amdgpu_metadata\n{metadata}"
        ".end_amdgpu_metadata\n"
    )
    (found,) = read_kernels(tmp_path)
    assert found.loads == {1: 1, 2: 1, 4: 1, 8: 1, 16: 1}
    assert found.stores == {2: 1}
    assert (found.threads, found.vgprs, found.mfma_count) == (128, 7, 1)


@pytest.mark.parametrize(
    ("arch", "figures", "expected"),
    [
        # 4 waves a group. 512 registers, 64 each: 8 waves on each SIMD, which is all there are.
        ("gfx942", {}, (8, 8, ("VGPRs", "waves"))),
        ("gfx942", {"vgprs": 65}, (7, 7, ("VGPRs",))),  # 72 by the granule of 8
        ("gfx942", {"vgprs": 128, "lds_bytes": 30000}, (2, 2, ("LDS",))),
        ("gfx950", {"vgprs": 128, "lds_bytes": 30000}, (4, 4, ("VGPRs",))),  # 160 KiB of LDS
        ("gfx942", {"vgprs": 8, "threads": 1024}, (8, 2, ("waves",))),
        (
            "gfx942",
            {"vgprs": 8, "threads": 128, "lds_bytes": 512},
            (8, 16, ("waves", "workgroups")),
        ),
        ("gfx942", {"vgprs": 8, "threads": 64}, (8, 32, ("waves",))),  # no barrier, no limit
        ("gfx942", {"vgprs": 8, "sgprs": 112}, (7, 7, ("SGPRs",))),
        ("gfx942", {"lds_bytes": 70000}, (0, 0, ("LDS",))),
        # Here accumulation registers have a file of their own.
        ("gfx908", {"vgprs": 32, "agprs": 64}, (4, 4, ("VGPRs",))),
        ("gfx908", {"vgprs": 24}, (10, 10, ("VGPRs", "waves"))),
    ],
)
def test_occupancy(arch: str, figures: dict[str, Any], expected: tuple[Any, ...]) -> None:
    found = occupancy(kernel(**figures), LIMITS[arch])
    assert (found.waves_per_simd, found.workgroups_per_cu, found.limited_by) == expected


def test_figures_are_those_of_the_data_sheets() -> None:
    # Peaks in TFLOPS as AMD's product pages give them (half of it for one device of an MI250X).
    for sku, half, single in (
        ("mi100", 184.6, 23.1),
        ("mi210", 181.0, 22.6),
        ("mi250x", 383 / 2, 47.9 / 2),
        ("mi300a", 980.6, 122.6),
        ("mi300x", 1307.4, 163.4),
        ("mi355x", 2516.6, 157.3),
    ):
        sheet = SHEETS[sku]
        assert sheet.matrix_flops("f16") == pytest.approx(half * 1e12, rel=2e-3)
        assert sheet.vector_flops == pytest.approx(single * 1e12, rel=3e-3)
    assert set(LIMITS) == set(GFX9_ARCHS)
    assert {sku: s.arch for sku, s in SHEETS.items()}.items() <= GFX9_SKUS.items()
    names = {str(t): s.sku for t in map(Target.parse, Target.known()) if (s := sheet_of(t))}
    assert names["gfx942"] == names["mi300x"] == "mi300x"
    assert "mi308x" not in names
    assert "cpu" not in names
    assert limits_of(Target.parse("cpu")) is None


def test_the_roofline_knows_what_binds() -> None:
    sheet = SHEETS["mi300x"]
    work = Work(matrix_flops=2 * 4096**3, other_flops=4096**2, nbytes=3 * 2 * 4096**2)
    bound = roofline(work, sheet, "f16")
    assert (bound.bound, bound.seconds) == ("matrix", bound.matrix_s)
    assert bound.matrix_s == pytest.approx(2 * 4096**3 / 1307.4e12, rel=1e-3)
    assert bound.ridge == pytest.approx(1307.4e12 / 5.3e12, rel=1e-3)
    # Without matrix instructions the same arithmetic is the vector units' to do.
    slow = roofline(work, sheet, "", matrix=False)
    assert (slow.bound, slow.seconds) == ("vector", slow.matrix_s + slow.vector_s)
    few = roofline(Work(matrix_flops=0, other_flops=100, nbytes=5300), sheet, "", matrix=False)
    assert (few.bound, few.seconds) == ("memory", pytest.approx(1e-9))


def test_open_dims_have_no_bytes_and_no_times() -> None:
    sizes = (Work(1, 1, 8), Work(1, 1, 0))
    made = tuple(dispatch(str(i), work=work) for i, work in enumerate(sizes))
    common = {"target": Target.parse("gfx942"), "sheet": None, "statistics": {}, "work": Work()}
    assert Inspection(dispatches=made, **common).moved_bytes is None
    assert Inspection(dispatches=made[:1], **common).moved_bytes == 8
    assert Inspection(dispatches=made, **common).seconds is None
    late = (made[0], replace(made[1], at_load=True))  # does not count
    assert Inspection(dispatches=late, **common).moved_bytes == 8


CHAIN = ("product", "sum", "relu")


def dispatch(name: str, *nodes: str, **fields: Any) -> Dispatch:
    plain = {"reads": (), "writes": (), "at_load": False, "work": Work(), "config": Config()}
    places = tuple(CHAIN.index(node) for node in nodes)
    return Dispatch(name=name, nodes=nodes, places=places, **{**plain, **fields})


def chain(names: tuple[str, str, str] = CHAIN) -> Any:
    graph = Graph(io_data_type="half", compute_data_type="float")
    a, b = graph.tensor(dims=(32, 32)), graph.tensor(dims=(32, 32))
    product = graph.matmul(a, b, name=names[0])
    graph.relu(graph.add(product, a, name=names[1]), name=names[2]).set_output()
    return graph.freeze()


@pytest.mark.parametrize(
    ("rule", "dispatches", "statistics"),
    [
        ("INSPECT-01", [dispatch("d", "product", "sum", "relu", kernel=kernel())], {}),
        (
            "INSPECT-02",
            [dispatch("d", "product", "sum", kernel=kernel(mfma={"v_mfma": 1}, vgpr_spills=3))],
            {},
        ),
        (
            "INSPECT-03",
            [dispatch("d", "product", "sum", kernel=kernel(mfma={"v_mfma": 1}, scratch_bytes=8))],
            {},
        ),
        ("INSPECT-04", [dispatch("d", "product"), dispatch("e", "sum", "relu")], {}),
        ("INSPECT-05", [dispatch("d", "product"), dispatch("e", "product", "sum", "relu")], {}),
        ("INSPECT-06", [dispatch("d", "product", "sum")], {"fills": 1, "copies": 0}),
        ("", [dispatch("d", "product", "sum", kernel=kernel(mfma={"v_mfma": 1}))], {"fills": 0}),
    ],
)
def test_warnings(rule: str, dispatches: list[Dispatch], statistics: dict[str, int]) -> None:
    found = notices(chain(), dispatches, statistics)
    assert [n.rule for n in found] == ([rule] if rule else [])
    assert {n.rule for n in found} <= set(RULES)
    if rule == "INSPECT-04":
        assert found[0].nodes == ("product", "sum", "relu")
        assert found[0].dispatches == ("e",)
    if rule == "INSPECT-05":
        assert found[0].dispatches == ("d", "e")
        late = [replace(dispatches[0], at_load=True), dispatches[1]]
        assert notices(chain(), late, {}) == ()  # a table that is filled once


def test_nodes_of_one_name_are_told_apart() -> None:
    """Each has a kernel of its own; the addition alone stands behind the product."""
    apart = [dispatch("d", "product"), dispatch("e", "sum", "relu")]
    same = [replace(one, nodes=("n",) * len(one.nodes)) for one in apart]
    (found,) = notices(chain(("n", "n", "n")), same, {})
    assert (found.rule, found.dispatches) == ("INSPECT-04", ("e",))


def test_a_compiled_graph_is_told_by_dispatch(tmp_path: Path) -> None:
    # The filter is turned round by a kernel of its own; a rectifier after a sum is fused.
    graph = Graph("gradient", io_data_type="half", compute_data_type="float")
    dims, taps = (2, 32, 8, 8), (32, 32, 3, 3)
    dy, other = (graph.tensor(dims=dims, strides=channels_last_strides(dims)) for _ in range(2))
    dx = graph.conv_dgrad(dy, graph.tensor(dims=taps), dx_dims=dims, padding=1, name="dgrad")
    graph.relu(graph.add(dx, other, name="sum"), name="relu").set_output()
    found = inspect_graph(graph.freeze(), Target.parse("mi300x"), tmp_path)
    turned, main = found.dispatches
    assert (turned.nodes, main.nodes) == (("dgrad",), ("dgrad", "sum", "relu"))
    assert len(found.dispatches) == found.statistics["dispatches"]
    assert found.sheet is SHEETS["mi300x"]
    assert [n.rule for n in found.notices] == ["INSPECT-05"]
    assert main.kernel is not None
    assert turned.kernel is not None
    assert main.config.pipeline
    assert main.config.subgroup_size == 64
    assert main.kernel.threads == main.config.workgroup_size[0]
    assert sum(main.kernel.loads.values()) > 0 < sum(main.kernel.stores.values())
    assert main.work.matrix_flops == found.work.matrix_flops == 2 * 2 * 64 * 32 * 32 * 9
    assert (turned.work.matrix_flops, turned.work.nbytes) == (0, 2 * 2 * 32 * 32 * 9)
    assert main.work.nbytes == 2 * (3 * 2 * 32 * 64 + 32 * 32 * 9)
    assert main.roofline is not None
    assert main.occupancy is not None
    assert main.occupancy.workgroups_per_cu > 0
    assert found.seconds == pytest.approx(
        main.roofline.seconds + (turned.roofline.seconds if turned.roofline else 0)
    )
    assert found.moved_bytes == main.work.nbytes + turned.work.nbytes > found.work.nbytes


def test_a_kernel_that_is_launched_twice_serves_nodes_of_its_own_each_time(tmp_path: Path) -> None:
    """Equal kernels are one, with the locations of the first launch."""
    g = Graph(io_data_type="float")
    x = g.tensor(dims=(16, 16), name="x")
    for i in range(2):
        product = g.matmul(x, g.tensor(dims=(16, 16)), name=f"matmul{i}")
        x = g.relu(product, name=f"relu{i}").set_output()
    found = inspect_graph(g.freeze(), Target.parse("cpu:znver5"), tmp_path)
    assert len({d.name for d in found.dispatches}) == 1
    assert [d.nodes for d in found.dispatches] == [("matmul0", "relu0"), ("matmul1", "relu1")]
    assert [d.places for d in found.dispatches] == [(0, 1), (2, 3)]
    assert [d.work.matrix_flops for d in found.dispatches] == [2 * 16**3] * 2


def test_of_a_part_of_a_tensor_the_part_is_read(tmp_path: Path) -> None:
    """Not all of the weights by the matmul of each expert."""
    g = Graph(io_data_type="half", compute_data_type="float")
    x, w = g.tensor(dims=(1, 16, 32)), g.tensor(dims=(4, 32, 64))
    first = g.slice(w, starts=(1, 0, 0), limits=(2, 32, 64))
    g.matmul(x, first).set_output()
    (found,) = inspect_graph(g.freeze(), Target.parse("mi300x"), tmp_path).dispatches
    assert set(found.reads) == {"16x32xf16", "4x32x64xf16"}
    assert found.work.nbytes == 2 * (16 * 32 + 32 * 64 + 16 * 64)
