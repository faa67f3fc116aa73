"""The policy ``config``: hipDNN's engine override rules.

The file is JSON: ``{"version": 2, "engine_overrides": [rule, ...]}``.  A rule has ``op``,
``engine_name`` (a name or an id), ``tensors`` (of each ``dim``, ``stride`` unless any will do,
and from version 2 on ``tensor_id``) and ``criteria`` (of some ops, their mode).  A number of -1
stands for any.  Tensors of version 1 are matched by position.  The first rule that matches the
graph decides; when its engine does not serve the graph, the policy has no opinion, as in hipDNN.

hipDNN keeps the knobs of a winner as a note in ``autotune_metadata``; here they are applied where
the engine has them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .candidate import Asked, Candidate, with_choice
from .files import Watched
from .match_key import MatchKey, MatchTensor, match_keys
from .order import id_of, in_order

__all__ = ["Pattern", "Rule", "find", "policy", "read_rules", "rules_text"]

log = logging.getLogger("hipdnn_iree.selection")

ANY = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class Pattern:
    """One tensor of a rule; an empty id is matched by position, empty strides are any."""

    id: str = ""
    dims: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()

    def matches(self, tensor: MatchTensor) -> bool:
        """Whether a tensor is as the pattern says."""
        return _fits(self.dims, tensor.dims) and (
            not self.strides or _fits(self.strides, tensor.strides)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """One override: which engine for which operation."""

    op: str
    engine: str
    criteria: tuple[tuple[str, int], ...] = ()
    tensors: tuple[Pattern, ...] = ()
    named: bool = True
    knobs: Mapping[str, str] = field(default_factory=dict, hash=False)

    def matches(self, key: MatchKey) -> bool:
        """Whether an operation is the one of the rule."""
        if (self.op, self.criteria, len(self.tensors)) != (
            key.op,
            key.criteria,
            len(key.tensors),
        ):
            return False
        if not self.named:
            pairs = zip(self.tensors, key.tensors, strict=True)
            return all(pattern.matches(tensor) for pattern, tensor in pairs)
        by_id = {tensor.id: tensor for tensor in key.tensors}
        return all(p.id in by_id and p.matches(by_id[p.id]) for p in self.tensors)


def _fits(pattern: Sequence[int], actual: Sequence[int]) -> bool:
    return len(pattern) == len(actual) and all(
        p in (ANY, a) for p, a in zip(pattern, actual, strict=True)
    )


def policy(asked: Asked) -> list[Candidate] | None:
    """Put the engine of the first matching rule first; the others follow in the fixed order."""
    path = asked.settings.engine_config
    found = find(asked, _watched(path)) if path is not None else None
    if found is None:
        return None
    rule, chosen = found
    knobs = with_choice(chosen, rule.knobs)
    why = f"a rule for {rule.op} in {path}"
    first = chosen.chosen_by("config", chosen.choice if knobs is None else knobs, why)
    others = in_order([c for c in asked.candidates if c is not chosen], asked.settings)
    return [first, *(c.chosen_by("config", c.choice, "after the rule's engine") for c in others)]


def find(asked: Asked, rules: Sequence[Rule]) -> tuple[Rule, Candidate] | None:
    """Return the first rule that matches the graph, and its engine, if that serves the graph."""
    keys = match_keys(asked.graph)
    rule = next((r for r in rules if any(r.matches(key) for key in keys)), None)
    if rule is None:
        return None
    wanted = id_of(rule.engine, asked.settings)
    chosen = next((c for c in asked.candidates if c.engine.id == wanted), None)
    return None if chosen is None else (rule, chosen)


def _read(path: Path) -> tuple[Rule, ...]:
    try:
        return read_rules(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        log.warning("engine rules in %s are ignored: %s", path, error)
        return ()


_watched = Watched(_read)


def read_rules(text: str) -> tuple[Rule, ...]:
    """Return the rules of a file.

    Raises
    ------
    ValueError
        If it is no such file, or a rule is not well formed: then none of them counts, as in
        hipDNN.
    """
    data = json.loads(text)
    if not isinstance(data, dict) or not isinstance(data.get("engine_overrides"), list):
        raise ValueError("wanted an object with a list 'engine_overrides'")
    version = data.get("version", 1)
    if not _whole(version):
        raise ValueError(f"version {version!r} is no whole number")
    return tuple(
        _rule(item, f"engine_overrides[{i}]", named=version >= 2)
        for i, item in enumerate(data["engine_overrides"])
    )


def _rule(item: Any, where: str, *, named: bool) -> Rule:
    if not isinstance(item, dict):
        raise ValueError(f"{where} is no object")
    for name in ("op", "engine_name"):
        if not isinstance(item.get(name), str):
            raise ValueError(f"{where}.{name} is no text")
    criteria, tensors = item.get("criteria", {}), item.get("tensors")
    if not isinstance(criteria, dict) or not all(map(_whole, criteria.values())):
        raise ValueError(f"{where}.criteria is no object of whole numbers")
    if not isinstance(tensors, list):
        raise ValueError(f"{where}.tensors is no list")
    patterns = tuple(
        _pattern(t, f"{where}.tensors[{i}]", named=named) for i, t in enumerate(tensors)
    )
    if named and len({p.id for p in patterns}) != len(patterns):
        raise ValueError(f"{where}.tensors has one tensor_id twice")
    return Rule(
        op=item["op"],
        engine=item["engine_name"],
        criteria=tuple(sorted(criteria.items())),
        tensors=patterns,
        named=named,
        knobs=_knobs(item.get("autotune_metadata")),
    )


def _pattern(item: Any, where: str, *, named: bool) -> Pattern:
    if not isinstance(item, dict):
        raise ValueError(f"{where} is no object")
    if named and not isinstance(item.get("tensor_id"), str):
        raise ValueError(f"{where}.tensor_id is no text")
    for name in ("dim", "stride"):
        numbers = item.get(name, [] if name == "stride" else None)
        if not isinstance(numbers, list) or not all(map(_whole, numbers)):
            raise ValueError(f"{where}.{name} is no list of whole numbers")
    return Pattern(
        id=item.get("tensor_id", ""),
        dims=tuple(item["dim"]),
        strides=tuple(item.get("stride", ())),
    )


def _knobs(metadata: Any) -> dict[str, str]:
    """Return the knobs that a tuner noted; what is not understood is no knob of ours."""
    found = metadata.get("knobs", []) if isinstance(metadata, dict) else []
    pairs = [k for k in found if isinstance(k, dict)] if isinstance(found, list) else []
    return {str(k["knob_id"]): str(k["value"]) for k in pairs if {"knob_id", "value"} <= k.keys()}


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def rules_text(rules: Sequence[tuple[Rule, Mapping[str, Any]]]) -> str:
    """Return the file of some rules, each with its ``autotune_metadata``."""
    return json.dumps(
        {"version": 2, "engine_overrides": [_written(rule, more) for rule, more in rules]},
        indent=2,
    )


def _written(rule: Rule, metadata: Mapping[str, Any]) -> dict[str, Any]:
    knobs = [{"knob_id": k, "type": "string", "value": v} for k, v in rule.knobs.items()]
    return {
        "op": rule.op,
        "engine_name": rule.engine,
        **({"criteria": dict(rule.criteria)} if rule.criteria else {}),
        "tensors": [
            {"tensor_id": p.id, "dim": list(p.dims), "stride": list(p.strides)}
            for p in rule.tensors
        ],
        "autotune_metadata": {**metadata, **({"knobs": knobs} if knobs else {})},
    }
