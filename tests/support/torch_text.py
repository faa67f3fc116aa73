# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules of the torch dialect as text, written op by op."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Module", "Val"]


@dataclass(frozen=True)
class Val:
    """A tensor value: its name, dims and element type (``f32``, ``si64``, ``i1``)."""

    name: str
    dims: tuple[int, ...]
    element: str = "f32"

    @property
    def type(self) -> str:
        return f"!torch.vtensor<[{','.join(map(str, self.dims))}],{self.element}>"


class Module:
    """One function; constants are written where they are used first."""

    def __init__(self, name: str = "main", attributes: str = "") -> None:
        self.name, self.attributes = name, attributes
        self.arguments: list[Val] = []
        self.lines: list[str] = []
        self._known: dict[Any, tuple[str, str]] = {}

    def argument(self, *dims: int, element: str = "f32") -> Val:
        self.arguments.append(Val(f"%arg{len(self.arguments)}", dims, element))
        return self.arguments[-1]

    def _fresh(self) -> str:
        return f"%v{len(self.lines)}"

    def constant(self, value: Any) -> tuple[str, str]:
        """Return the name and type of an operand."""
        if isinstance(value, Val):
            return value.name, value.type
        if isinstance(value, list | tuple):
            parts = [self.constant(one) for one in value]
            names, kinds = ", ".join(p[0] for p in parts), ", ".join(p[1] for p in parts)
            inner = parts[0][1].removeprefix("!torch.") if parts else "int"
            inner = "vtensor" if inner.startswith("vtensor") else inner
            name, kind = self._fresh(), f"!torch.list<{inner}>"
            self.lines.append(f"{name} = torch.prim.ListConstruct {names} : ({kinds}) -> {kind}")
            return name, kind
        key = (type(value), str(value))
        if key not in self._known:
            name = self._fresh()
            match value:
                case None:
                    text, kind = "none", "none"
                case bool():
                    text, kind = f"bool {str(value).lower()}", "bool"
                case int():
                    text, kind = f"int {value}", "int"
                case str():
                    text, kind = f'str "{value}"', "str"
                case _:
                    text, kind = f"float {_spelled(value)}", "float"
            self.lines.append(f"{name} = torch.constant.{text}")
            self._known[key] = (name, f"!torch.{kind}")
        return self._known[key]

    def literal(self, text: str, *dims: int, element: str = "f32") -> Val:
        made = Val(self._fresh(), dims, element)
        shape = "".join(f"{n}x" for n in dims)
        self.lines.append(
            f"{made.name} = torch.vtensor.literal({text} : tensor<{shape}{element}>) : {made.type}"
        )
        return made

    def op(
        self,
        name: str,
        operands: Sequence[Any],
        *dims: int,
        element: str = "f32",
        location: str = "",
    ) -> Val:
        """Add ``torch.<name>`` with one result; ``onnx.Name`` is a ``torch.operator``."""
        return self.results(name, operands, dims, element=element, location=location)[0]

    def results(
        self,
        name: str,
        operands: Sequence[Any],
        *every: tuple[int, ...],
        element: str = "f32",
        location: str = "",
    ) -> list[Val]:
        """Add an op with a result for each of the dims."""
        parts = [self.constant(one) for one in operands]
        base = self._fresh()
        made = [Val(f"{base}_{i}" if i else base, dims, element) for i, dims in enumerate(every)]
        names, kinds = ", ".join(p[0] for p in parts), ", ".join(p[1] for p in parts)
        types = ", ".join(one.type for one in made)
        where = f' loc("{location}")' if location else ""
        if name.startswith("onnx."):
            text = f'torch.operator "{name}"({names}) : ({kinds}) -> {types}'
        else:
            text = f"torch.{name} {names} : {kinds} -> {types}"
        self.lines.append(f"{', '.join(one.name for one in made)} = {text}{where}")
        return made

    def text(self, *returned: Val) -> str:
        """Return the module."""
        arguments = ", ".join(f"{a.name}: {a.type}" for a in self.arguments)
        names, kinds = ", ".join(r.name for r in returned), ", ".join(r.type for r in returned)
        body = "\n  ".join(self.lines)
        end = f"return {names} : {kinds}" if returned else "return"
        return (
            f"func.func @{self.name}({arguments}) -> ({kinds}){self.attributes} {{\n"
            f"  {body}\n  {end}\n}}\n"
        )


def _spelled(value: float) -> str:
    if math.isfinite(value):
        return repr(float(value)) if "e" in repr(value) or "." in repr(value) else f"{value}.0"
    return "0x7FF0000000000000" if value > 0 else "0xFFF0000000000000"
