# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree opt``: passes of the offload pipeline on an MLIR file, one by one or all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from .options import (
    COMPILING,
    Command,
    State,
    engine_option,
    knob_options,
    output_option,
    target_option,
)
from .output import emit, say, talk, working

if TYPE_CHECKING:
    from ...jit.target import Target
    from ..offload import Module

JSON: dict[str, str] = {
    "passes": "names of the passes that were run, in order",
    "modules": "of each part of the file `text` (MLIR), `remarks` (`function`, `op`, `node`, "
    "`rule`, `reason`), `graphs` (`name`, `engine`, `ops`, `nodes`, `custom`), and with `--run` "
    "`results` (`dims`, `data_type`)",
}

PIPELINE_FLAG = "hipdnn-offload-pipeline"

# Known without loading the pipeline; a test compares them with its table.
PASSES: dict[str, str] = {
    "convert-torch-onnx-to-torch": 'Turn `torch.operator "onnx.*"` into aten ops.',
    "cse": "Merge equal ops; regions stay self-contained.",
    "canonicalize": "Fold constants and simplify; regions stay self-contained.",
    "hipdnn-offload": "Outline what engines serve as regions, with remarks for the rest.",
    "hipdnn-graph-to-executable": "Build the plan of each region, and name it.",
    "hipdnn-backend-legalize": "Turn Torch's tensors into MLIR's, and execute graphs; what is in "
    "no region becomes graphs for IREE.",
    "eliminate-empty-tensors": "Let results be written where they are wanted.",
    "one-shot-bufferize": "Turn tensors into buffers.",
    "hipdnn-finalize-memrefs": "Turn returned buffers into arguments.",
    PIPELINE_FLAG: "All of them, in this order, with canonicalize and cse behind hipdnn-offload.",
}


class Opt(Command):
    """Keeps the order of the flags that are passes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words = args[: args.index("--")] if "--" in args else args
        ctx.meta[__name__] = [word[2:] for word in words if word[2:] in PASSES]
        return super().parse_args(ctx, args)


def _pass_flags(function: Callable[..., Any]) -> Callable[..., Any]:
    for name, help in reversed(PASSES.items()):
        function = click.option(f"--{name}", is_flag=True, expose_value=False, help=help)(function)
    return function


@click.command(cls=Opt)
@click.argument("file", metavar="FILE.mlir")
@_pass_flags
@click.option(
    "--print-ir-after-all", is_flag=True, help="Show the module after each pass (stderr)."
)
@click.option("--print-local-scope", is_flag=True, help="Write maps and types where they are used.")
@click.option(
    "--split-input-file", is_flag=True, help="Take parts between `// -----` by themselves."
)
@click.option("--verify-each", is_flag=True, help="Verify the module after each pass.")
@click.option(
    "--size",
    "sizes",
    metavar="NAME=N",
    multiple=True,
    help="Give open dims of arguments a size first: batch for those that come first, else arg0_1.",
)
@click.option("--run", "run_path", metavar="X.npz", help="Run it then, on arrays arg0, arg1, ...")
@click.option("--function", metavar="NAME", help="Which function to run, where there are several.")
@click.option("--outputs", metavar="Y.npz", help="Where to write what it returns: out0, out1, ...")
@output_option("Where to write the module; stdout by default.")
@target_option(help="Machine to compile for.")
@engine_option
@knob_options(*COMPILING)
@click.pass_context
def command(
    ctx: click.Context,
    file: str,
    print_ir_after_all: bool,
    print_local_scope: bool,
    split_input_file: bool,
    verify_each: bool,
    sizes: tuple[str, ...],
    run_path: str | None,
    function: str | None,
    outputs: str | None,
    output: str | None,
    target: Target,
    engine: str | None,
) -> None:
    """Run passes over FILE.mlir ("-": stdin), in the order in which they are given.

    Functions of value tensors in the torch dialect, `torch.operator "onnx.*"`, or what an earlier
    pass leaves. Remarks say of each op that is not offloaded which rule it breaks.
    """
    from ..offload import PIPELINE, fix_sizes
    from ..offload import module as read
    from .files import read_bytes, write

    state = ctx.ensure_object(State)
    if (function or outputs) and not run_path:
        raise click.UsageError("--function and --outputs belong to --run", ctx)
    passes: list[str] = []
    for word in ctx.meta[__name__]:
        passes += PIPELINE if word == PIPELINE_FLAG else [word]
    texts, records = [], []
    for part in _parts(read_bytes(file), split_input_file):
        module = read(part, target, engine=engine, name="standard input" if file == "-" else file)
        if sizes:
            fix_sizes(module, dict(_size(word, ctx) for word in sizes))
        for name in passes:
            with working(f"running {name}"):
                module.run(name)
            if verify_each:
                module.then("verify")
            if print_ir_after_all:
                talk_ir(name, module.shown(local_scope=print_local_scope))
        text = module.shown(local_scope=print_local_scope)
        texts.append(text)
        for remark in module.remarks:
            talk(f"{module.name}: remark: {remark}")
        record = {"text": text, **_about(module)}
        if run_path:
            record["results"] = _run(module, run_path, function, outputs)
        records.append(record)
    if output is not None:
        write(output, "\n// -----\n\n".join(texts).encode())
    if state.json:
        emit({"passes": passes, "modules": records})
    elif output is None:
        say("\n// -----\n\n".join(texts).rstrip("\n"))


def _size(word: str, ctx: click.Context) -> tuple[str, int]:
    name, _, size = word.partition("=")
    if not name or not size.isdecimal() or not int(size):
        raise click.UsageError(f"--size {word}: wanted NAME=N, such as batch=8", ctx)
    return name, int(size)


def _parts(data: bytes, split: bool) -> Iterator[bytes]:
    """Yield the parts of a file, each behind as many empty lines as stand before it."""
    if not split:
        yield data
        return
    part: list[bytes] = []
    for i, line in enumerate(data.split(b"\n")):
        if line.startswith(b"// -----"):
            yield b"\n".join(part)
            part = [b""] * (i + 1)
        else:
            part.append(line)
    yield b"\n".join(part)


def talk_ir(name: str, text: str) -> None:
    """Show a module on stderr as MLIR's tools do."""
    click.echo(f"// -----// IR Dump After {name} //----- //\n{text}", err=True)


def _about(module: Module) -> dict[str, Any]:
    graphs = [
        {
            "name": one.name,
            "engine": one.plan.engine,
            "ops": list(one.ops),
            "nodes": list(one.nodes),
            "custom": one.custom,
        }
        for one in module.graphs.values()
    ]
    return {"remarks": [one.as_dict() for one in module.remarks], "graphs": graphs}


def _run(
    module: Module, path: str, function: str | None, outputs: str | None
) -> list[dict[str, Any]]:
    """Run a function of the finished module and describe what it returns."""
    from ..offload.executor import numpy_type
    from .files import read_arrays, write_arrays

    executor = module.executor(function)
    arrays = read_arrays(path)
    given = [arrays[name] for name in executor.program.inputs if name in arrays]
    for i, (array, kind) in enumerate(zip(given, executor.inputs, strict=False)):
        if array.dtype.kind == "V":  # of a type that NumPy's files have no name for
            given[i] = array.view(numpy_type(kind.data_type))
    found = executor.run(*given)
    if outputs is not None:
        talk(write_arrays(outputs, {f"out{i}": array for i, array in enumerate(found)}))
    described = [{"dims": list(a.shape), "data_type": str(a.dtype)} for a in found]
    for i, one in enumerate(described):
        talk(f"out{i}: {one['data_type']} {one['dims']}")
    return described
