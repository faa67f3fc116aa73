# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiling for real: results, every way to fail, and what a failure leaves behind."""

from __future__ import annotations

import json
import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hipdnn_iree.graph_api.errors import CompileError
from hipdnn_iree.jit.compiler.client import CompileRequest, CompileResult
from hipdnn_iree.jit.settings import scope
from hipdnn_iree.jit.target import GFX9_ARCHS, Target
from under_settings import Compiler, target_flags

MAIN = """module @module {{
  func.func @main(%out: !torch.tensor<[{to}],{t}>, %a: !torch.vtensor<[{to}],{t}>{more}) {{
{body}
    torch.overwrite.tensor.contents %r overwrites %out : \
!torch.vtensor<[{to}],{t}>, !torch.tensor<[{to}],{t}> loc("n1")
    return
  }}
}}
"""
V = "!torch.vtensor<[4,4],f32>"


def module(*lines: str, more: str = "", to: str = "4,4", t: str = "f32") -> bytes:
    body = "\n".join(f"    {line}" for line in lines)
    return MAIN.format(body=body, more=more, to=to, t=t).encode()


RELU = module(f'%r = torch.aten.relu %a : {V} -> {V} loc("n1")')
# An output that is an input makes the compiler read through a null pointer.
IDENTITY = RELU.replace(b"%r overwrites", b"%a overwrites")
SYNTAX = module(f"%r = torch.aten.relu %a : {V} -> ", f'{V} loc("n1"')
UNKNOWN_OP = module(f'%r = torch.aten.nosuch %a : {V} -> {V} loc("n0")')
ALIASED = UNKNOWN_OP.replace(b'loc("n0")', b"loc(#loc7)") + b'#loc7 = loc("n0")\n'
NO_LOWERING = module(
    f'%b = torch.aten.relu %a : {V} -> {V} loc("n0")',
    f'%r = torch.operator "torch.aten.nosuch"(%b) : ({V}) -> {V} loc("n1")',
)
B = "!torch.vtensor<[5,4],f32>"
BAD_SHAPES = module(f'%r = torch.aten.mm %a, %b : {V}, {B} -> {V} loc("n0")', more=f", %b: {B}")
X = "!torch.vtensor<[1,16,8,8],f16>"
W = "!torch.vtensor<[16,16,3,3],f16>"
LIST = ": (!torch.int, !torch.int) -> !torch.list<int>"
CONV_F16 = module(
    '%false = torch.constant.bool false loc("n1")',
    '%none = torch.constant.none loc("n1")',
    '%i1 = torch.constant.int 1 loc("n1")',
    f'%s = torch.prim.ListConstruct %i1, %i1 {LIST} loc("n1")',
    '%e = torch.prim.ListConstruct : () -> !torch.list<int> loc("n1")',
    f"%r = torch.aten.convolution %a, %w, %none, %s, %s, %s, %false, %e, %i1 : {X}, {W}, "
    "!torch.none, !torch.list<int>, !torch.list<int>, !torch.list<int>, !torch.bool, "
    f'!torch.list<int>, !torch.int -> {X} loc("n1")',
    more=f", %w: {W}",
    to="1,16,8,8",
    t="f16",
)

CPU = target_flags(Target.parse("cpu"))
GLOBAL_FLAG = "--mlir-print-op-on-diagnostic=false"  # iree-compile takes it, a session does not
BOTH = pytest.mark.parametrize("mode", ["worker", "cli"])


