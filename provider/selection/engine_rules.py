# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""hipDNN's engine override rules: what a file of them may hold.

``docs/reference/engine_rules.schema.json`` is made from these classes, and files are read and
written by them.  hipDNN keeps the knobs of a winner as a note in ``autotune_metadata``; here they
are applied where the engine has them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct, to_builtins
from msgspec.json import decode

from .match_key import MatchKey, MatchTensor

__all__ = ["EngineRule", "EngineRules", "TensorPattern", "read_rules", "rules_text"]

Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

ANY = -1


class TensorPattern(Struct, frozen=True, kw_only=True):
    """An input of the operation; -1 stands for any number.

    Attributes
    ----------
    tensor_id
        Its name in hipDNN's schema; needed from version 2 on.
    dim
        Its dims.
    stride
        Its strides; any, where none are given.
    """

    tensor_id: str | None = None
    dim: tuple[Int64, ...]
    stride: tuple[Int64, ...] = ()

    def matches(self, tensor: MatchTensor) -> bool:
        """Whether a tensor is as the pattern says."""
        return _fits(self.dim, tensor.dims) and (
            not self.stride or _fits(self.stride, tensor.strides)
        )


class EngineRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The engine for an operation.

    Attributes
    ----------
    op
        The operation, by its name in hipDNN.
    engine_name
        A name or an id.
    criteria
        Of some operations, the numbers of their modes.
    tensors
        The inputs.
    autotune_metadata
        Notes of who made the rule; `knobs` in them (a list of objects with `knob_id` and `value`)
        are applied where the engine has them.
    """

    op: str
    engine_name: str
    criteria: dict[str, Int64] = {}
    tensors: tuple[TensorPattern, ...]
    autotune_metadata: Any = None

    @property
    def knobs(self) -> dict[str, str]:
        """The knobs that a tuner noted; what is not understood is no knob of ours."""
        notes = self.autotune_metadata
        found = notes.get("knobs") if isinstance(notes, dict) else None
        pairs = [k for k in found if isinstance(k, dict)] if isinstance(found, list) else []
        return {
            str(k["knob_id"]): str(k["value"])
            for k in pairs
            if all(isinstance(k.get(name), str | int | float) for name in ("knob_id", "value"))
        }

    def matches(self, key: MatchKey, *, named: bool) -> bool:
        """Whether an operation is that of the rule, its tensors found by id or by position."""
        if self.op != key.op or self.criteria != dict(key.criteria):
            return False
        if len(self.tensors) != len(key.tensors):
            return False
        if not named:
            pairs = zip(self.tensors, key.tensors, strict=True)
            return all(pattern.matches(tensor) for pattern, tensor in pairs)
        by_id = {tensor.id: tensor for tensor in key.tensors}
        found = [(pattern, by_id.get(pattern.tensor_id or "")) for pattern in self.tensors]
        return all(tensor is not None and pattern.matches(tensor) for pattern, tensor in found)


class EngineRules(Struct, frozen=True, kw_only=True):
    """A file of engine override rules; the first one that matches a graph decides.

    Attributes
    ----------
    version
        In version 1 tensors are matched by position, from version 2 on by id.
    engine_overrides
        The rules.
    """

    version: Int64 = 1
    engine_overrides: tuple[EngineRule, ...]

    def __post_init__(self) -> None:
        for i, rule in enumerate(self.engine_overrides if self.named else ()):
            ids = [pattern.tensor_id for pattern in rule.tensors]
            if None in ids:
                raise ValueError(f"engine_overrides[{i}].tensors has one without a tensor_id")
            if len(set(ids)) != len(ids):
                raise ValueError(f"engine_overrides[{i}].tensors has one tensor_id twice")

    @property
    def named(self) -> bool:
        """Whether tensors are found by id."""
        return self.version >= 2

    def first(self, keys: Sequence[MatchKey]) -> EngineRule | None:
        """Return the first rule that matches one of the operations."""
        rules = self.engine_overrides
        return next((r for r in rules if any(r.matches(k, named=self.named) for k in keys)), None)


def _fits(pattern: Sequence[int], actual: Sequence[int]) -> bool:
    return len(pattern) == len(actual) and all(
        p in (ANY, a) for p, a in zip(pattern, actual, strict=True)
    )


def read_rules(text: str) -> EngineRules:
    """Return the rules of a file.

    Raises
    ------
    ValueError
        If it is no such file, or a rule is not well formed: then none of them counts, as in
        hipDNN.
    """
    try:
        return decode(text, type=EngineRules)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def rules_text(rules: Sequence[EngineRule]) -> str:
    """Return the file of some rules."""
    data = to_builtins(EngineRules(version=2, engine_overrides=tuple(rules)))
    return json.dumps(data, indent=2)
