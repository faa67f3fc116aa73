# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which graph nodes each dispatch serves, and the tensors it takes: read in the worker.

The compiler stops after it has formed dispatches, and its module is read with the locations
that the lowering gave to every op (``n<k>`` for node k).  Only ops that compute count: constants
and fills are shared between dispatches and keep the location of whoever came first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

__all__ = ["perform"]

_NODE = re.compile(r'"(n\d+)"')
_TENSOR = re.compile(r"(?:tensor|vector)<(?P<dims>(?:[\d?]+x)*)(?P<kind>[a-z]+\d+\w*)")
_PLAIN = frozenset({"linalg.fill", "tensor.empty", "arith.constant"})
_READ = "dispatch.tensor<read"  # only, or and written
_ROOTS = ("linalg.", "iree_linalg_ext.")


def perform(source: bytes, options: Mapping[str, Any]) -> tuple[Mapping[str, Any], bytes]:
    """Return the dispatches of a module's function in order, as JSON-ready records.

    ``options["flags"]`` are the flags of the whole compilation.  Each record has ``name`` (of
    the entry point), ``nodes`` (labels such as ``"n0"``, in order) of the kernel, which several
    launches may share (`attribution`), ``root`` (the label of this launch, or nothing), ``reads``
    and ``writes`` (types of the tensors), ``loads`` (for each of ``reads`` the types of the parts
    that are taken of it) and ``at_load`` (it runs once, when the module is loaded).

    Raises
    ------
    Refused
        If the compiler refuses the module.
    """
    from iree.compiler import ir

    with ir.Context():
        module = ir.Module.parse(_formed(source, options["flags"]))
        nodes: dict[str, list[str]] = {}
        loads: dict[str, list[list[str]]] = {}
        calls: list[dict[str, Any]] = []
        for op in module.body.operations:
            name = op.operation.name
            if name == "flow.executable":
                for name, function in _functions(op.operation):
                    nodes[name], loads[name] = _computed(function), _loaded(function)
            else:
                calls += (
                    {**call, "at_load": name == "util.initializer"} for call in _calls(op.operation)
                )
        for call in calls:
            call["nodes"] = nodes.get(call["name"], [])
            call["loads"] = loads.get(call["name"], [])
    return {"dispatches": calls}, b""


def _formed(source: bytes, flags: Sequence[str]) -> bytes:
    """Return the module after dispatches are formed, as bytecode with locations."""
    from ctypes import c_char_p, c_void_p

    from iree.compiler.api import Output, Session, Source, ctypes_dl

    from ..compiler.inprocess import Refused

    phase = ctypes_dl._dylib.ireeCompilerInvocationSetCompileToPhase
    phase.restype, phase.argtypes = None, [c_void_p, c_char_p]
    with Session() as session:
        for flag in flags:
            if flag.startswith("--iree-codegen-"):
                continue  # matters after this phase only, and would stay for later sessions
            with suppress(ValueError):  # bound to a process
                session.set_flags(flag)
        invocation = session.invocation()
        try:
            text = Source.wrap_buffer(session, source + b"\0", buffer_name="graph.mlir")
            if not invocation.parse_source(text):
                raise Refused("parse")
            phase(invocation._inv_p, b"flow")
            if not invocation.execute():
                raise Refused("compile")
            with Output.open_membuffer() as output:
                invocation.output_ir_bytecode(output)
                return bytes(output.map_memory())
        finally:
            invocation.close()


def _inside(op: Any) -> Iterator[Any]:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from _inside(inner.operation)


def _functions(op: Any) -> Iterator[tuple[str, Any]]:
    """Yield the entry points of an executable, each with its name."""
    for function in _inside(op):
        if function.name == "func.func":
            yield str(function.attributes["sym_name"]).strip('"'), function


def _computed(function: Any) -> list[str]:
    """Return the nodes that an entry point computes."""
    everything = list(_inside(function))
    roots = [o for o in everything if o.name.startswith(_ROOTS) and o.name not in _PLAIN]
    computing = [o for root in roots for o in (root, *_inside(root))] or everything
    return _nodes(o for o in computing if o.name not in _PLAIN)


def _loaded(function: Any) -> list[list[str]]:
    """Return the parts that an entry point takes of each tensor that it reads."""
    arguments = function.regions[0].blocks[0].arguments
    parts: dict[int, list[str]] = {
        argument.arg_number: [] for argument in arguments if _READ in str(argument.type)
    }
    for op in _inside(function):
        if op.name == "iree_tensor_ext.dispatch.tensor.load":
            number = next((k for k in parts if arguments[k] == op.operands[0]), None)
            if number is not None:
                parts[number].append(_tensor(op.results[0]))
    return list(parts.values())


def _nodes(ops: Iterator[Any]) -> list[str]:
    found = {label for op in ops for label in _NODE.findall(str(op.location))}
    return sorted(found, key=lambda label: int(label[1:]))


def _calls(op: Any) -> Iterator[dict[str, Any]]:
    for inner in _inside(op):
        if inner.name == "flow.dispatch":
            entry = str(inner.attributes["entry_points"])
            yield {
                "name": re.split(r"::@", entry)[-1].strip('"[] '),
                "root": next(iter(_NODE.findall(str(inner.location))), ""),
                "reads": [t for v in inner.operands if (t := _tensor(v))],
                "writes": [t for v in inner.results if (t := _tensor(v))],
            }


def _tensor(value: Any) -> str:
    """Return ``2x64x28x28xf16``; nothing for what is no tensor."""
    match = _TENSOR.search(str(value.type))
    return match["dims"] + match["kind"] if match else ""