def request_of(source: bytes, flags: tuple[str, ...] = CPU, **more: object) -> CompileRequest:
    nodes = {"n0": "first node", "n1": 'Knoten "zwei"'}
    return CompileRequest(source=source, flags=flags, nodes=nodes, **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def compiler() -> Iterator[Compiler]:
    with Compiler(1) as shared:
        yield shared


@pytest.fixture(autouse=True)
def reproducers(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "repro"
    with scope(reproducers_dir=folder, compiler_timeout_s=120):
        yield folder


def run_relu(vmfb: bytes) -> None:
    """Execute the compiled relu on random data against NumPy."""
    import iree.runtime as rt

    instance = rt.VmInstance()
    device = rt.get_driver("local-sync").create_default_device()
    hal = rt.create_hal_module(instance, device)
    code = rt.VmModule.copy_buffer(instance, vmfb)
    context = rt.VmContext(instance, [hal, code])
    a = np.random.default_rng(0).standard_normal((4, 4), dtype=np.float32)
    poison = np.full((4, 4), np.nan, np.float32)
    usage = rt.BufferUsage.DEFAULT
    views = [
        device.allocator.allocate_buffer_copy(
            memory_type=rt.MemoryType.DEVICE_LOCAL,
            allowed_usage=usage,
            device=device,
            buffer=array,
            element_type=rt.HalElementType.FLOAT_32,
        )
        for array in (poison, a)
    ]
    arguments = rt.VmVariantList(3)
    for view in views:
        arguments.push_ref(view)
    arguments.push_ref(device.allocator.allocate_buffer(rt.MemoryType.DEVICE_LOCAL, usage, 0))
    context.invoke(code.lookup_function("main"), arguments, rt.VmVariantList(0))
    out = rt.DeviceArray(device, views[0], implicit_host_transfer=True).to_host()
    np.testing.assert_array_equal(out, np.maximum(a, 0))


@BOTH
def test_result(compiler: Compiler, mode: str) -> None:
    with scope(compiler_mode=mode):
        result = compiler.compile(request_of(RELU))
    assert isinstance(result, CompileResult)
    assert result.backend == mode
    assert result.workspace_bytes == 0
    assert result.statistics is None
    assert result.diagnostics == ()
    assert 0 < result.seconds < 120
    run_relu(result.vmfb)


def test_both_ways_and_repeats_give_the_same_bytes(compiler: Compiler) -> None:
    first = compiler.compile(request_of(RELU)).vmfb
    counted = compiler.compile(request_of(RELU, want_statistics=True))
    with scope(compiler_mode="cli"):
        by_tool = compiler.compile(request_of(RELU)).vmfb
    assert first == counted.vmfb == by_tool
    assert counted.statistics is not None
    assert counted.statistics["stream-aggregate"]["execution"]["dispatch-count"] == 1


def test_workspace_size_is_read_without_a_device(compiler: Compiler) -> None:
    # The padded image of the convolution: 16 channels of 10 x 10 halves.
    flags = target_flags(Target.parse("gfx908"))
    plain = compiler.compile(request_of(CONV_F16)).workspace_bytes
    assert plain >= 16 * 10 * 10 * 2
    assert compiler.compile(request_of(CONV_F16, flags)).workspace_bytes == 0  # fused padding
    without = tuple(f for f in CPU if f != "--iree-torch-externalize-transients")
    assert compiler.compile(request_of(RELU, without)).workspace_bytes == 0


def test_workspace_that_depends_on_run_time_values_is_an_error(compiler: Compiler) -> None:
    free = "!torch.vtensor<[?,4],f32>"
    text = RELU.replace(b"[4,4]", b"[?,4]").decode()
    text = text.replace(
        "%r = torch", f'%b = torch.aten.mm %a, %w : {free}, {V} -> {free} loc("n0")\n%r = torch'
    )
    text = text.replace("relu %a", "relu %c").replace(
        "%r = torch", f'%c = torch.aten.mm %b, %w : {free}, {V} -> {free} loc("n0")\n%r = torch'
    )
    text = text.replace(f"%a: {free}", f"%a: {free}, %w: {V}")
    with pytest.raises(CompileError, match="depends on run-time values") as caught:
        compiler.compile(request_of(text.encode()))
    assert caught.value.stage == "compile"


@BOTH
def test_dump_folder_holds_the_stages_of_each_dispatch(
    compiler: Compiler, mode: str, tmp_path: Path
) -> None:
    folder = tmp_path / "dumps" / "here"
    flags = target_flags(Target.parse("gfx942"))
    with scope(compiler_mode=mode):
        compiler.compile(request_of(RELU, flags, dump_dir=folder))
    kinds = {path.suffix for path in folder.iterdir()}
    assert {".mlir", ".ll", ".rocmasm", ".hsaco"} <= kinds


def test_every_known_target_compiles() -> None:
    modes = [f"{arch}:sramecc+:xnack-" for arch in GFX9_ARCHS]
    targets = [Target.parse(t) for t in (*Target.known(), "cpu:x86-64-v3", *modes)]
    with Compiler(2) as two, ThreadPoolExecutor(2) as pool:
        requests = [request_of(RELU, target_flags(t)) for t in targets]
        for target, result in zip(targets, pool.map(two.compile, requests), strict=True):
            assert result.diagnostics == (), str(target)
            if target.is_gfx9:
                assert target.arch.encode() in result.vmfb


@BOTH
@pytest.mark.parametrize(
    ("source", "stage", "node", "said"),
    [
        (SYNTAX, "parse", "", r"module\.mlir:4:.* expected"),
        (UNKNOWN_OP, "parse", "first node", "torch.aten.nosuch"),
        (ALIASED, "parse", "first node", "torch.aten.nosuch"),
        (NO_LOWERING, "compile", 'Knoten "zwei"', "no lowering for 'torch.aten.nosuch'"),
        (BAD_SHAPES, "compile", "first node", "dimension #0 to be 4, but found 5"),
        (b"module {}", "compile", "", "does not contain a vm.module"),
    ],
    ids=["syntax", "unknown-op", "alias", "no-lowering", "bad-shapes", "empty"],
)
def test_refusal(
    compiler: Compiler, mode: str, source: bytes, stage: str, node: str, said: str
) -> None:
    with scope(compiler_mode=mode), pytest.raises(CompileError, match=said) as caught:
        compiler.compile(request_of(source, label="my graph"))
    error = caught.value
    assert (error.stage, error.node) == (stage, node)
    assert "my graph" in error.message
    assert error.diagnostics
    assert not any("%0 = " in text or "see current op" in text for text in error.diagnostics)
    assert all("\n" not in text for text in error.diagnostics)


@BOTH
@pytest.mark.parametrize(
    ("source", "flags", "signal", "said"),
    [
        (IDENTITY, CPU, "SIGSEGV", "conversion of dtype"),
        (CONV_F16, target_flags(Target("cuda", "sm_75")), "SIGABRT", "LLVM ERROR"),
    ],
    ids=["segv", "abort"],
)
def test_crash_is_an_error_and_the_next_compilation_works(
    compiler: Compiler, mode: str, source: bytes, flags: tuple[str, ...], signal: str, said: str
) -> None:
    with scope(compiler_mode=mode):
        with pytest.raises(CompileError) as caught:
            compiler.compile(request_of(source, flags))
        assert caught.value.stage == "crash"
        assert signal in str(caught.value)
        assert said in caught.value.diagnostics[0]
        record = json.loads(Path(caught.value.reproducer, "result.json").read_text())
        assert record["signal"] == signal
        assert compiler.compile(request_of(RELU)).vmfb


@BOTH
@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--iree-no-such-flag", "--iree-no-such-flag"),
        ("--iree-opt-level=O9", "iree-opt-level.*'O9'"),
        ("--iree-llvmcpu-target-cpu=pentium99", "'pentium99' is not a recognized processor"),
    ],
)
def test_bad_flag_is_named(compiler: Compiler, mode: str, flag: str, said: str) -> None:
    flags = (*CPU[:1], flag)
    with scope(compiler_mode=mode), pytest.raises(CompileError, match=said) as caught:
        compiler.compile(request_of(RELU, flags))
    assert caught.value.stage == "flags"
    assert caught.value.node == ""
    assert compiler.compile(request_of(RELU)).vmfb


