# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``hipdnn-iree inspect``: what the compiler made of a graph, dispatch by dispatch."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...jit import scratch
from ...jit.settings import settings
from ..units import si, time_text
from .options import (
    COMPILING,
    Command,
    State,
    graph_argument,
    html_option,
    knob_options,
    target_option,
)
from .output import bold, count, emit, number, say, shown, talk, working

if TYPE_CHECKING:
    from ...jit.inspect import Dispatch, Inspection, Notice
    from ...jit.inspect.estimate import Estimate
    from ...jit.inspect.isa import Kernel
    from ...jit.inspect.roofline import Roofline
    from ...jit.target import Target

JSON: dict[str, str] = {
    "graph": "`name` and `digest`",
    "target, figures_of": "target, and the product whose data sheet the estimates use (null: none)",
    "dispatches, fills, copies, transient_bytes": "of one execution",
    "flops, matrix_flops": "arithmetic of the graph, and what of it matrix instructions can do",
    "least_bytes, least_s": "inputs and outputs, and the least time of one fused kernel in seconds",
    "moved_bytes, roofline_s": "of all dispatches together; null with open dims or no figures",
    "estimate_s": "estimated time of all dispatches in seconds (`jit/inspect/estimate.py` says of "
    "what, and what it leaves out); null with open dims or no figures",
    "dispatch": "of each one `name`, `nodes`, `reads`, `writes`, `at_load` (runs once, at load), "
    "`flops`, `matrix_flops`, `bytes`, `pipeline`, `workgroup_size`, `subgroup_size`, "
    "`lowering_config`, and for gfx9 `kernel` (as `compile --kernels`), `occupancy` "
    "(`waves_per_simd`, `max_waves_per_simd`, `workgroups_per_cu`, `limited_by`), `roofline` "
    "(`memory_s`, `matrix_s`, `vector_s`, `bound`, `seconds`, `intensity`, `ridge`), `hot_loop` "
    "(`trips`, `instructions`, `vector`, `mfma`, `mfma_share`, `loads` by bytes of a lane) and "
    "`estimate` (`seconds`, `bound`, `times` by unit, `workgroups`, `waves`, `wave_clocks`, "
    "`arithmetic`: what is multiplied over what is asked for, `unknown_loops`)",
    "warnings": "of each one `rule`, `nodes`, `dispatches`, `text`, `hint`",
    "dump": "the folder of all stages, or null",
}

WIDTH = 100
_BAR = 40


@click.command(cls=Command)
@graph_argument
@target_option(default="gfx942", help="Target to compile for.")
@html_option
@click.option("--dump", metavar="DIR", help="Write every stage there, as `compile --dump` does.")
@knob_options(*COMPILING)
@click.pass_obj
def command(state: State, graph: str, target: Target, page: str | None, dump: str | None) -> None:
    """Compile GRAPH anew and show its dispatches: nodes, tiles, registers, least time.

    No hardware is needed, and nothing is run: occupancy and least times are bounds from data
    sheets, and the estimate is that of a model of the kernels' instructions, without calls and
    launches, which the estimate of `explain` counts.  Kernels are read for gfx9 targets; for
    others there are dispatches and tiles.
    """
    from ...jit.inspect import inspect_graph
    from ...jit.options import BuildOptions
    from ..selection.select import choose
    from .files import file_errors, read_graph

    frozen = read_graph(graph).freeze()
    choose(frozen, target, settings(), engine_name="iree")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(scratch.folder()) if dump is None else dump)
        with working(f"compiling for {target}"), file_errors(folder, "write to"):
            found = inspect_graph(frozen, target, folder, BuildOptions.of(settings()))
    if page is not None:
        from ..pages.inspect_page import inspect_page
        from .files import write_page

        write_page(page, inspect_page(found, frozen))
    if state.json:
        about = {"name": frozen.name, "digest": frozen.digest}
        emit({"graph": about, **found.as_dict(), "dump": dump})
        return
    for line in render(found, frozen.name):
        say(line)
    if dump is not None:
        talk(f"wrote {dump}")


def render(found: Inspection, name: str) -> Iterator[str]:
    """Yield the lines of a report, none wider than 100 columns."""
    figures = f", with figures of the {found.sheet.sku.upper()}" if found.sheet else ""
    yield from _heading(f"{shown(name) or 'graph'} for {found.target}{figures}; compiled, not run")
    s = found.statistics
    yield (
        f"{count(s['dispatches'], 'dispatch', 'dispatches')}, {count(s['fills'], 'fill', 'fills')}"
        f", {count(s['copies'], 'copy', 'copies')}, {_n(s['transient_bytes'])} transient bytes"
    )
    moved = "" if found.moved_bytes is None else f"{si(found.moved_bytes)}B moved, "
    yield (
        f"{si(found.work.flops)}FLOP; {moved}at least {si(found.work.nbytes)}B if all was one "
        "kernel"
    )
    if found.seconds is not None and found.least is not None:
        guess = (
            ""
            if found.estimate_s is None
            else f"; estimate {time_text(found.estimate_s)} without launches"
        )
        least = f"{time_text(found.least.seconds)} if all was one kernel"
        yield f"at least {time_text(found.seconds)}, {least}{guess}"
    longest = max((d.roofline.seconds for d in found.dispatches if d.roofline), default=0.0)
    for i, dispatch in enumerate(found.dispatches):
        yield ""
        yield from _dispatch(i, dispatch, longest)
    if found.notices:
        yield ""
        yield bold("warnings")
    for notice in found.notices:
        yield from _notice(notice)


