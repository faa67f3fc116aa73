"""`batchnorm` (training) on the wire."""

from __future__ import annotations

from ...ops.batchnorm import Batchnorm
from .wire_form import WireForm, uid, uid_list, uids

FORM = WireForm(
    Batchnorm,
    code=4,
    fields=(
        *uids("x", "scale", "bias", "epsilon"),
        uid_list("peer_stats"),
        *uids("prev_running_mean", "prev_running_variance", "momentum", optional=True),
        uid("y"),
        *uids("mean", "inv_variance", "next_running_mean", "next_running_variance", optional=True),
    ),
)
