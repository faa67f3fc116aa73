# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The program of a probe process: loads one plugin, asks it, and tells each step as it begins.

Lines of JSON go to a pipe of their own, as a plugin may print: ``{"step": ...}`` before each
call, so that whoever waits knows which one crashed or hung, and ``{"done": ...}`` at the end.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ....graph_api.errors import HipdnnIreeError, Problem
from .foreign_rules import MisfitError, problem

__all__ = ["main"]

_PR_SET_PDEATHSIG = 1
_SMALL_ID = 1 << 32


def main(descriptor: str, host: str) -> None:
    """Answer the request on stdin into a pipe."""
    pipe, parent = int(descriptor), int(host)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before that took hold
        os._exit(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    request = json.load(sys.stdin)

    def tell(**line: Any) -> None:
        os.write(pipe, json.dumps(line).encode() + b"\n")

    path = Path(request["path"])
    if "wanted" in request:
        tell(done=_trial(path, request["wanted"], tell))
    elif "backend" in request:
        tell(done=_backend(path, tell))
    else:
        tell(done=_look(path, tell))


def _look(path: Path, tell: Any) -> dict[str, Any]:
    from ...plugin_abi import Severity
    from .log_sink import listening
    from .plugin_calls import OPTIONAL, Library
    from .probe_report import Found, Report

    with listening() as said, _problems() as problems:
        about: dict[str, Any] = {}
        tell(step="load")
        library = Library(path)
        about = {
            "name": library.name,
            "version": library.version,
            "api_version": library.api_version,
            "era": _era(library),
            "engines": tuple(Found(id, library.names.get(id, "")) for id in library.ids),
            "features": tuple(sorted(_short(n) for n in OPTIONAL if n in library.has)),
        }
        library.set_log_level(Severity.INFO)
        tell(step="hipdnnEnginePluginCreate")
        handle = library.handle()
        tell(step="hipdnnEnginePluginDestroy")
        handle.close()
        tell(step="hipdnnEnginePluginGetAllEngineIds")
        if library._all_ids() != library.ids:
            got = "other ids when asked again"
            name = "hipdnnEnginePluginGetAllEngineIds"
            raise MisfitError(problem("FOREIGN-05", name, got, "the same ids"))
    tell(step="exit")
    report = Report(
        path=str(path),
        problems=tuple(problems),
        usable=not problems,
        said=tuple(said),
        **about,
    )
    return report.as_dict()


def _backend(path: Path, tell: Any) -> dict[str, Any]:
    """Load hipDNN with all of its plugins, and list its engines."""
    from .hipdnn_backend import Hipdnn
    from .probe_report import Report

    about: dict[str, Any] = {}
    with _problems() as problems:
        tell(step="load")
        hipdnn = Hipdnn(path)
        tell(step="hipdnnCreate")
        handle = hipdnn.handle()
        tell(step="hipdnnGetEngineInfo_ext")
        engines = handle.engines()
        about = {"name": "hipDNN", "version": hipdnn.version, "era": hipdnn.era}
        about["engines"] = tuple(e for e, _ in engines)
        about["said"] = tuple(f"{e.name or hex(e.id % 2**64)}: {plugin}" for e, plugin in engines)
        tell(step="hipdnnDestroy")
        handle.close()
    tell(step="exit")
    report = Report(path=str(path), problems=tuple(problems), usable=not problems, **about)
    return report.as_dict()


def _era(library: Any) -> str:
    """Return which wire format a plugin reads; the C interface does not say it.

    Plugins of November 2025 have neither of two functions that came with the new format, and
    number their engines.
    """
    newer = ("hipdnnPluginGetApiVersion", "hipdnnPluginSetLogLevel")
    numbered = all(abs(id) < _SMALL_ID for id in library.ids)
    return "n25" if numbered and not any(name in library.has for name in newer) else "node"


def _trial(path: Path, wanted: dict[str, Any], tell: Any) -> dict[str, Any]:
    from ...plugin_abi import Severity
    from .log_sink import listening
    from .plugin_calls import Library
    from .probe_report import Trial

    with listening() as said, _problems() as problems:
        tell(step="load")
        library = Library(path)
        library.set_log_level(Severity.INFO)
        tell(step="hipdnnEnginePluginCreate")
        handle = library.handle()
        try:
            _ask(handle, wanted, tell)
        finally:
            tell(step="hipdnnEnginePluginDestroy")
            handle.close()
    tell(step="exit")
    return Trial(problem=problems[0] if problems else None, said=tuple(said)).as_dict()


def _ask(handle: Any, wanted: dict[str, Any], tell: Any) -> None:
    graph, config = b64decode(wanted["graph"]), b64decode(wanted["config"])
    id, stage = wanted["engine_id"], wanted["stage"]
    tell(step="hipdnnEnginePluginGetApplicableEngineIds")
    if id not in handle.applicable(graph):
        name = "hipdnnEnginePluginGetApplicableEngineIds"
        raise MisfitError(problem("FOREIGN-10", name, "not this engine", "the engine's id"))
    tell(step="hipdnnEnginePluginGetEngineDetails")
    handle.details(id, graph)
    tell(step="hipdnnEnginePluginGetWorkspaceSize")
    handle.workspace_guess(config, graph)
    if stage == "graph":
        return
    tell(step="hipdnnEnginePluginCreateExecutionContext")
    context = handle.context(config, graph)
    try:
        tell(step="hipdnnEnginePluginGetWorkspaceSizeFromExecutionContext")
        nbytes = context.workspace_bytes
        if stage == "run":
            tell(step="hipdnnEnginePluginExecuteOpGraph")
            _run(handle, context, wanted["buffers"], nbytes)
    finally:
        tell(step="hipdnnEnginePluginDestroyExecutionContext")
        context.close()


def _run(handle: Any, context: Any, buffers: list[list[int]], workspace_bytes: int) -> None:
    """Execute once on zeros."""
    from ....jit.settings import settings
    from .places import Host, here
    from .plugin_calls import device_buffers

    place, host = here(settings().foreign_device), Host()
    kept, pairs = [], []
    for uid, nbytes, scalar in buffers:
        address, keeper = (host if scalar else place).allocate(nbytes)
        kept.append(keeper)
        pairs.append((uid, address))
        if not place.on_host and not scalar:
            zeros, keeper = host.allocate(nbytes)
            place.write(address, zeros, nbytes)
    space, keeper = place.allocate(workspace_bytes) if workspace_bytes else (None, None)
    kept.append(keeper)
    context.prepared(device_buffers(pairs), len(pairs), space)()
    place.wait(None)
    del kept


@contextmanager
def _problems() -> Iterator[list[Problem]]:
    """Collect what ends the block."""
    found: list[Problem] = []
    try:
        yield found
    except MisfitError as error:
        found.append(error.problem)
    except HipdnnIreeError as error:
        found.append(problem("FOREIGN-11", "probe", str(error), "an answer"))


def _short(name: str) -> str:
    return name.removeprefix("hipdnnEnginePlugin").removeprefix("hipdnnPlugin")
