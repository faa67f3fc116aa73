# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every error of the project: one tree, stable codes, records that name the port and the rule.

::

    HipdnnIreeError
    ├── GraphError           (ValueError)   the graph breaks rules; carries all problems at once
    ├── FormatError          (ValueError)   a file is not what it claims to be
    ├── NotSupportedError                   no engine serves the graph, or a pinned one declines
    ├── NotPrecompiledError  (LookupError)  compiling is not allowed here, and no code is at hand
    ├── CompileError         (RuntimeError) the compiler refused, crashed or overran its time
    ├── ArtifactError        (RuntimeError) a cached or stored artifact is damaged or foreign
    ├── BindError            (ValueError)   the buffers given do not fit the graph
    ├── DeviceError          (RuntimeError) no such device or driver, or the device failed
    └── SettingError         (ValueError)   an option or environment variable has a bad value

Each class has a ``code`` that never changes once released: the command line prints it and the
plugin maps it to a hipDNN status.  ``docs/errors.md`` lists the guarantees after each error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

__all__ = [
    "ArtifactError",
    "BindError",
    "CompileError",
    "Decline",
    "DeviceError",
    "FormatError",
    "GraphError",
    "HipdnnIreeError",
    "NotPrecompiledError",
    "NotSupportedError",
    "Problem",
    "SettingError",
    "TriedAttempt",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """One broken rule: where, which, what was found, what is allowed, what to try.

    Attributes
    ----------
    rule : str
        Stable rule id such as ``"CONV-03"``; ``docs/reference/rules.md`` lists them.
    node : str
        Label of the node (or ``""`` for a problem of a tensor or of the whole graph).
    port : str
        Port, tensor or parameter that is at fault, in hipDNN's spelling.
    got, wanted : str
        What was found and what is allowed.
    hint : str
        What to try next; may be empty.
    at : str
        ``file:line`` of the script's call that added the node; empty for graphs from files.
    """

    rule: str
    node: str = ""
    port: str = ""
    got: str = ""
    wanted: str = ""
    hint: str = ""
    at: str = ""

    @property
    def where(self) -> str:
        """``node.port`` with the empty parts left out; ``graph`` when both are empty."""
        return ".".join(part for part in (self.node, self.port) if part) or "graph"

    @property
    def reason(self) -> str:
        """What was found, what is allowed and what to try, in words."""
        text = f"got {self.got}; wanted {self.wanted}"
        return f"{text} ({self.hint})" if self.hint else text

    def __str__(self) -> str:
        line = f" at {self.at}" if self.at else ""
        return f"{self.where}: [{self.rule}] {self.reason}{line}"

    def as_dict(self) -> dict[str, str]:
        """Return the record as a JSON-ready mapping."""
        return {
            "rule": self.rule,
            "node": self.node,
            "port": self.port,
            "got": self.got,
            "wanted": self.wanted,
            "hint": self.hint,
            **({"at": self.at} if self.at else {}),
        }


@dataclass(frozen=True, kw_only=True, slots=True)
class Decline:
    """Why an engine does not serve a graph: the engine's name and the rule that declined."""

    engine: str
    problem: Problem

    def __str__(self) -> str:
        return f"{self.engine} declined {self.problem}"

    def as_dict(self) -> dict[str, str]:
        """Return the record as a JSON-ready mapping."""
        return {"engine": self.engine, **self.problem.as_dict()}


class HipdnnIreeError(Exception):
    """Base of all errors raised on purpose by this project."""

    code: ClassVar[str] = "E000"

    def as_dict(self) -> dict[str, Any]:
        """Return code, kind and text, as ``--json`` prints them."""
        return {"code": self.code, "error": type(self).__name__, "message": str(self)}


_MOST_LINES = 100
_MOST_CHARACTERS = 1000  # of a line: a name, say, may be anything


def _listed(message: str, records: Sequence[object]) -> str:
    """Return a message with its records, one a line; a text for people, so of bearable length."""
    lines = "\n  ".join([message, *map(str, records[:_MOST_LINES])]).split("\n")
    left_out = len(records) - _MOST_LINES
    if len(lines) > _MOST_LINES:
        left_out = max(left_out, 0) + len(lines) - _MOST_LINES
        del lines[_MOST_LINES:]
    cut = [x if len(x) <= _MOST_CHARACTERS else f"{x[: _MOST_CHARACTERS - 3]}..." for x in lines]
    return "\n".join([*cut, f"  ... and {left_out} more"] if left_out > 0 else cut)


class _ProblemsError(HipdnnIreeError):
    """An error that lists records; its text shows the first hundred of them, one a line."""

    def __init__(self, message: str, problems: Iterable[Problem] = ()) -> None:
        self.message = message
        self.problems: tuple[Problem, ...] = tuple(problems)
        super().__init__(_listed(message, self.problems))

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.message, self.problems))

    def as_dict(self) -> dict[str, Any]:
        return {
            **super().as_dict(),
            "message": self.message,
            "problems": [p.as_dict() for p in self.problems],
        }


