"""A group of nodes as a program: the offload pipeline, on the group's ops as MLIR."""

from __future__ import annotations

from ..offload.finished import Program, planned, read_program
from ..offload.pipeline import PIPELINE, Module, Options
from ..plan import Plan
from .expand import expanded
from .model import Model
from .torch_text import arguments, text

__all__ = ["made"]


def made(model: Model, options: Options) -> tuple[Program, dict[str, Plan]]:
    """Return a group as a program, and the plans of its graphs.

    Parameters
    ----------
    model : Model
        The group's nodes alone, all extents known.
    options : Options
        Of the offload pipeline.

    Raises
    ------
    HipdnnIreeError
        If an op is neither served by an engine nor compiled by IREE.
    """
    module = Module(text(expanded(model)).encode(), options, name="the group").run(*PIPELINE)
    names = (model.inputs, arguments(model)[len(model.inputs) :], model.outputs)
    record = module.ask("program")
    program = planned(read_program(record, module.graphs, "main", module.finalized, names=names))
    return program, {name: module.graphs[name].plan for name in program.graphs}
