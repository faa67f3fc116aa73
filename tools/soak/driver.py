# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs attacks in processes of their own, side by side, and keeps what they find."""

from __future__ import annotations

import faulthandler
import importlib
import json
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tools.soak.attack import Box, Budget, Failure, Result

__all__ = ["ATTACKS", "Attack", "drive", "known", "replay", "report", "save"]


@dataclass(frozen=True)
class Attack:
    """A row of the table.

    Attributes
    ----------
    share : float
        Of the time: minutes on one core in a run of half an hour on two.
    about : str
        What is attacked, and what must hold.
    silence_s : float
        So long without a word is a hang.
    module : str
        Where it is, if not in the module of its name here.
    least : int
        So many inputs or rounds are tried, also when the time is over before.
    """

    share: float
    about: str
    silence_s: float = 180.0
    module: str = ""
    least: int = 1


ATTACKS: dict[str, Attack] = {
    "graph_bytes": Attack(
        22, "mutated FlatBuffers in-process: read, judged, planned, written", least=101
    ),
    "graph_json": Attack(20, "the same of graph JSON", least=101),
    "plugin": Attack(
        10, "mutated FlatBuffers through the plugin's C interface, in a host in C", least=101
    ),
    "random_graphs": Attack(2, "random valid graphs on the CPU, compared with the reference", 600),
    "red_zones": Attack(
        2, "random graphs in a host in C, red zones around every buffer, compared", 600
    ),
    "concurrent": Attack(3, "threads that execute, make and destroy the same plans", 600),
    "killed_hosts": Attack(3, "hosts killed at any moment: no worker or folder stays", 600),
    "exits": Attack(3, "programs that end with work pending: no signal", 600),
    "cache_writers": Attack(1, "cache writers killed at any moment: no entry is wrong", 600),
    "files": Attack(1, "damaged files of every kind: a clear error, or used as far as valid", 600),
    "environments": Attack(1, "nonsense in the environment: a clear error", 600),
    "host_environments": Attack(1, "the same of a host in C: it lives, and calls answer", 600),
}

_CONTEXT = multiprocessing.get_context("spawn")  # nothing of the driver is in an attack's process
_MOST_CRASHES = 20
Tell = Callable[[str, float, Result], None]


def known() -> list[str]:
    """Return the attacks that are there."""
    return [name for name in ATTACKS if find_spec(f"tools.soak.{name}")]


# ---------------------------------------------------------------------------- an attack's process


def _child(
    name: str,
    seconds: float,
    least: int,
    seed: int,
    case: bytes | None,
    folder: str,
    out: Connection,
) -> None:
    """Run an attack, or one input of it, in this fresh process, which leads its own group."""
    os.setsid()
    scratch = Path(folder)
    os.chdir(scratch)
    for variable in [v for v in os.environ if v.startswith(("HIPDNN_IREE_", "HIPDNN_HEUR_"))]:
        del os.environ[variable]
    os.environ["HIPDNN_IREE_CACHE_DIR"] = str(scratch / "cache")
    with (scratch / "trace").open("w", buffering=1) as trace:
        faulthandler.enable(trace)
        faulthandler.register(signal.SIGUSR1, trace)
        budget = Budget(seconds, scratch, Box(scratch / "box"), out.send, least)
        try:
            module = importlib.import_module(name)
            found = module.run(budget, seed) if case is None else module.replay(budget, case)
        except BaseException:
            traceback.print_exc(file=trace)
            raise
        out.send(found)
        out.send("done")


