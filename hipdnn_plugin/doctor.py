# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What would stop hipDNN from using the plugin, in words.

Libraries are only ever loaded in processes of their own, without Python: foreign plugins and ROCm
may crash, and what a host in C meets is what it logs there.
"""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ..graph_api.errors import NotSupportedError
from ..graph_api.formats.flatbuffer.encode import encode
from ..jit import scratch
from ..jit.runtime.hip import KERNEL_DRIVER
from ..jit.settings_table import Settings
from ..jit.trust import unsafe_path
from ..provider.engine_ids import engine_id
from ..provider.engines.foreign import discovery
from ..provider.engines.foreign.discovery import BACKEND, backends
from ..provider.engines.iree.iree_engine import IreeEngine
from ..provider.graph import Graph
from ..provider.native.deployment import causes, limits, packages, told
from .library import HOST, LIBRARY, NAME

__all__ = ["Finding", "examine", "finding"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    check : str
        What was looked at.
    state : str
        ``"ok"``, ``"note"`` (may be meant) or ``"problem"`` (hipDNN cannot use the plugin so).
    text : str
        What was found, and what to do about it.
    cause : str
        Id of the cause of a problem (docs/reference/deployments.md); the log of a host names it.
    """

    check: str
    state: str
    text: str
    cause: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the record as a JSON-ready mapping."""
        return asdict(self)


_PATIENCE_S = 60.0
_OWN = engine_id(IreeEngine.NAME)
_CAUSE = re.compile(r"DEPLOY-\d\d: .*", re.S)
_COMPILED_FOR = "graphs are compiled for"


class _Answers(NamedTuple):
    """What a plugin said in a process of its own.

    Attributes
    ----------
    said : mapping of str to list of str
        See ``native/host.c``.
    broken : str
        Why it did not come to an end; empty when it did.
    """

    said: Mapping[str, list[str]]
    broken: str = ""

    def first(self, key: str) -> str:
        """Return the first value of a key; nothing where there is none."""
        return self.said.get(key, [""])[0]

    @property
    def serves(self) -> bool:
        """Whether it serves the graph that it was asked about."""
        return self.first("serves") == "yes"


_Ask = Callable[[Path], _Answers]


def _ask(host: Path, graph: Path, library: Path) -> _Answers:
    """Load a plugin in a process without Python, as hipDNN does."""
    words = [str(word) for word in (host, library, _OWN, graph)]
    try:
        done = subprocess.run(words, capture_output=True, timeout=_PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        return _Answers({}, f"it did not answer within {_PATIENCE_S:g} s")
    said: dict[str, list[str]] = {}
    for record in done.stdout.decode(errors="replace").split("\0")[:-1]:
        key, _, value = record.partition(" ")
        said.setdefault(key, []).append(value)
    if done.returncode in (0, 1):
        return _Answers(said)
    last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["(nothing)"]
    return _Answers(said, f"it ended with status {done.returncode}: {last[0]}")


def examine(settings: Settings, folder: Path | None = None) -> list[Finding]:
    """Check everything that hipDNN needs; ``folder`` is the plugin folder, if it is known."""
    found = [*_packages(settings), *_backend(settings)]
    with scratch.folder() as place:
        graph = Path(place, "graph")
        graph.write_bytes(_small_graph())
        own = dataclasses.replace(settings, compiler_python=None)  # which may be what is wrong
        try:
            library, host = LIBRARY.find(own), HOST.find(own)
        except OSError as error:  # of the cache folder: the copies are examined all the same
            found.append(finding("library", "CACHE", error))
            library, host = (each.build(Path(place), own) for each in (LIBRARY, HOST))
        except NotSupportedError as error:
            return [*found, finding("library", "NOT_BUILT", error)]
        ask = partial(_ask, host, graph)
        copies: dict[Path, _Answers] = {}
        for each in [folder] if folder else discovery.folders(settings, every=True):
            copies |= _copies(each, ask, found)
        if not copies:
            copies = {library: ask(library)}
            found += _started("library", library, copies[library])
        served = (answers for answers in copies.values() if answers.serves)
        found += [_device(settings, answers.said["log"]) for answers in islice(served, 1)]
    return found


def _small_graph() -> bytes:
    g = Graph("doctor", io_data_type="float", compute_data_type="float")
    g.relu(g.tensor(dims=(4, 4), name="x")).set_output()
    return encode(g.freeze())


def finding(check: str, cause: str, found: object, folder: Path | None = None) -> Finding:
    """Return the problem that a cause is, with what was found."""
    return Finding(check, "problem", told(cause, found, folder or "DIR"), causes()[cause].id)


def _packages(settings: Settings) -> Iterator[Finding]:
    wrong = [*packages(), *limits(settings)]
    yield from (Finding("packages", "problem", str(error), error.cause) for error in wrong)
    if not wrong:
        yield Finding("packages", "ok", f"all there for {sys.executable}")


def _started(check: str, path: Path, answers: _Answers) -> Iterator[Finding]:
    """Tell how one of our libraries did in a program without Python."""
    if text := answers.broken or answers.first("loader"):
        yield finding(check, "NO_LIBRARY", f"{path}: {text}")
        return
    lines = [answers.first("error"), *answers.said.get("log", ())]
    texts = dict.fromkeys(found[0] for line in lines if (found := _CAUSE.search(line)))
    for text in texts:
        yield Finding(check, "problem", f"{text} [{path}]", text.partition(":")[0])
    if texts:
        return
    if not answers.serves:
        yield finding(check, "NOT_STARTED", f"{path}: {'; '.join(filter(None, lines))}")
        return
    yield Finding(check, "ok", f"{path} starts in a program without Python, and serves a graph")


def _device(settings: Settings, log: list[str]) -> Finding:
    if settings.plugin_device == "cpu":
        text = "the CPU with host pointers, as HIPDNN_IREE_PLUGIN_DEVICE says"
        return Finding("device", "note", text)
    if target := next((line for line in log if _COMPILED_FOR in line), ""):
        return Finding("device", "ok", target[target.index(_COMPILED_FOR) :])
    text = f"no AMD GPU ({KERNEL_DRIVER} or a device of HIP is missing): the CPU serves"
    return Finding("device", "note", f"{text}, with host pointers")


def _backend(settings: Settings) -> Iterator[Finding]:
    found = backends(settings)
    if not found:
        text = f"no {BACKEND} in LD_LIBRARY_PATH, ROCM_PATH, /opt/rocm, torch"
        yield finding("backend", "NO_BACKEND", text)
    for path in found:
        yield Finding("backend", "ok", str(path))


def _copies(place: Path, ask: _Ask, found: list[Finding]) -> dict[Path, _Answers]:
    """Return the copies of the plugin in a folder that hipDNN loads; adds to what was found."""
    try:
        inside = sorted(place.iterdir())
    except OSError as error:
        found.append(finding("folder", "NO_COPY", f"{place}: {error.strerror}", place))
        return {}
    copies: dict[Path, _Answers] = {}
    broken = False
    for path in inside:  # hipDNN's order, in which the first one wins an id
        if ".so" not in path.name or path.suffix == ".python":
            continue
        ours = path.name.startswith(Path(NAME).stem)
        cause, text, answers = _look(path, ask)
        if ours and cause:
            found.append(finding("file", cause, text, place))
            broken = True
        elif cause:  # nobody's problem here
            found.append(Finding("file", "note", f"{causes()[cause].text}: {text}"))
        elif ours or str(_OWN) in answers.said.get("engine", ()):
            copies[path] = answers
            found += _started("file", path, answers)
    if not copies and not broken:
        found.append(finding("folder", "NO_COPY", f"the plugin is not in {place}", place))
    for other in islice(copies, 1, None):
        text = f"{other} has the same engine id as {next(iter(copies))}, which comes first"
        found.append(finding("engine id", "TWO_COPIES", text))
    return copies


def _look(path: Path, ask: _Ask) -> tuple[str, str, _Answers]:
    """Return why hipDNN does not load a file, what was found, and what it says itself."""
    real = Path(os.path.realpath(path))
    answers = _Answers({})
    if not os.path.isfile(real):
        return "NOT_LOADED", f"{path} leads to {real}, which is no regular file", answers
    if real.suffix != ".so":
        return "NOT_LOADED", f"{path} is {real.name}", answers
    if reason := unsafe_path(path):
        return "UNSAFE_LIBRARY", f"{path}: {reason}", answers
    answers = ask(path)
    text = answers.broken or answers.first("loader")
    if text and _machine(path) not in (b"", _machine(Path(sys.executable))):
        text = f"it is made for another machine ({text})"
    return "NO_LIBRARY" if text else "", f"{path}: {text}", answers


def _machine(file: Path) -> bytes:
    """Return what tells machines apart in a library; the loader speaks of no such file then."""
    with suppress(OSError), file.open("rb") as opened:
        head = opened.read(20)
        return head[4:6] + head[18:] if head.startswith(b"\x7fELF") else b""
    return b""
