"""`batchnorm_backward` on the wire."""

from __future__ import annotations

from ...ops.batchnorm_backward import BatchnormBackward
from .wire_form import WireForm, uid, uid_list, uids

FORM = WireForm(
    BatchnormBackward,
    code=3,
    fields=(
        *uids("dy", "x"),
        *uids("mean", "inv_variance", optional=True),
        uid("scale"),
        uid_list("peer_stats"),
        *uids("dx", "dscale", "dbias"),
    ),
)
