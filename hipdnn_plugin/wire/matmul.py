"""`matmul` on the wire."""

from __future__ import annotations

from ...graph_api.ops.matmul import Matmul
from .form import COSTS, WireForm, uids

FORM = WireForm(Matmul, code=9, fields=(*uids("a", "b", "c"), *COSTS))