class GraphError(_ProblemsError, ValueError):
    """The graph breaks one or more rules; ``problems`` holds all of them, in node order."""

    code = "E100"


class FormatError(_ProblemsError, ValueError):
    """A file or buffer cannot be read as what it claims to be."""

    code = "E200"


class NotSupportedError(HipdnnIreeError):
    """No engine serves the graph, or the engine that was pinned declines it."""

    code = "E300"

    def __init__(self, message: str, declines: Iterable[Decline] = ()) -> None:
        self.message = message
        self.declines: tuple[Decline, ...] = tuple(declines)
        super().__init__(_listed(message, self.declines))

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.message, self.declines))

    def as_dict(self) -> dict[str, Any]:
        return {
            **super().as_dict(),
            "message": self.message,
            "declines": [d.as_dict() for d in self.declines],
        }


class NotPrecompiledError(HipdnnIreeError, LookupError):
    """The graph would have to be compiled, which ``require_precompiled`` forbids.

    Attributes
    ----------
    graph, target : str
        Name of the graph, and the target.
    key : str
        Digest under which its code was looked for.
    cache : str
        The folder in which it was looked for.
    nearest : str
        What the cache has instead, and in what that differs.
    buckets : dict of str to str
        The buckets of dynamic dims, as ``--buckets`` takes them; empty for a plan without.
    """

    code = "E310"

    def __init__(
        self,
        message: str,
        *,
        graph: str,
        target: str,
        key: str,
        cache: str,
        nearest: str,
        buckets: dict[str, str] | None = None,
    ) -> None:
        self.message = message
        self.graph = graph
        self.target = target
        self.key = key
        self.cache = cache
        self.nearest = nearest
        self.buckets = buckets or {}
        options = "".join(f" --buckets {name}={text}" for name, text in self.buckets.items())
        python = ", buckets=..." if self.buckets else ""
        super().__init__(
            f"{message}\n  looked for in {cache}: {nearest}\n"
            f"  to precompile it, with the same settings, knobs and versions: "
            f"hipdnn-iree compile GRAPH --target {target}{options}, or "
            f"hipdnn_iree.precompile([graph], {target!r}{python})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild_not_precompiled, (self.message, self._details()))

    def _details(self) -> dict[str, Any]:
        return {
            "graph": self.graph,
            "target": self.target,
            "key": self.key,
            "cache": self.cache,
            "nearest": self.nearest,
            "buckets": self.buckets,
        }

    def as_dict(self) -> dict[str, Any]:
        return {**super().as_dict(), "message": self.message, **self._details()}


def _rebuild_not_precompiled(message: str, details: dict[str, Any]) -> NotPrecompiledError:
    return NotPrecompiledError(message, **details)


class TriedAttempt(NamedTuple):
    """One way to compile a graph that failed.

    Attributes
    ----------
    attempt : str
        What it differed in: ``"as planned"``, ``"matmul=plain"``, ``"data tiling off"``.
    stage, cause, reproducer : str
        As of `CompileError`.
    said : str
        The compiler's first error text.
    """

    attempt: str
    stage: str
    cause: str
    said: str
    reproducer: str

    def __str__(self) -> str:
        where = f"; to repeat it: {self.reproducer}" if self.reproducer else ""
        return f"{self.attempt} (stage: {self.stage}): {self.said}{where}"


class CompileError(HipdnnIreeError, RuntimeError):
    """The compiler refused the module, crashed, or ran past its time limit.

    Attributes
    ----------
    stage : str
        ``"lower"``, ``"flags"``, ``"parse"``, ``"compile"``, ``"crash"`` or ``"timeout"``.
    node : str
        Label of the graph node the first diagnostic points at, or ``""`` when unknown.
    diagnostics : tuple of str
        The compiler's own error texts, first one first, without IR dumps.
    reproducer : str
        Folder with the module, the flags, the log and the command to repeat it, or ``""``.
    cause : str
        ``"time"`` or ``"memory"``: it ran past that limit; ``"killed"``: the compiler's process was
        killed from outside; ``"host"``: the graph is not to blame, as no compiler could be
        started, or somebody ended it; ``""``: the compiler itself failed.
    tried : tuple of TriedAttempt
        All that was tried, the planned way first; empty where one way only was tried.
    """

    code = "E400"

    def __init__(
        self,
        message: str,
        *,
        stage: str,
        node: str = "",
        diagnostics: Sequence[str] = (),
        reproducer: str = "",
        cause: str = "",
        tried: Sequence[TriedAttempt] = (),
    ) -> None:
        self.message = message
        self.cause = cause
        self.tried = tuple(tried)
        self.stage = stage
        self.node = node
        self.diagnostics = tuple(diagnostics)
        self.reproducer = reproducer
        lines = [f"{message} (stage: {stage})"]
        if node:
            lines.append(f"at node: {node}")
        if self.diagnostics:
            lines.append(f"compiler said: {self.diagnostics[0]}")
        if reproducer:
            lines.append(f"to repeat it: {reproducer}")
        lines += [f"tried too: {one}" for one in self.tried[1:]]
        super().__init__("\n  ".join(lines))

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild_compile_error, (self.message, self._details()))

    def with_tried(self, tried: Sequence[TriedAttempt]) -> CompileError:
        """Return the same error, with all ways that were tried."""
        return CompileError(self.message, **{**self._details(), "tried": tried})

    def _details(self) -> dict[str, Any]:
        return {
            "stage": self.stage,
            "node": self.node,
            "diagnostics": self.diagnostics,
            "reproducer": self.reproducer,
            "cause": self.cause,
            "tried": self.tried,
        }

    def as_dict(self) -> dict[str, Any]:
        tried = [one._asdict() for one in self.tried]
        details = {**self._details(), "diagnostics": list(self.diagnostics), "tried": tried}
        return {**super().as_dict(), "message": self.message, **details}


def _rebuild_compile_error(message: str, details: dict[str, Any]) -> CompileError:
    return CompileError(message, **details)


class ArtifactError(HipdnnIreeError, RuntimeError):
    """A cache entry or stored artifact is damaged, incomplete, or made for something else."""

    code = "E500"


class BindError(_ProblemsError, ValueError):
    """The buffers given for a plan do not fit the graph; nothing was executed."""

    code = "E600"


class DeviceError(HipdnnIreeError, RuntimeError):
    """No such device or driver here, or the device reported a failure."""

    code = "E700"


class SettingError(HipdnnIreeError, ValueError):
    """An option, knob or environment variable has a value that is not allowed."""

    code = "E800"