def _run(
    name: str, seconds: float, seed: int, tell: Callable[[Result], None], case: bytes | None = None
) -> tuple[Result, bool]:
    """Return what an attack's process found, and whether it ended well."""
    folder = tempfile.mkdtemp(prefix=f"hipdnn-iree-soak-{name}-")
    Box(Path(folder) / "box")
    ours, theirs = _CONTEXT.Pipe(duplex=False)
    module = ATTACKS[name].module or f"tools.soak.{name}"
    least = ATTACKS[name].least if case is None else 1
    arguments = (module, seconds, least, seed, case, folder, theirs)
    process = _CONTEXT.Process(target=_child, args=arguments, name=name)
    process.start()
    theirs.close()
    found, finished, why = Result(), False, ""
    silence, box = ATTACKS[name].silence_s, Box(Path(folder) / "box")
    heard, count = time.monotonic(), 0
    try:
        while not finished and not why:
            if ours.poll(0.5):
                try:
                    said = ours.recv()
                except EOFError:
                    break
                heard = time.monotonic()
                finished = said == "done"
                if isinstance(said, Result):
                    found = said
                    tell(found)
            elif box.count != count:
                heard, count = time.monotonic(), box.count
            if time.monotonic() - heard > silence:
                why = f"no answer for {silence:.0f} s"
                with suppress(ProcessLookupError):
                    os.kill(process.pid or 0, signal.SIGUSR1)
                time.sleep(1)
    finally:
        if not finished:
            process.join(5)
        with suppress(ProcessLookupError):  # also what it left behind
            os.killpg(process.pid or 0, signal.SIGKILL)
        process.join()
        if not finished:
            code = process.exitcode or 0
            ended = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            trace = (Path(folder) / "trace").read_text(errors="replace")[-8000:]
            found.fail(why or f"the attacked process ended: {ended}", box.last, trace)
        shutil.rmtree(folder, ignore_errors=True)
    return found, finished


# ---------------------------------------------------------------------------- the whole


def _attack(name: str, share: float, seed: int, tell: Tell) -> tuple[Result, float]:
    """Run an attack for its share of the time, again with another seed where its process dies."""
    begin, total = time.monotonic(), Result()
    for again in range(_MOST_CRASHES):
        spent = time.monotonic() - begin
        if again and spent >= share:
            break

        def progress(part: Result) -> None:
            now = Result()
            now.add(total)
            now.add(part)
            tell(name, time.monotonic() - begin, now)

        part, ended = _run(name, share - spent, seed + 1000 * again, progress)
        total.add(part)
        if ended:
            break
    return total, time.monotonic() - begin


def drive(
    names: Iterable[str], seconds: float, seed: int, jobs: int, tell: Tell
) -> dict[str, tuple[Result, float]]:
    """Run attacks for a time, a few at once, and return what each found, with its seconds."""
    wanted = sorted(names, key=lambda name: -ATTACKS[name].share)
    whole = sum(ATTACKS[name].share for name in wanted)
    waiting = deque(wanted)
    found: dict[str, tuple[Result, float]] = {}

    def lane() -> None:
        while True:
            try:
                name = waiting.popleft()
            except IndexError:
                return
            share = min(seconds, seconds * jobs * ATTACKS[name].share / whole)
            found[name] = _attack(name, share, seed, tell)

    lanes = [threading.Thread(target=lane) for _ in range(jobs)]
    for thread in lanes:
        thread.start()
    for thread in lanes:
        thread.join()
    return {name: found[name] for name in wanted}


def replay(file: Path) -> Result:
    """Try an input that was saved, in a process of its own; its folder says of which attack."""
    name = file.stem
    found, _ = _run(name, 60, 0, lambda _: None, file.read_bytes())
    return found


def save(name: str, failure: Failure, folder: Path) -> dict[str, str]:
    """Keep a failure with its input, and return how it is reported."""
    digest = sha256(failure.what.encode() + failure.case).hexdigest()[:10]
    place = folder / f"{name}-{digest}"
    place.mkdir(parents=True, exist_ok=True)
    row = {"what": failure.what, "folder": str(place)}
    if failure.case:
        case = place / f"{name}.case"
        case.write_bytes(failure.case)
        row["replay"] = f"scripts/soak --replay {case}"
    text = "\n".join([*row.values(), "", failure.detail])
    (place / "failure.txt").write_text(text, errors="backslashreplace")
    return row


def report(found: Mapping[str, tuple[Result, float]], folder: Path) -> dict[str, Any]:
    """Return all that was found in JSON terms; failures are saved in a folder."""
    rows = {}
    for name, (result, seconds) in found.items():
        total = sum(n for what, n in result.counts.items() if what != "FAILED")
        rows[name] = {
            "seconds": round(seconds, 1),
            "total": total,
            "per_s": round(total / max(seconds, 1e-9), 1),
            "counts": dict(result.counts.most_common()),
            "slowest_s": round(result.slowest_s, 3),
            "growth_mib": round(result.growth_mib, 1),
            "peak_mib": round(result.peak_mib, 1),
            "failures": [save(name, failure, folder) for failure in result.failures],
        }
    return json.loads(json.dumps(rows))  # type: ignore[no-any-return]
