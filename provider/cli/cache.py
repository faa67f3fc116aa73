# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree cache``: look at the cache of compiled code, and look after it."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from ...jit import settings as knobs
from .exits import CHECK_FAILED
from .options import Group, State, knob_options
from .output import count, emit, facts, say, shown, talk, working

if TYPE_CHECKING:
    from ...jit.cache import CacheStore, Removed

_REMOVED = {
    "root": "the folder",
    "entries": "entries removed",
    "nbytes": "bytes removed",
    "leftovers": "unfinished work of dead processes removed",
    "nbytes_left": "bytes that are left",
    "off": "why the folder cannot be used, or empty",
}
JSON: dict[str, dict[str, str]] = {
    "info": {
        "mode": "the setting `cache.mode`",
        "root": "the folder",
        "off": "why the folder cannot be used, or empty",
        "entries": "number of entries",
        "nbytes": "bytes of all entries",
        "max_bytes": "bytes above which old entries are removed",
        "oldest": "time of last use of the oldest entry, in seconds since 1970, or null",
        "newest": "the same of the newest one",
        "reproducers": "folder of what failed compilations left",
    },
    "clear": _REMOVED,
    "trim": _REMOVED,
    "verify": {
        "root": "the folder",
        "entries": "number of entries, after repair",
        "ok": "whether nothing is damaged",
        "findings": "of each `digest`, `file`, `problem`, `removed`",
        "off": "why the folder cannot be used, or empty",
    },
}


def _open() -> CacheStore:
    """Return the cache folder, whether it is in use or switched off."""
    from ...jit.cache import CacheStore

    now = knobs.settings()
    return CacheStore(now.cache_dir, now.cache_max_bytes)


@click.group(cls=Group)
def command() -> None:
    """Look at the cache of compiled code, and look after it.

    All of it is safe while other processes use the cache.
    """


@command.command()
@knob_options("--cache-dir")
@click.pass_obj
def info(state: State) -> None:
    """Say where the cache is and what is in it."""
    now, found = knobs.settings(), _open().info()
    about = {
        "mode": now.cache_mode,
        **found.as_dict(),
        "reproducers": str(now.reproducers_dir),
    }
    for counter in ("hits", "misses", "stored", "damaged"):
        del about[counter]  # of this process, which has done nothing
    if state.json:
        emit(about)
        return
    facts(
        [
            ("folder", found.root),
            ("mode", f"{now.cache_mode}{f', but {found.off}' if found.off else ''}"),
            ("entries", found.entries),
            ("bytes", f"{found.nbytes:,} of at most {found.max_bytes:,}"),
            ("used", _span(found.oldest, found.newest)),
            ("reproducers", str(now.reproducers_dir)),
        ]
    )


def _span(oldest: float | None, newest: float | None) -> str:
    if oldest is None or newest is None:
        return "never"
    texts = [time.strftime("%Y-%m-%d %H:%M", time.localtime(t)) for t in (oldest, newest)]
    return " to ".join(dict.fromkeys(texts))


@command.command()
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@knob_options("--cache-dir")
@click.pass_obj
def clear(state: State, yes: bool) -> None:
    """Remove all entries; asks first, and without a terminal wants --yes."""
    cache = _open()
    if not yes:
        if state.json or not _can_ask():
            raise click.UsageError("nobody can be asked; give --yes to remove all entries")
        found = cache.info()
        what = count(found.entries, "entry", "entries")
        question = f"remove {what} ({found.nbytes:,} bytes) in {found.root}?"
        if not click.confirm(shown(question), err=True):
            talk("nothing was removed")
            return
    _removed(state, cache, cache.clear())


@command.command()
@knob_options("--max-bytes", "--cache-dir")
@click.pass_obj
def trim(state: State) -> None:
    """Remove the least recently used entries above the cap, and what dead processes left."""
    cache = _open()
    _removed(state, cache, cache.trim())


def _can_ask() -> bool:
    """Whether somebody sits at a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _removed(state: State, cache: CacheStore, removed: Removed) -> None:
    if state.json:
        emit({"root": str(cache.root), **removed.as_dict(), "off": cache.off})
        return
    what = count(removed.entries, "entry", "entries")
    left = count(removed.leftovers, "leftover", "leftovers")
    say(
        f"removed {what} ({removed.nbytes:,} bytes) and {left}; "
        f"{removed.nbytes_left:,} bytes are left in {shown(str(cache.root))}"
    )


@command.command()
@click.option(
    "--repair",
    is_flag=True,
    help="Remove what is damaged; what is no file or folder of the cache is renamed.",
)
@knob_options("--cache-dir")
@click.pass_obj
def verify(state: State, repair: bool) -> None:
    """Read every entry and compare it with its digests; exit code 1 when one is damaged."""
    cache = _open()
    with working("reading the entries"):
        findings = cache.verify(repair=repair)
    entries = cache.info().entries
    if state.json:
        about = {"root": str(cache.root), "entries": entries, "ok": not findings}
        emit({**about, "findings": [f.as_dict() for f in findings], "off": cache.off})
    else:
        for finding in findings:
            say(shown(str(finding)))
        what = count(entries, "entry", "entries")
        say(f"{what} in {shown(str(cache.root))}; {len(findings)} damaged")
    if cache.off:
        talk(f"warning: the cache is not used: {cache.off}")
    if findings:
        raise click.exceptions.Exit(CHECK_FAILED)
