# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiles of kernels for CPUs that are elementwise or add up rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import pytest
from hipdnn_iree import Graph, Target
from hipdnn_iree.jit.compiler import tool
from hipdnn_iree.jit.compiler.loop_tiles import DECOMPOSE, lanes_of, softmax, tiled, tilings
from hipdnn_iree.jit.compiler.phases import DISPATCHES
from hipdnn_iree.jit.lowering.module import lower_graph
from hipdnn_iree.jit.settings import scope
from kernel_texts import FLAGS
from under_settings import target_flags

KERNEL = """\
  flow.executable private @one {{
    builtin.module {{
      func.func @one() {{
{}      }}
"""


def loop(name: str, ins: dict[str, str], outs: str, *, kind: str = "f32", body: str = "") -> str:
    """Return a loop over dims a, b, c of 40, 1021 and 1013: what it reads, and how it writes."""
    extents = {"a": 40, "b": 1021, "c": 1013}
    used = sorted({d for dims in (*ins.values(), outs) for d in dims})
    number = {d: f"d{i}" for i, d in enumerate(used)}

    def shape(dims: str) -> str:
        return "tensor<" + "".join(f"{extents[d]}x" for d in dims) + kind + ">"

    maps = (
        f"affine_map<({', '.join(number.values())}) -> ({', '.join(number[d] for d in dims)})>"
        for dims in (*ins.values(), outs)
    )
    kinds = ('"parallel"' if d in outs else '"reduction"' for d in used)
    return (
        f"        %{name} = linalg.generic {{indexing_maps = [{', '.join(maps)}], "
        f"iterator_types = [{', '.join(kinds)}]}} "
        f"ins({', '.join(f'%{one}' for one in ins)} : {', '.join(map(shape, ins.values()))}) "
        f"outs(%e : {shape(outs)}) {{\n"
        f"        ^bb0(%in: {kind}, %out: {kind}):\n{body}"
        f"          linalg.yield %in : {kind}\n        }} -> {shape(outs)}\n"
    )


def found(*statements: str, lanes: int = 8) -> Sequence[tuple[str, str]]:
    return tilings(KERNEL.format("".join(statements)).encode(), lanes).get("one", ())


def levels(text: str) -> dict[str, list[int]]:
    return {
        name: [int(n) for n in sizes.split(", ") if n]
        for name, sizes in re.findall(r"(\w+) = \[([\d, ]*)\]", text)
    }


ROW_AND_BIAS = loop("2", {"0": "bc", "1": "c"}, "bc")


@pytest.mark.parametrize(
    ("statement", "workgroup", "vectors"),
    [
        # Whole rows, two vectors at a time; shorter rows and transposes have one.
        (ROW_AND_BIAS, [16, 1013], [1, 16]),
        (loop("2", {"0": "bc", "1": "b"}, "bc"), [16, 1013], [1, 16]),
        (loop("2", {"0": "ba", "1": "b"}, "ba"), [40, 102], [8, 1]),
        (loop("2", {"0": "bc"}, "cb"), [256, 64], [8, 8]),
        (loop("2", {"0": "abc", "1": "bc"}, "abc"), [1, 16, 1013], [1, 1, 16]),
        (loop("2", {"0": "abc"}, "acb"), [1, 256, 64], [1, 8, 8]),
        # Of 64 bits a vector holds half as many.
        (loop("2", {"0": "bc"}, "bc", kind="f64"), [16, 1013], [1, 8]),
        (loop("2", {"0": "bc"}, "bc", kind="bf16"), [16, 1013], [1, 16]),
    ],
)
def test_elementwise(statement: str, workgroup: list[int], vectors: list[int]) -> None:
    ((name, text),) = found(statement)
    assert name == "compilation_info"
    assert levels(text) == {"distribution": workgroup, "vector_common_parallel": vectors}
    assert "enable_loop_peeling" in text


@pytest.mark.parametrize(
    ("statement", "workgroup", "common", "along"),
    [
        (loop("2", {"0": "bc"}, "b"), [16, 0], [1, 0], [0, 32]),
        (loop("2", {"0": "bc"}, "c"), [0, 16], [0, 16], [1, 0]),
        (loop("2", {"0": "abc"}, "b"), [0, 1, 0], [0, 1, 0], [4, 0, 32]),
        (loop("2", {"0": "bc", "1": "c"}, "b"), [16, 0], [1, 0], [0, 32]),
        # Of 40 elements there are five vectors.
        (loop("2", {"0": "ba"}, "b"), [0, 102], [0, 1], [32, 0]),
        # Columns: as many vectors as a power of two that divides them all.
        (loop("2", {"0": "ba"}, "a"), [8, 0], [8, 0], [0, 1]),
    ],
)
def test_sums(statement: str, workgroup: list[int], common: list[int], along: list[int]) -> None:
    ((_, text),) = found(statement)
    assert levels(text) == {
        "distribution": workgroup,
        "vector_common_parallel": common,
        "vector_reduction": along,
    }


