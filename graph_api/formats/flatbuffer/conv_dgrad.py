"""`conv_dgrad` on the wire."""

from __future__ import annotations

from ...ops.conv_dgrad import ConvDgrad
from .conv_fprop import GEOMETRY
from .wire_form import WireForm, uids

FORM = WireForm(ConvDgrad, code=6, fields=(*uids("dy", "w", "dx"), *GEOMETRY))
