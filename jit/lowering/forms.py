"""All forms of all ops, and which of them a graph gets: by rule, or as ``compiler.forms`` says.

Costs nothing to import beside `graph_api`: settings, cache keys and `Engine.knobs` ask here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ...graph_api.errors import SettingError
from ...graph_api.frozen import FrozenGraph
from ..target import Target
from . import forms_conv, forms_moe, forms_other
from .form import Form, Site

__all__ = [
    "AUTO",
    "FORMS",
    "Choice",
    "Forms",
    "choices",
    "choose",
    "flags_of",
    "merged",
]

AUTO = "auto"
"""Every node gets what the rules choose for it."""
PLAIN = "plain"
ALL = "all"

_VARIABLE = "HIPDNN_IREE_FORMS"


@dataclass(frozen=True, slots=True)
class Forms:
    """The forms of one op.

    Attributes
    ----------
    table : tuple of Form
    rule : callable
        Returns the name of the form that a node gets by default; it fits.
    """

    table: tuple[Form, ...]
    rule: Callable[[Site], str]

    def named(self, name: str) -> Form:
        """Return the form of a name."""
        return next(form for form in self.table if form.name == name)


FORMS: Mapping[str, Forms] = {
    "conv_dgrad": Forms(forms_conv.DGRAD, forms_conv.dgrad_rule),
    "conv_fprop": Forms(forms_conv.FPROP, forms_conv.fprop_rule),
    "conv_wgrad": Forms(forms_conv.WGRAD, forms_conv.wgrad_rule),
    "matmul": Forms(forms_other.MATMUL, forms_other.matmul_rule),
    "moe_grouped_matmul": Forms(forms_moe.MOE, forms_moe.moe_rule),
    "moe_grouped_matmul_bwd": Forms(forms_moe.MOE_BWD, forms_moe.moe_bwd_rule),
    "sdpa": Forms(forms_other.SDPA, forms_other.sdpa_rule),
}
"""The ops that have more than one form, by name."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What the nodes of one op in a graph can be.

    Attributes
    ----------
    names : tuple of str
        The forms that fit all of them; ``"auto"`` first where the rules choose several.
    default : str
        One of the names.
    tried : tuple of str
        Those that autotuning measures.
    """

    names: tuple[str, ...]
    default: str
    tried: tuple[str, ...]


def choices(graph: FrozenGraph, target: Target) -> dict[str, Choice]:
    """Return what can be chosen for each op of a graph, where there is a choice."""
    found = {}
    for op, forms in FORMS.items():
        sites = [Site(graph, node, target) for node in graph.nodes if op == node.op.NAME]
        if not sites:
            continue
        names = [f for f in forms.table if all(f.fits(site) for site in sites)]
        by_rule = {forms.rule(site) for site in sites}
        common = len(by_rule) == 1
        default = by_rule.pop() if common else AUTO
        listed = (*(() if common else (AUTO,)), *(f.name for f in names))
        tried = tuple(n for n in listed if n == default or forms.named(n).tried)
        if len(listed) > 1:
            found[op] = Choice(listed, default, tried)
    return found


def choose(graph: FrozenGraph, target: Target, wanted: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the form of each node; empty for those whose op has one form only.

    Parameters
    ----------
    graph : FrozenGraph
    target : Target
    wanted : iterable of str
        ``op=form`` as in the setting ``compiler.forms``: for all nodes of the op.  ``all=plain``
        is for every node that a form of that name fits.

    Raises
    ------
    SettingError
        If an op or form is unknown, or does not fit one of the op's nodes; with all of them.
    """
    asked = dict(text.partition("=")[::2] for text in wanted)
    wrong = list(_unknown(asked))
    everything = asked.pop(ALL, AUTO)
    found = []
    for node in graph.nodes:
        known = FORMS.get(node.op.NAME)
        if known is None:
            found.append("")
            continue
        site, name = Site(graph, node, target), asked.get(node.op.NAME, "")
        fitting = [form.name for form in known.table if form.fits(site)]
        if not name:
            name = everything if everything in fitting else AUTO
        if name != AUTO and name not in fitting and not wrong:
            why = known.named(name).why
            wrong.append(
                f"{_VARIABLE} asks for form {name!r} of {node.op.NAME}, which does not fit node "
                f"{node.label!r} for {target} (it is for {why}); {', '.join(fitting)} do"
            )
        found.append(known.rule(site) if name == AUTO else name)
    if wrong:
        raise SettingError("\n".join(wrong))
    return tuple(found)


def flags_of(graph: FrozenGraph, chosen: Iterable[str]) -> tuple[str, ...]:
    """Return the compiler flags that the chosen forms need."""
    found: dict[str, None] = {}
    for node, name in zip(graph.nodes, chosen, strict=True):
        if name:
            found.update(dict.fromkeys(FORMS[node.op.NAME].named(name).flags))
    return tuple(found)


def merged(wanted: Iterable[str], more: Mapping[str, str]) -> tuple[str, ...]:
    """Return ``op=form`` texts with the forms of some ops replaced, as the setting takes them."""
    found = {**dict(text.partition("=")[::2] for text in wanted), **more}
    return tuple(f"{op}={name}" for op, name in sorted(found.items()))


def _unknown(asked: Mapping[str, str]) -> Iterable[str]:
    for op, name in asked.items():
        if op == ALL:
            names = [PLAIN, AUTO]
        elif op in FORMS:
            names = [AUTO, *(form.name for form in FORMS[op].table)]
        else:
            yield f"{_VARIABLE} names {op!r}; ops with forms are {', '.join(FORMS)}, or {ALL}"
            continue
        if name not in names:
            yield f"{_VARIABLE} asks for form {name!r} of {op}; allowed: {' | '.join(names)}"
