# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The text side of compiling: diagnostics, node labels, tool output, messages on the wire."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hipdnn_iree.jit.compiler import reproducer
from hipdnn_iree.jit.compiler.diagnostics import clean, crash_reason, find_node
from hipdnn_iree.jit.compiler.request import CompileRequest
from hipdnn_iree.jit.compiler.tool import diagnostics_of
from hipdnn_iree.jit.compiler.wire import Unframer, frame

NODES = {"n0": "first", "n1": 'a "quoted" name', "n12": "zwölf"}

# Texts as IREE 3.13 words them.
LEGALIZE = (
    "loc(\"n1\"): failed to legalize operation 'torch.operator' that was explicitly marked "
    'illegal: %1 = "torch.operator"(%0) <{name = "torch.aten.nosuch"}> : (!torch.vtensor<[4,4],'
    'f32>) -> !torch.vtensor<[4,4],f32>\n\nloc("n1"): see current operation: %1 = '
    '"torch.operator"(%0) <{name = "torch.aten.nosuch"}> : () -> ()'
)
SHAPE = (
    "loc(\"n0\"): 'linalg.matmul' op inferred input/output operand #1 has shape's dimension #0 to "
    'be 4, but found 5\n\nloc("n0"): see current operation: \n%9 = "linalg.matmul"(%1, %0) ({\n'
    '^bb0(%arg3: f32):\n  "linalg.yield"(%arg3) : (f32) -> ()\n}) : () -> tensor<?x?xf32>'
)
DOMINANCE = (
    'loc("n12"): operand #1 does not dominate this use\n\nloc("n12"): see current operation: %0 = '
    '"torch.aten.cumsum"(%arg1, %1) : () -> ()\n\nloc("n12"): operand defined here (op in the same '
    "block)"
)
BACKEND = (
    'loc("n0"): failed to run translation of source executable to target executable for backend '
    '#hal.executable.target<"rocm", "rocm-hsaco-fb", {abi = "hip", mma = [<MFMA_F32_16x16x4_F32>]}>'
    '\n\nloc("n0"): see current operation: \n"hal.executable.variant"() ({\n}) : () -> ()'
)


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (LEGALIZE, "a \"quoted\" name: the compiler has no lowering for 'torch.aten.nosuch' here"),
        (
            LEGALIZE.replace("torch.operator", "torch.aten.mm"),
            "a \"quoted\" name: the compiler has no lowering for 'torch.aten.mm' here",
        ),
        (
            SHAPE,
            "first: 'linalg.matmul' op inferred input/output operand #1 has shape's dimension #0 "
            "to be 4, but found 5",
        ),
        (
            DOMINANCE,
            "zwölf: operand #1 does not dominate this use; operand defined here (op in the same "
            "block)",
        ),
        (
            BACKEND,
            "first: failed to run translation of source executable to target executable for "
            "backend rocm",
        ),
        ("loc(unknown): Unknown ROCM target 'gfx940'", "Unknown ROCM target 'gfx940'"),
        ('loc(fused["n1", "n12"]): bad', 'a "quoted" name: bad'),
        ('loc(fused<"x">["n9"]): bad', "n9: bad"),
        ('loc(callsite("n12" at "n0")): bad', "zwölf: bad"),
        ("<stdin>:5:8: custom op 'x' is unknown", "module.mlir:5:8: custom op 'x' is unknown"),
        ("no location at all", "no location at all"),
        ('loc("unbalanced: x', 'loc("unbalanced: x'),
        ("", ""),
    ],
)
def test_clean(text: str, cleaned: str) -> None:
    assert clean(text, NODES) == cleaned


def test_clean_is_one_short_line_whatever_comes() -> None:
    rng = random.Random(0)
    pieces = ['loc("n0")', "loc(", ")", '"', "\n", "\n\n", ": ", "%0 = ", "[", "n1", "é", "x" * 400]
    for _ in range(2000):
        text = "".join(rng.choices(pieces, k=rng.randrange(12)))
        cleaned = clean(text, NODES)
        assert "\n" not in cleaned
        assert len(cleaned) <= 600
        find_node([text], text, NODES)


SOURCE = """module {
  %0 = foo %a : t -> t loc("n12")
  %1 = foo %0 : t -> t loc(#loc3)
  %2 = foo %1 {x = "loc(no)"} : t -> t loc(fused["n1", "n0"])
  %3 = foo
}
#loc = loc(unknown)
#loc3 = loc("n0")
"""


