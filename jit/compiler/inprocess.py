# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiling with IREE's library in this process.  Only the worker may import this module.

A fatal error of the compiler ends the process: ``report_fatal_error`` aborts it and some inputs
make it read through a null pointer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ctypes import CFUNCTYPE, c_int, c_size_t, c_void_p, string_at
from functools import lru_cache
from typing import Any

from ..trace import span
from .consume import consume, is_asked
from .dispatch_checks import check, checks_for
from .loop_tiles import DECOMPOSE, lanes_of, set_tiles, softmax, tilings
from .phases import DISPATCHES, END, INPUT, START, run, run_passes
from .wire import BUFFER_NAME

__all__ = ["Refused", "compile_in_process", "workspace_bytes"]

Report = Callable[[str, str], None]

_SEVERITIES = ("note", "warning", "error", "remark")
_Callback = CFUNCTYPE(None, c_int, c_void_p, c_size_t, c_void_p)


class Refused(Exception):  # noqa: N818 - an answer, not a defect
    """The compiler did not compile: at which stage, why, and what else it printed.

    ``cause`` is as of `CompileError`.
    """

    def __init__(
        self, stage: str, reason: str = "", *, log: str = "", signal: str = "", cause: str = ""
    ) -> None:
        super().__init__(stage, reason)
        self.cause = cause
        self.stage = stage
        self.reason = reason
        self.log = log
        self.signal = signal


@lru_cache(maxsize=1)
def _enable_callback() -> Any:
    # The C API offers a callback for diagnostics that the Python class does not wrap; its own
    # choice, the C stderr, cannot be told apart from other output.
    from iree.compiler.api import ctypes_dl

    enable = ctypes_dl._dylib.ireeCompilerInvocationEnableCallbackDiagnostics
    enable.restype, enable.argtypes = None, [c_void_p, c_int, _Callback, c_void_p]
    return enable


def compile_in_process(source: bytes, flags: Sequence[str], report: Report) -> bytes:
    """Return the VM module for MLIR text.

    Parameters
    ----------
    source : bytes
        MLIR text.
    flags : sequence of str
        Flags that IREE binds to a session; those that are global to a process are refused.
    report : callable
        Is given severity and text of each diagnostic as it comes.

    Raises
    ------
    Refused
        With stage ``"flags"``, ``"parse"`` or ``"compile"``.
    Defective
        If the code would be wrong.
    """
    with span("load the compiler", "compiler"):
        from iree.compiler.api import Output, Session, Source

    @_Callback  # type: ignore[untyped-decorator]
    def on_diagnostic(severity: int, text: int, size: int, _: int) -> None:
        kind = _SEVERITIES[severity] if severity < len(_SEVERITIES) else "error"
        report(kind, string_at(text, size).decode("utf-8", "replace"))

    # A session per compilation costs 0.5 ms and always starts with clean flags.
    with Session() as session:
        try:
            session.set_flags(*flags)
        except ValueError as error:
            raise Refused("flags", str(error)) from None
        invocation = session.invocation()
        try:
            _enable_callback()(invocation._inv_p, 0, on_diagnostic, None)
            text = Source.wrap_buffer(session, source + b"\0", buffer_name=BUFFER_NAME)
            with span("parse", "compiler"):
                if not invocation.parse_source(text):
                    raise Refused("parse")
            with span("run the passes", "compiler"):
                _execute(session, invocation, flags, consumed=is_asked(source))
            with span("write the module", "compiler"), Output.open_membuffer() as output:
                try:
                    invocation.output_vm_bytecode(output)
                except ValueError as error:
                    raise Refused("compile", str(error)) from None
                return bytes(output.map_memory())
        finally:
            invocation.close()


def _execute(session: Any, invocation: Any, flags: Sequence[str], *, consumed: bool) -> None:
    """Run all passes, with what is done between them."""
    phase, checks, lanes = START, checks_for(flags), lanes_of(flags)
    if consumed:
        _run(invocation, phase, INPUT)
        phase = INPUT
        consume(session, invocation)
    if checks or lanes:
        _run(invocation, phase, DISPATCHES)
        phase, dispatches = DISPATCHES, _text(invocation)
        check(checks, dispatches)
        if lanes and softmax(dispatches):
            if not run_passes(invocation, DECOMPOSE):
                raise Refused("compile")
            dispatches = _text(invocation)
        if chosen := tilings(dispatches, lanes):
            set_tiles(session, invocation, chosen)
    _run(invocation, phase, END)


def _run(invocation: Any, after: str, until: str) -> None:
    if not run(invocation, after, until):
        raise Refused("compile")


def _text(invocation: Any) -> bytes:
    from iree.compiler.api import Output

    with Output.open_membuffer() as output:
        invocation.output_ir(output)
        return bytes(output.map_memory())


def workspace_bytes(vmfb: bytes, *, dynamic: bool = False) -> int | None:
    """Return the bytes of scratch memory that the module's ``main`` takes.

    Zero when the module was compiled without external transients; None when they are known only
    at run time and ``dynamic`` allows it.  No device is needed.

    Raises
    ------
    Refused
        If the size is known only at run time, and must not be.
    """
    import iree.runtime as rt

    module = rt.VmModule.copy_buffer(_vm_instance(), vmfb)
    if "main$async" not in module.function_names:
        return 0
    facts = module.lookup_function("main$async").reflection
    if "iree.abi.transients.size.constant" in facts:
        return int(facts["iree.abi.transients.size.constant"])
    if "iree.abi.transients.size" in facts:
        if dynamic:
            return None
        raise Refused("compile", "the workspace size depends on run-time values")
    return 0


@lru_cache(maxsize=1)
def _vm_instance() -> Any:
    import iree.runtime as rt

    return rt.VmInstance()
