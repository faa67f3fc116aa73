# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Errors in one line, as records and the progress of surveys have them."""

from __future__ import annotations

from hipdnn_iree.graph_api.errors import HipdnnIreeError

from tools.survey.emulated_run import RunError

__all__ = ["brief"]


def brief(error: Exception) -> str:
    """Return the first line of an error that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = (lines or [""])[0][:300]
    known = isinstance(error, HipdnnIreeError | TimeoutError | RunError)
    return text if known and text else f"{type(error).__name__}: {text}"
