# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page of ``hipdnn-iree inspect --html``: what the compiler made of a graph."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..units import bytes_text, si, time_text
from .charts import Bar, Point, Roof, bars, roofline
from .graph_diagram import draw_frozen
from .markup import Markup, element
from .page import document, facts, long_text, section, table
from .shown import drawn_picture, served_by

if TYPE_CHECKING:
    from ...graph_api.frozen import FrozenGraph
    from ...jit.inspect import Dispatch, Inspection
    from ...jit.inspect.machine import Sheet

__all__ = ["inspect_page"]

_BOUND = {"memory": 0, "matrix": 1, "vector": 2}  # colour of what a dispatch is bound by


def inspect_page(found: Inspection, graph: FrozenGraph) -> str:
    """Return the page of an inspection."""
    engines = ("IREE_JIT_ENGINE",) * len(graph.nodes)
    drawn = draw_frozen(graph, served_by(engines, [d.places for d in found.dispatches]))
    return document(
        f"{graph.name or 'graph'} for {found.target}",
        section("Graph", element("p", _COLOURS, class_="hint"), drawn_picture(drawn)),
        section("Dispatches", _times(found), _dispatches(found.dispatches)),
        section("Roofline", *_roofline(found)),
        section("Warnings", _warnings(found)),
        header=element("div", element("p", _NOT_RUN, class_="hint"), facts(list(_facts(found)))),
    )


_COLOURS = "Nodes of one fill are fused into one dispatch; numbers are those of the table below."
_NOT_RUN = (
    "Compiled, not run: least times are bounds from data sheets, estimates those of a model; "
    "nothing was measured."
)


def _facts(found: Inspection) -> Iterator[tuple[str, object]]:
    s = found.statistics
    yield "target", str(found.target)
    yield "figures of", found.sheet.sku.upper() if found.sheet else ""
    yield from ((name, s[name]) for name in ("dispatches", "fills", "copies"))
    if s["transient_bytes"] is not None:
        yield "workspace", bytes_text(s["transient_bytes"])
    yield "arithmetic", f"{si(found.work.flops)}FLOP"
    if found.moved_bytes is not None:
        least = f"at least {bytes_text(found.work.nbytes)} if all was one kernel"
        yield "moved", f"{bytes_text(found.moved_bytes)}; {least}"
    if found.seconds is not None and found.least is not None:
        one = f"{time_text(found.least.seconds)} if all was one kernel"
        yield "least time", f"{time_text(found.seconds)}; {one}"
    if found.estimate_s is not None:
        yield "estimate", time_text(found.estimate_s)


def _times(found: Inspection) -> Markup:
    rows = [
        Bar(
            label=f"#{i} {_short(d)}",
            value=1e6 * d.roofline.seconds,
            text=f"{time_text(d.roofline.seconds)}, {d.roofline.bound}{_guess(d)}",
            about="\n".join(_parts(d)),
            series=_BOUND[d.roofline.bound],
        )
        for i, d in enumerate(found.dispatches)
        if d.roofline is not None
    ]
    return bars("least time of each dispatch", rows, unit="µs, at least")


def _guess(dispatch: Dispatch) -> str:
    if dispatch.estimate is None:
        return ""
    return f"; estimate {time_text(dispatch.estimate.seconds)}, {dispatch.estimate.bound}"


def _short(dispatch: Dispatch) -> str:
    return dispatch.name.removeprefix("main$async_").removeprefix("dispatch_")


def _parts(dispatch: Dispatch) -> Iterator[str]:
    r = dispatch.roofline
    assert r is not None
    yield ", ".join(dispatch.nodes) or "(moves data)"
    times = (("memory", r.memory_s), ("matrix", r.matrix_s), ("vector", r.vector_s))
    yield from (f"{name}: {time_text(seconds)}" for name, seconds in times if seconds)


def _dispatches(dispatches: Sequence[Dispatch]) -> Markup:
    kernels = any(d.kernel for d in dispatches)
    headers = ["#", "name", "nodes", "reads", "writes", "FLOP", "bytes", "code", "tiles"]
    headers += ["VGPRs", "AGPRs", "SGPRs", "spills", "LDS", "MFMA", "occupancy"] if kernels else []
    return table(
        "dispatches", headers, [list(_row(i, d, kernels)) for i, d in enumerate(dispatches)]
    )


def _row(i: int, d: Dispatch, kernels: bool) -> Iterator[object]:
    c = d.config
    yield f"#{i}"
    yield _short(d) + (" (once, at load)" if d.at_load else "")
    yield long_text(", ".join(d.nodes) or "(moves data)")
    yield long_text(", ".join(d.reads))
    yield long_text(", ".join(d.writes))
    yield f"{si(d.work.flops)}".strip()
    yield bytes_text(d.work.nbytes) if d.work.nbytes else ""
    size = "×".join(map(str, c.workgroup_size))
    groups = f", workgroup {size}" if size else ""
    yield long_text(f"{c.pipeline or '(no pipeline)'}{groups}")
    yield long_text(", ".join(f"{key} {value}" for key, value in c.lowering.items()))
    if not kernels:
        return
    k, o = d.kernel, d.occupancy
    if k is None:
        yield from (None,) * 7
        return
    yield from (k.vgprs, k.agprs, k.sgprs, k.vgpr_spills + k.sgpr_spills)
    yield bytes_text(k.lds_bytes)
    yield long_text(", ".join(f"{n} {name}" for name, n in sorted(k.mfma.items())) or "none")
    if o is None:
        yield None
        return
    yield long_text(
        f"{o.waves_per_simd} of {o.max_waves_per_simd} waves, by {' and '.join(o.limited_by)}"
    )


def _roofline(found: Inspection) -> Iterator[Markup]:
    """Yield the roofline; nothing was measured, so work lies where it can be at best."""
    if found.sheet is None:
        return
    points = [
        Point(
            x=d.roofline.intensity,
            y=d.work.flops / d.roofline.seconds,
            label=f"#{i}",
            about=f"#{i} {_short(d)}\n" + "\n".join(_parts(d)),
            series=_BOUND[d.roofline.bound],
        )
        for i, d in enumerate(found.dispatches)
        if d.roofline and d.work.flops and d.work.nbytes and d.roofline.seconds
    ]
    title = f"what an {found.sheet.sku.upper()} allows each dispatch"
    chart = roofline(title, points, _roofs(found, found.sheet), found.sheet.bytes_per_s)
    if chart:
        yield element("p", f"At best: {title}.", class_="hint")
        yield chart


def _roofs(found: Inspection, sheet: Sheet) -> list[Roof]:
    peaks = {d.roofline.ridge * sheet.bytes_per_s for d in found.dispatches if d.roofline}
    matrix = sorted(peak for peak in peaks if peak > 1.001 * sheet.vector_flops)
    roofs = [Roof(label=f"matrix peak, {si(peak)}FLOP/s", peak=peak) for peak in matrix[::-1]]
    vector = sheet.vector_flops
    return [*roofs, Roof(label=f"vector peak, {si(vector)}FLOP/s", peak=vector)]


def _warnings(found: Inspection) -> Markup:
    items = [
        element(
            "li",
            f"{n.rule}: {n.text}",
            f" ({', '.join(n.nodes)})" if n.nodes else None,
            f"; {n.hint}" if n.hint else None,
        )
        for n in found.notices
    ]
    return element("ul", *items) if items else Markup()
