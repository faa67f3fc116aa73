# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""JSON that notices damage: its first member is the SHA-256 of all that follows.

::

    {"seal": "9f86d0…",
     "schema": 1, …}

The seal is looked at before anything is parsed.  It is against damage, not against forgery.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

__all__ = ["begins_sealed", "seal", "unseal"]

_SEAL = re.compile(rb'\{"seal": "([0-9a-f]{64})",\n')


def seal(body: dict[str, Any]) -> bytes:
    """Return an object as JSON with a seal; TypeError or ValueError if it is no JSON."""
    rest = json.dumps(body, indent=1, allow_nan=False).removeprefix("{\n").encode() + b"\n"
    return b'{"seal": "%s",\n' % hashlib.sha256(rest).hexdigest().encode() + rest


def begins_sealed(data: bytes) -> bool:
    """Whether bytes begin with a seal, right or wrong."""
    return _SEAL.match(data) is not None


def unseal(data: bytes) -> dict[str, Any]:
    """Return the object that `seal` wrote, without the seal.

    Raises
    ------
    ValueError
        With what is wrong, to follow the name of the file.
    """
    found = _SEAL.match(data)
    if found is None:
        raise ValueError("does not begin with a seal")
    rest = data[found.end() :]
    if hashlib.sha256(rest).hexdigest().encode() != found[1]:
        raise ValueError("is not what was written (its seal does not fit)")
    try:
        body: dict[str, Any] = json.loads(b"{" + rest)
    except (ValueError, RecursionError) as exc:
        raise ValueError(f"is not JSON ({exc})") from None
    return body
