"""`matmul` on the wire."""

from __future__ import annotations

from ...ops.matmul import Matmul
from .wire_form import COSTS, WireForm, uids

FORM = WireForm(Matmul, code=9, fields=(*uids("a", "b", "c"), *COSTS))
