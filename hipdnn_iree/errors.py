# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every error of the project under its public name; ``docs/errors.md`` has the guarantees after it.

``except hipdnn_iree.GraphError`` and ``except hipdnn_iree.errors.GraphError`` are the same.
"""

from .graph_api.errors import (
    ArtifactError,
    BindError,
    CompileError,
    Decline,
    DeviceError,
    FormatError,
    GraphError,
    HipdnnIreeError,
    NotPrecompiledError,
    NotSupportedError,
    Problem,
    SettingError,
    TriedAttempt,
)

__all__ = [
    "ArtifactError",
    "BindError",
    "CompileError",
    "Decline",
    "DeviceError",
    "FormatError",
    "GraphError",
    "HipdnnIreeError",
    "NotPrecompiledError",
    "NotSupportedError",
    "Problem",
    "SettingError",
    "TriedAttempt",
]
