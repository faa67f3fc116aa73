"""`conv_wgrad` on the wire."""

from __future__ import annotations

from ...ops.conv_wgrad import ConvWgrad
from .conv_fprop import GEOMETRY
from .wire_form import WireForm, uids

FORM = WireForm(ConvWgrad, code=7, fields=(*uids("x", "dy", "dw"), *GEOMETRY))
