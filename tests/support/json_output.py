# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What commands print with ``--json``, held against the published forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hipdnn_iree.provider.cli.json_forms import FORMS, Failure
from msgspec import ValidationError, convert

__all__ = ["checked"]

_ABOUT = ("schema_version", "command")


def checked(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a command printed without its version and name, or raise `ValidationError`.

    A key that is new belongs into ``provider/cli/json_forms/`` and into the table ``JSON``.
    """
    if not set(_ABOUT) & set(found) and {"nodes", "tensors"} <= set(found):
        return dict(found)  # hipDNN's graph JSON
    alone = set(found) == {*_ABOUT, "error"}
    forms = (Failure,) if alone else FORMS.get(str(found.get("command")), ())
    errors = []
    for form in forms:
        try:
            convert(found, form)
        except ValidationError as error:
            errors.append(f"{form.__name__}: {error}")
        else:
            return {key: value for key, value in found.items() if key not in _ABOUT}
    raise ValidationError(f"{found.get('command')!r} prints no form of its own: {errors}")