def test_flag_that_only_the_tool_takes(compiler: Compiler) -> None:
    result = compiler.compile(request_of(RELU, (*CPU, GLOBAL_FLAG)))
    assert result.backend == "cli"
    run_relu(result.vmfb)


def test_unknown_backend_lists_those_there_are(compiler: Compiler) -> None:
    with pytest.raises(CompileError, match=r"registered backends.*llvm-cpu"):
        compiler.compile(request_of(RELU, ("--iree-hal-target-backends=abacus",)))


@BOTH
def test_timeout(compiler: Compiler, mode: str) -> None:
    compiler.compile(request_of(RELU))
    with (
        scope(compiler_mode=mode, compiler_timeout_s=0.02),
        pytest.raises(CompileError, match="HIPDNN_IREE_COMPILER_TIMEOUT_S") as caught,
    ):
        compiler.compile(request_of(RELU))
    assert caught.value.stage == "timeout"
    assert Path(caught.value.reproducer, "module.mlir").read_bytes() == RELU
    assert compiler.compile(request_of(RELU)).vmfb


def test_reproducer_holds_all_and_repeats(compiler: Compiler) -> None:
    flags = (*CPU, "--iree-opt-strip-assertions=false")
    with pytest.raises(CompileError) as caught:
        compiler.compile(request_of(BAD_SHAPES, flags, label="Ä b/../c"))
    folder = Path(caught.value.reproducer)
    assert str(folder) in str(caught.value)
    assert sorted(path.name for path in folder.iterdir()) == [
        *("command.sh", "flags.txt", "log.txt", "module.mlir", "result.json")
    ]
    assert (folder / "module.mlir").read_bytes() == BAD_SHAPES
    assert tuple((folder / "flags.txt").read_text().splitlines()) == flags
    assert "see current operation" in (folder / "log.txt").read_text()  # nothing is cut here
    record = json.loads((folder / "result.json").read_text())
    assert record["stage"] == "compile"
    assert record["node"] == "first node"
    assert record["label"] == "Ä b/../c"
    assert record["diagnostics"] == list(caught.value.diagnostics)
    assert record["versions"]["iree-base-compiler"].startswith("3.")
    assert record["versions"]["hipdnn-iree"]
    done = subprocess.run([folder / "command.sh"], capture_output=True, text=True, cwd="/")
    assert done.returncode == 1
    assert "dimension #0 to be 4, but found 5" in done.stderr