@pytest.mark.parametrize(
    ("texts", "node"),
    [
        ([LEGALIZE], 'a "quoted" name'),
        (["loc(unknown): vague", SHAPE], "first"),
        (["<stdin>:2:3: bad"], "zwölf"),
        (["<stdin>:3:9: bad"], "first"),
        (["<stdin>:4:1: bad"], 'a "quoted" name'),
        (["<stdin>:5:1: bad"], ""),
        (["<stdin>:99:1: bad"], ""),
        (["<stdin>:0:0: bad"], ""),
        (['loc("n77"): bad'], "n77"),
        ([], ""),
    ],
)
def test_find_node(texts: list[str], node: str) -> None:
    assert find_node(texts, SOURCE, NODES) == node


def test_the_only_node_is_the_one() -> None:
    assert find_node([], "", {"n0": "conv"}) == "conv"
    assert find_node([], "", {"n0": "conv", "n1": "conv"}) == "conv"


@pytest.mark.parametrize(
    ("stderr", "reason"),
    [
        ("", ""),
        ("Stack dump:\n #0 0x1 f(int) a.cpp:0:0\n", ""),
        ("noise\nLLVM ERROR: Cannot select: x\nStack dump:\n", "LLVM ERROR: Cannot select: x"),
        ("a.cpp:3: void f(): Assertion `x' failed.\n", "a.cpp:3: void f(): Assertion `x' failed."),
        (
            "Traceback (most recent call last):\n  File\nModuleNotFoundError: No module 'iree'\n",
            "ModuleNotFoundError: No module 'iree'",
        ),
    ],
)
def test_crash_reason(stderr: str, reason: str) -> None:
    assert crash_reason(stderr) == reason


def test_tool_output_reads_like_the_library() -> None:
    log = (
        "<stdin>:5:8: warning: odd\n"
        "  %0 = torch.aten.relu\n"
        "       ^\n"
        '<unknown>:0: error: loc("n1"): wrong\n'
        '<unknown>:0: note: loc("n1"): see current operation: \n'
        '%9 = "linalg.matmul"(%1)\n'
        "<stdin>:7:1: remark: fyi\n"
        "Stack dump:\n"
    )
    assert list(diagnostics_of(log)) == [
        ("warning", "<stdin>:5:8: odd"),
        ("error", 'loc("n1"): wrong\n\nloc("n1"): see current operation: '),
        ("remark", "<stdin>:7:1: fyi"),
    ]
    assert list(diagnostics_of("")) == []


def test_wire_survives_any_cut() -> None:
    messages = [({"a": 1}, b""), ({"text": "é\n\x00"}, bytes(range(256)) * 9), ({}, b"x")]
    stream = b"".join(frame(*message) for message in messages)
    rng = random.Random(1)
    for _ in range(50):
        unframer, got, at = Unframer(), [], 0
        while at < len(stream):
            step = rng.choice((1, 3, 20, 5000))
            got += unframer.feed(stream[at : at + step])
            at += step
        assert got == messages


def test_wire_keeps_what_follows_when_the_reader_stops() -> None:
    unframer = Unframer()
    stream = frame({"n": 1}) + frame({"n": 2}) + frame({"n": 3})
    for wanted in (1, 2, 3):
        assert next(unframer.feed(stream))[0] == {"n": wanted}
        stream = b""


@pytest.mark.parametrize("junk", [b"X", b"HI?", b"garbage that is long enough to be a header"])
def test_wire_refuses_what_is_not_a_message_at_once(junk: bytes) -> None:
    with pytest.raises(ValueError, match="not a message"):
        list(Unframer().feed(junk))


def test_reproducer_names_are_tame_and_leftovers_go(tmp_path: Path) -> None:
    stale = tmp_path / ".new-abandoned"
    stale.mkdir()
    os.utime(stale, (1, 1))
    fresh = tmp_path / ".new-in-progress"
    fresh.mkdir()
    odd = CompileRequest(source=b"m", flags=("--x=$(rm -rf /)", "--y=\udcff'"), label="../ü x" * 40)
    made = reproducer.write(tmp_path, 3, odd, {"stage": "crash"}, "log \udcff", "/a b/iree-compile")
    folder = Path(made)
    assert folder.parent == tmp_path
    assert len(folder.name) < 100
    assert "'--x=$(rm -rf /)'" in (folder / "command.sh").read_text(errors="surrogateescape")
    assert not stale.exists()
    assert fresh.exists()