LARGEST = "          %1 = arith.maximumf %in, %out : f32\n"


@pytest.mark.parametrize(
    ("dims", "along", "lanes"),
    [
        # Of 126 vectors and 5 elements four times 31, which leave 21; 5 vectors in one go.
        ("bc", [0, 248], 8),
        ("ba", [32, 0], 8),
        # Of 63 two times 31.  Of 20, without a rest, 19: not all, which are no power of two.
        ("bc", [0, 496], 16),
        ("ba", [38, 0], 2),
    ],
)
def test_vectors_of_rows_are_compared_many_at_a_time(
    dims: str, along: list[int], lanes: int
) -> None:
    """Each time all lanes are compared one by one."""
    ((_, text),) = found(loop("2", {"0": dims}, "b", body=LARGEST), lanes=lanes)
    assert levels(text)["vector_reduction"] == along


def test_only_what_compares_has_such_vectors() -> None:
    largest = loop("5", {"0": "bc"}, "b", body=LARGEST)
    apart = loop("6", {"0": "bc", "5": "b"}, "bc")
    total = loop("7", {"6": "bc"}, "b")
    kept = [levels(text) for _, text in found(largest, apart, total)]
    assert kept[0]["vector_reduction"] == [0, 248]
    assert kept[1]["vector_inner_parallel"] == kept[2]["vector_reduction"] == [0, 32]


@pytest.mark.parametrize("columns", [1, 15, 16, 17, 31, 64, 197, 368, 736, 1013, 2208])
@pytest.mark.parametrize("mode", ["max", "min", "amax"])
def test_extremes_of_rows_are_right(columns: int, mode: str) -> None:
    g = Graph(io_data_type="float")
    g.reduction(g.tensor(dims=(37, columns)), mode=mode, axes=1).set_output()
    plan = g.build("cpu")
    assert plan.verify(seed=columns).ok


def test_a_kernel_of_several_loops_has_one_root() -> None:
    """A layer norm's sums, and what is made of them: dims are told by the values."""
    fill = (
        "        %4 = linalg.fill ins(%cst : f32) outs(%3 : tensor<1021xf32>) -> tensor<1021xf32>\n"
    )
    mean = loop("5", {"0": "bc"}, "b")
    centred = loop("6", {"0": "bc", "5": "b"}, "bc")
    squares = loop("7", {"6": "bc"}, "b")
    scale = loop("8", {"7": "b"}, "b")
    result = loop("9", {"6": "bc", "8": "b", "1": "c"}, "bc")
    names, texts = zip(*found(fill, mean, centred, squares, scale, result), strict=True)
    assert [n == "compilation_info" for n in names] == [False] * 3 + [True] + [False] * 2
    row = {"vector_common_parallel": [1]}
    inner = {"vector_common_parallel": [1, 0], "vector_inner_parallel": [0, 32]}
    adding = {"vector_common_parallel": [1, 0], "vector_reduction": [0, 32]}
    assert list(map(levels, texts)) == [
        row, adding, inner, {"distribution": [16, 0], **adding}, row, inner,
    ]  # fmt: skip


def test_dims_of_loops_are_told_by_what_they_read() -> None:
    """A loop over b, a, of which columns are added up: its dims are the root's, in its order."""
    first = loop("2", {"0": "ab"}, "ab")
    second = loop("3", {"2": "ba"}, "a")  # reads it with the names in another order
    both = found(first, second.replace("40x1021", "x"), lanes=8)
    assert both == ()  # a value of 40x1021 is read as one of 1021x40
    swapped = second.replace("1021x40x", "40x1021x")
    swapped = swapped.replace("(d0, d1) -> (d1, d0)", "(d0, d1) -> (d0, d1)")
    assert [levels(text)["vector_common_parallel"] for _, text in found(first, swapped)] == [
        [1, 0],
        [1, 0],
    ]


