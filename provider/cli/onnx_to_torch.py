# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree onnx-to-torch``: an ONNX model as a module in the torch dialect."""

from __future__ import annotations

from typing import Any

import click

from ...jit.settings import settings
from .options import Command, State, output_option
from .output import emit, say, talk, working

JSON: dict[str, str] = {
    "text": "the module",
    "inputs": "names of the model's inputs, the function's first arguments",
    "weights": "names of the initializers that are its other arguments, in order",
    "outputs": "names of what it returns",
}


@click.command(cls=Command)
@click.argument("model", metavar="MODEL.onnx")
@click.option("--node", default="", metavar="NAME", help="Only this node, by its name.")
@click.option(
    "--convert/--no-convert",
    default=True,
    help='Turn ONNX ops into aten ops; without it they are `torch.operator "onnx.*"`.',
)
@output_option("Where to write the module; stdout by default.")
@click.pass_obj
def command(state: State, model: str, node: str, convert: bool, output: str | None) -> None:
    """Write MODEL.onnx as MLIR, for `hipdnn-iree opt`.

    Weights are arguments behind the inputs: they never become text, and external data is not read.
    Ops of other domains keep theirs (`onnx.com.microsoft.Gelu`), and an op without a conversion
    stays.  Needs the extra onnx.
    """
    from ..offload import module as read
    from ..offload.onnx_import import import_onnx
    from .files import file_errors, write

    with working(f"reading {model}"), file_errors(model):
        found = import_onnx(model, settings(), node=node)
    made = read(found.text, name=model)
    if convert:
        made.run("convert-torch-onnx-to-torch", "cse", "canonicalize")
    text = made.shown()
    record: dict[str, Any] = {
        "text": text,
        "inputs": list(found.inputs),
        "weights": list(found.weights),
        "outputs": list(found.outputs),
    }
    if output is not None:
        write(output, text.encode())
    if state.json:
        emit(record)
        return
    talk(f"arguments: {', '.join((*found.inputs, *found.weights))}")
    if output is None:
        say(text.rstrip("\n"))