def _dispatch(i: int, d: Dispatch, longest: float) -> Iterator[str]:
    yield from _heading(f"#{i} {shown(d.name.removeprefix('main$async_'))}")
    if d.at_load:
        yield from _fact("runs", "once, when the module is loaded")
    yield from _fact("nodes", ", ".join(map(shown, d.nodes)) or "(none: moves data)")
    yield from _fact("reads", ", ".join(d.reads) or "-")
    yield from _fact("writes", ", ".join(d.writes) or "-")
    c = d.config
    size = "x".join(map(str, c.workgroup_size))
    parts = [c.pipeline or "(no pipeline)"]
    parts += [f"workgroup of {size}"] if size else []
    parts += [f"subgroups of {c.subgroup_size}"] if c.subgroup_size else []
    yield from _fact("code", ", ".join(parts))
    if c.lowering:
        yield from _fact("tiles", ", ".join(f"{k} {v}" for k, v in c.lowering.items()))
    if d.kernel is not None:
        yield from _kernel(d.kernel)
    if (o := d.occupancy) is not None:
        yield from _fact(
            "occupancy",
            f"{o.waves_per_simd} of {o.max_waves_per_simd} waves per SIMD, {o.workgroups_per_cu} "
            f"workgroups per CU; limited by {' and '.join(o.limited_by)}",
        )
    if (h := d.hot_loop) is not None:
        yield from _fact(
            "hot loop",
            f"{_n(h.trips)} times {_n(h.instructions)} instructions, {_n(h.vector)} of them vector"
            f", {h.mfma_share:.0%} of those matrix; loads {_widths(h.loads)}",
        )
    if (e := d.estimate) is not None:
        yield from _fact("estimate", _estimate(e))
    if (r := d.roofline) is not None:
        yield from _roofline(d, r, longest)


def _estimate(e: Estimate) -> str:
    parts = sorted(e.times.items(), key=lambda one: -one[1])
    others = ", ".join(f"{unit} {time_text(seconds)}" for unit, seconds in parts[1:4])
    text = f"{time_text(e.seconds)} by {e.bound} ({others})"
    text += f"; {count(e.waves, 'wave', 'waves')} of {_n(e.wave_clocks)} clocks"
    if e.arithmetic > 1.05:
        text += f", {e.arithmetic:.2g} times the arithmetic asked for"
    if e.unknown_loops:
        text += f"; {count(e.unknown_loops, 'loop', 'loops')} of unknown length"
    return text


def _kernel(k: Kernel) -> Iterator[str]:
    spills = k.vgpr_spills + k.sgpr_spills
    yield from _fact(
        "registers",
        f"{k.vgprs} VGPRs ({k.agprs} of them AGPRs), {k.sgprs} SGPRs, {_n(spills)} spilled; "
        f"{_n(k.lds_bytes)} B LDS, {_n(k.scratch_bytes)} B scratch",
    )
    mfma = ", ".join(f"{n} {name}" for name, n in sorted(k.mfma.items()))
    yield from _fact("matrix", mfma or "no matrix instructions")
    moved = {"loads": k.loads, "stores": k.stores}
    yield from _fact("memory", "; ".join(f"{way} {_widths(by)}" for way, by in moved.items()))


def _widths(by: Mapping[int, int]) -> str:
    return ", ".join(f"{n} of {size} B" for size, n in sorted(by.items())) or "none"


def _roofline(d: Dispatch, r: Roofline, longest: float) -> Iterator[str]:
    yield from _fact(
        "work",
        f"{si(d.work.flops)}FLOP, {si(d.work.nbytes)}B, {r.intensity:.3g} FLOP/B "
        f"(ridge at {r.ridge:.3g}); bound by {r.bound}",
    )
    times = {"memory": r.memory_s, "matrix": r.matrix_s, "vector": r.vector_s}
    for name, seconds in times.items():
        if seconds:
            filled = round(_BAR * seconds / longest) if longest else 0
            yield f"  {name:>9}  {'█' * filled}{'·' * (_BAR - filled)} {time_text(seconds)}"


def _notice(notice: Notice) -> Iterator[str]:
    text = f"{notice.rule}: {shown(notice.text)}"
    where = f" ({', '.join(map(shown, notice.nodes))})" if notice.nodes else ""
    hint = f"; {notice.hint}" if notice.hint else ""
    yield from textwrap.wrap(
        text + where + hint, WIDTH, initial_indent="  ", subsequent_indent="    "
    )


def _fact(label: str, text: str) -> Iterator[str]:
    lines = textwrap.wrap(text, WIDTH - 13, break_on_hyphens=False)
    for i, line in enumerate(lines):
        yield f"  {label if not i else '':>9}  {line}"


def _heading(text: str) -> Iterator[str]:
    """Yield a heading; names are broken, and not cut off."""
    yield from map(bold, textwrap.wrap(text, WIDTH, break_on_hyphens=False))


def _n(value: int | None) -> str:
    return "unknown" if value is None else number(value)