EXTRACT = "          %v = tensor.extract %0[%i] : tensor<9xf32>\n"


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param([loop("2", {"0": "ab", "1": "bc"}, "ac")], id="matmul"),
        pytest.param([loop("2", {"0": "bc"}, "")], id="one sum of all"),
        pytest.param([loop("2", {"0": "bc"}, "bc", kind="i4")], id="half bytes"),
        pytest.param([loop("2", {"0": "bc"}, "bc", body=EXTRACT)], id="gather"),
        pytest.param([ROW_AND_BIAS.replace("1013x", "?x")], id="unknown extent"),
        pytest.param([ROW_AND_BIAS.replace("1013x", "7x")], id="no whole vector"),
        pytest.param(
            [ROW_AND_BIAS.replace("{indexing", "{compilation_info = #x, indexing")], id="set"
        ),
        pytest.param([ROW_AND_BIAS.replace("(d1)", "(d0 + d1)")], id="windows"),
        pytest.param(["        %2 = linalg.pack %0 into %1\n", ROW_AND_BIAS], id="another op"),
        pytest.param([loop("2", {"0": "bc", "1": "cb"}, "ab")], id="a sum of transposed"),
        pytest.param([loop("2", {"0": "abc", "1": "cba"}, "acb")], id="transposed two ways"),
        pytest.param(
            [loop("2", {"0": "bc"}, "b"), loop("3", {"0": "bc"}, "c")], id="rows and columns"
        ),
        pytest.param(
            [loop("2", {"0": "bc"}, "b"), loop("3", {"1": "ac"}, "ac")], id="another loop"
        ),
        pytest.param([], id="nothing"),
    ],
)
def test_kernels_that_the_compiler_tiles(statements: list[str]) -> None:
    assert found(*statements) == ()


def test_targets() -> None:
    assert lanes_of(FLAGS["gfx942"]) == lanes_of(FLAGS["cuda:sm_80"]) == 0
    lanes = {"cpu:znver3": 8, "cpu:znver4": 16, "cpu:sapphirerapids": 16, "cpu:x86-64-v2": 4}
    for name, count in lanes.items():
        assert lanes_of(target_flags(Target.parse(name))) == count
    assert tilings(KERNEL.format(ROW_AND_BIAS).encode(), 0) == {}


def softmax_of(g: Graph, rows: int, columns: int) -> None:
    x = g.tensor(dims=(rows, columns))
    e = g.exp(g.sub(x, g.reduction(x, mode="max", axes=1)))
    g.div(e, g.reduction(e, mode="add", axes=1)).set_output()


def norm_of(g: Graph, rows: int, columns: int) -> None:
    x, scale, bias = (g.tensor(dims=(n, columns)) for n in (rows, 1, 1))
    g.layernorm(x, scale, bias).y.set_output()


def transposed(g: Graph, rows: int, columns: int) -> None:
    g.neg(g.transpose(g.tensor(dims=(rows, columns)), permutation=(1, 0))).set_output()


@pytest.mark.parametrize("build", [softmax_of, norm_of, transposed])
def test_the_command_line_tool_makes_the_same(build: Callable[..., None]) -> None:
    """Its text has the attributes that are set on the library's module."""
    plans = {}
    for mode in ("worker", "cli"):
        g = Graph(io_data_type="float", name=build.__name__)
        build(g, 61, 257)
        with scope(compiler_mode=mode, cache_mode="off"):
            plans[mode] = g.build("cpu")
    inputs = plans["worker"].random_inputs()
    one, other = (plan.run(inputs) for plan in plans.values())
    assert all((one[uid] == other[uid]).all() for uid in one)
    assert plans["cli"].statistics["dispatches"] == plans["worker"].statistics["dispatches"]


def test_a_softmax_is_loops_before_tiles_are_chosen() -> None:
    """IREE would compute each exponential twice, after the tiles were chosen."""
    g = Graph(io_data_type="float")
    softmax_of(g, 61, 257)
    source = lower_graph(g.freeze(), Target.parse("cpu")).encode()
    text = tool._text(tool.tool_path(), source, FLAGS["cpu"], print, DISPATCHES)
    assert softmax(text)
    assert not tilings(text, 8)
    loops = tool._passed(tool.tool_path(), text, DECOMPOSE)
    assert not softmax(loops)
    assert loops.count(b" math.exp ") == 1
    ((_, chosen),) = tilings(loops, 8).items()
    assert [name for name, _ in chosen].count("compilation_info") == 1
    assert tiled(loops, {}) == loops
    marked = tiled(loops, tilings(loops, 8))
    assert marked.count(b"lowering_config = ") == len(chosen) == 6