def test_reproducers_are_capped_and_can_be_off(compiler: Compiler, reproducers: Path) -> None:
    (reproducers / "not-ours").mkdir(parents=True)
    made = []
    with scope(reproducers_keep=2):
        for _ in range(4):
            with pytest.raises(CompileError) as caught:
                compiler.compile(request_of(SYNTAX))
            made.append(Path(caught.value.reproducer))
    assert [path.exists() for path in made] == [False, False, True, True]
    assert (reproducers / "not-ours").exists()
    with scope(reproducers_keep=0), pytest.raises(CompileError) as caught:
        compiler.compile(request_of(SYNTAX))
    assert caught.value.reproducer == ""
    assert len(list(reproducers.iterdir())) == 3


def test_reproducer_that_cannot_be_written_does_not_hide_the_error(
    compiler: Compiler, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    with (
        scope(reproducers_dir=tmp_path / "file" / "x"),
        caplog.at_level(logging.WARNING),
        pytest.raises(CompileError, match="expected") as caught,
    ):
        compiler.compile(request_of(SYNTAX))
    assert caught.value.reproducer == ""
    assert "no reproducer" in caplog.text


def test_error_can_be_pickled(compiler: Compiler) -> None:
    with pytest.raises(CompileError) as caught:
        compiler.compile(request_of(NO_LOWERING))
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    assert copy.as_dict() == caught.value.as_dict()


def test_large_modules_and_odd_bytes(compiler: Compiler) -> None:
    # 3 MB, many times what a socket holds, and bytes that are not UTF-8.
    padded = RELU + b"// " + b"x\xff" * 1_500_000 + b"\n"
    run_relu(compiler.compile(request_of(padded)).vmfb)
    with pytest.raises(CompileError):
        compiler.compile(request_of(b"\xff\xfe\x00" * 100))
    with pytest.raises(CompileError):
        compiler.compile(request_of(b""))


def test_host_process_never_loads_the_compiler() -> None:
    code = (
        "import sys\n"
        "from hipdnn_iree.jit.compiler.client import Compiler, CompileRequest\n"
        "from hipdnn_iree.graph_api.errors import CompileError\n"
        "r = CompileRequest(source=sys.stdin.buffer.read(), flags=tuple(sys.argv[1:]))\n"
        "from hipdnn_iree.jit.options import WorkerOptions\n"
        "with Compiler(WorkerOptions(jobs=1)) as c:\n"
        "    print(len(c.compile(r).vmfb))\n"
        "    try: c.compile(CompileRequest(source=b'?', flags=r.flags))\n"
        "    except CompileError as error: print(error.stage)\n"
        "heavy = {'iree', 'numpy', 'torch_mlir'}\n"
        "print(sorted(m for m in sys.modules if m.split('.')[0] in heavy))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *CPU],
        input=RELU,
        capture_output=True,
        check=True,
        env={**os.environ, "HIPDNN_IREE_REPRODUCERS_KEEP": "0"},
    )
    size, stage, loaded = done.stdout.decode().split("\n", 2)
    assert int(size) > 1000
    assert stage == "parse"
    assert loaded.strip() == "[]"
